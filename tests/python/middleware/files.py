"""An agent with tools that leave a trace, for tests of the middleware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitl import tool
from hitl.middleware import HumanInTheLoopMiddleware, ToolCallAgent
from hitl.testing import ScriptedChatClient
from hitl.tools.definition import Tool

Call = tuple[str, dict[str, Any]]

DONE = {"content": "done"}


@dataclass
class Office:
    """Tools, and what they did."""

    effects: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def tools(self) -> list[Tool[..., Any]]:
        """`delete_file(path)`, `send_email(to, subject)` and `look(path)`; none is gated by itself."""

        async def delete_file(path: str) -> str:
            self.effects.append(("delete_file", path))
            return f"deleted {path}"

        def send_email(to: str, subject: str = "") -> str:
            self.effects.append(("send_email", to, subject))
            return f"sent to {to}"

        async def look(path: str) -> str:
            self.effects.append(("look", path))
            return f"{path}: 3 files"

        return [tool(delete_file), tool(send_email), tool(look)]


def calls(*made: Call) -> dict[str, Any]:
    """A model's reply that calls tools at once."""
    return {"tool_calls": [{"name": name, "args": args} for name, args in made]}


DELETE = calls(("delete_file", {"path": "/a"}))
DELETE_TWO = calls(("delete_file", {"path": "/a"}), ("look", {"path": "/b"}), ("delete_file", {"path": "/c"}))
MIXED = calls(
    ("look", {"path": "/x"}), ("delete_file", {"path": "/a"}), ("send_email", {"to": "ann", "subject": "hello"})
)


def office_agent(
    office: Office,
    *replies: dict[str, Any],
    interrupt_on: dict[str, Any] | None = None,
    middleware: Sequence[Any] | None = None,
    tools: Sequence[Any] | None = None,
    store: Any = None,
    name: str | None = None,
    approval_callback: Callable[..., Any] | None = None,
    interrupt_mode: Any = "batched",
) -> ToolCallAgent:
    """An agent whose model says `replies`; `delete_file` and `send_email` wait unless `interrupt_on` says otherwise."""
    given = office.tools if tools is None else tools
    gates = interrupt_on
    if gates is None:
        gates = {each.name: True for each in given if each.name in ("delete_file", "send_email")}
    gate = HumanInTheLoopMiddleware(gates, approval_callback, interrupt_mode)
    return ToolCallAgent(
        client=ScriptedChatClient(replies),
        tools=given,
        middleware=[gate] if middleware is None else middleware,
        store=store,
        name=name,
    )


def thread(name: str = "1") -> dict[str, Any]:
    """The config of a thread."""
    return {"configurable": {"thread_id": name}}


def told(result: dict[str, Any]) -> list[str]:
    """What the model was told by the tools of the conversation, in the order of its calls."""
    return [message.content for message in result["messages"] if message.role == "tool"]
