"""Agents whose hook asks about one tool, for the tests of `hitl.hooks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hitl.hooks import Agent, BeforeToolCallEvent, HookProvider, HookRegistry, Interrupt, tool
from hitl.testing import ScriptedChatClient

Callback = Callable[[BeforeToolCallEvent], Any]


class Hooks(HookProvider):
    """Registers the given callbacks."""

    def __init__(self, *callbacks: Callback) -> None:
        self.callbacks = callbacks

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        for callback in self.callbacks:
            registry.add_callback(BeforeToolCallEvent, callback)


def approve(event: BeforeToolCallEvent) -> None:
    """Asks about `delete_tool`; anything but "A" cancels."""
    if event.tool_use["name"] == "delete_tool" and event.interrupt("for_delete_tool", reason="APPROVAL") != "A":
        event.cancel_tool = "approval was not granted"


class Deleted(list[str]):
    """A tool that deletes, and what it deleted."""

    @property
    def tool(self) -> Any:
        @tool
        def delete_tool(key: str) -> bool:
            """Delete an object."""
            self.append(key)
            return True

        return delete_tool


def delete(*keys: str, ids: list[str] | None = None) -> dict[str, Any]:
    """A reply of a model that deletes."""
    calls = [{"name": "delete_tool", "args": {"key": key}} for key in keys]
    for call, id in zip(calls, ids or (), strict=False):
        call["id"] = id
    return {"tool_calls": calls}


def make(script: list[dict[str, Any]], *callbacks: Callback, tools: list[Any], **options: Any) -> Agent:
    """An agent with a scripted model."""
    return Agent(client=ScriptedChatClient(script), hooks=[Hooks(*callbacks)], tools=tools, **options)


def told(agent: Agent) -> list[str]:
    """What the model was told of its calls, in the last request."""
    client: Any = agent._agent._client
    return [message["content"] for message in client.requests[-1]["messages"] if message["role"] == "tool"]


def answer(*interrupts: Interrupt, response: Any = "A") -> list[Any]:
    """The same answer to each."""
    return [{"interruptResponse": {"interruptId": each.id, "response": response}} for each in interrupts]
