"""Agents whose tool is let run by an answer that is no decision: of a hook, middleware, a guardrail, a policy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hitl import ChatMessage, ReActAgent, interrupt, tool
from hitl.agents.seams import HookCall, ToolCallRequest
from hitl.hooks import Agent, BeforeToolCallEvent, HookProvider, HookRegistry
from hitl.middleware import AgentMiddleware
from hitl.testing import ScriptedChatClient

QUESTION = {"type": "gate", "prompt": "May it?"}
YES = {"ok": True}


async def allowed(**options: Any) -> bool:
    """Whether a person says so."""
    return bool(await interrupt(QUESTION, **options) == YES)


def note(what: str) -> None:
    """Write down what happened, where a test said where to."""
    with (Path(os.environ["FOLDER"]) / "done").open("a") as done:
        done.write(f"{what}\n")


@tool
async def pay(cents: int) -> str:
    """Pay."""
    note(f"paid {cents}")
    if (Path(os.environ["FOLDER"]) / "crash").exists():
        (Path(os.environ["FOLDER"]) / "crash").unlink()
        os._exit(9)
    return f"paid {cents}"


async def asking_hook(call: HookCall) -> str | None:
    return None if await allowed() else "not allowed"


async def hook_for_finance(call: HookCall) -> str | None:
    return None if await allowed(approvers=["bob"]) else "not allowed"


def plain_hook(call: HookCall) -> str | None:
    return None if interrupt.sync(QUESTION) == YES else "not allowed"


class AroundCalls(AgentMiddleware):
    async def awrap_tool_call(self, request: ToolCallRequest, handler: Any) -> ChatMessage:
        if await allowed():
            message: ChatMessage = await handler(request)
            return message
        return ChatMessage.tool_message(content="no", tool_call_id=request.tool_call["id"], name="pay")


class AfterModel(AgentMiddleware):
    async def aafter_model(self, state: dict[str, Any], runtime: Any) -> None:
        if state["messages"][-1].tool_calls and not await allowed():
            raise PermissionError("not allowed")


async def asking_policy(context: Any, args: dict[str, Any]) -> bool:
    return not await allowed()


async def asking_guardrail(cents: int) -> None:
    if not await allowed():
        raise PermissionError("not allowed")


class Callbacks(HookProvider):
    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.approve)

    def approve(self, event: BeforeToolCallEvent) -> None:
        if event.interrupt("approval", reason="May it?", approvers=None) != YES:
            event.cancel_tool = "not allowed"


class CallbacksForBob(Callbacks):
    def approve(self, event: BeforeToolCallEvent) -> None:
        if event.interrupt("approval", reason="May it?", approvers=["bob"]) != YES:
            event.cancel_tool = "not allowed"


@tool
async def ask_inside() -> str:
    """Ask the user something that lets nothing run."""
    return str(await interrupt({"type": "color_picker"}))


def script(name: str = "pay", **args: Any) -> ScriptedChatClient:
    return ScriptedChatClient([{"tool_calls": [{"name": name, "args": args}]}, {"content": "done"}])


def react(**options: Any) -> ReActAgent:
    return ReActAgent(client=script(cents=5), name="clerk", **{"tools": [pay], **options})


GATED: dict[str, Any] = {
    "hook": react(hooks=[asking_hook]),
    "plain hook": react(hooks=[plain_hook]),
    "callback": Agent(client=script(cents=5), tools=[pay], hooks=[Callbacks()]),
    "around calls": react(middleware=[AroundCalls()]),
    "after the model": react(middleware=[AfterModel()]),
    "policy": react(tools=[tool(pay, requires_approval=asking_policy)]),
    "guardrail": react(tools=[tool(pay, input_guardrails=[asking_guardrail])]),
}
FOR_BOB: dict[str, Any] = {
    "hook for bob": react(hooks=[hook_for_finance]),
    "callback for bob": Agent(client=script(cents=5), tools=[pay], hooks=[CallbacksForBob()]),
}
OTHERS: dict[str, Any] = {
    # What stands around a tool does not make an approval of what the tool itself asks.
    "question": ReActAgent(client=script("ask_inside"), tools=[ask_inside], middleware=[AgentMiddleware()]),
    "question inside": ReActAgent(client=script("ask_inside"), tools=[ask_inside], hooks=[lambda call: None]),
}


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """The agent that the message names."""
    chosen = {**GATED, **FOR_BOB, **OTHERS}[message.content or ""]
    answered: tuple[ChatMessage, list[ChatMessage]] = await chosen.run_turn(message, state)
    return answered
