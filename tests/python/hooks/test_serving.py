"""The same agent behind a server: its interrupts are interrupts there, too."""

from __future__ import annotations

from typing import Any

from hitl.hooks import BeforeToolCallEvent
from tests.python.hooks.asking import Deleted, delete, make


def test_a_served_agent_asks_over_http(hitl_server: Any, human: Any) -> None:
    deleted = Deleted()

    def ask(event: BeforeToolCallEvent) -> None:
        if event.interrupt("approval", reason="It is the last one.") != {"ok": True}:
            event.cancel_tool = "no"

    human.on_type("hook_interrupt").answer({"ok": True})
    server = hitl_server(make([delete("X"), {"content": "done"}], ask, tools=[deleted.tool]))
    assert server.send("go").content == "done"
    (seen,) = human.seen
    assert seen.message == "It is the last one."
    shown = {name: seen.payload[name] for name in ("name", "reason", "tool_name", "tool_args")}
    assert shown == {
        "name": "approval",
        "reason": "It is the last one.",
        "tool_name": "delete_tool",
        "tool_args": {"key": "X"},
    }
    assert deleted == ["X"]
