"""The example of the system whose words these are; only the import and the model are ours."""

from __future__ import annotations

from typing import Any

import pytest

from hitl.hooks import Agent, BeforeToolCallEvent, HookProvider, HookRegistry, tool
from hitl.testing import ScriptedChatClient


@tool
def delete_tool(key: str) -> bool:
    print("DELETE_TOOL | deleting")
    return True


class ToolInterruptHook(HookProvider):
    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.approve)

    def approve(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] != "delete_tool":
            return

        approval = event.interrupt("for_delete_tool", reason="APPROVAL")
        if approval != "A":
            event.cancel_tool = "approval was not granted"


@pytest.mark.parametrize(("given", "deletes"), [("A", True), ("D", False)])
def test_it_works_with_the_import_changed(given: str, deletes: bool, capsys: pytest.CaptureFixture[str]) -> None:
    client = ScriptedChatClient(
        [{"tool_calls": [{"name": "delete_tool", "args": {"key": "X"}}]}, {"content": "It is gone."}]
    )
    agent = Agent(
        client=client,
        hooks=[ToolInterruptHook()],
        tools=[delete_tool],
        system_prompt="You delete objects given their keys.",
        callback_handler=None,
    )
    result = agent("delete object with key 'X'")

    assert result.stop_reason == "interrupt"
    assert capsys.readouterr().out == ""
    responses = []
    for interrupt in result.interrupts:
        if interrupt.name == "for_delete_tool":
            responses.append({"interruptResponse": {"interruptId": interrupt.id, "response": given}})  # noqa: PERF401

    result = agent(responses)

    assert result.stop_reason == "end_turn"
    assert str(result) == "It is gone."
    assert capsys.readouterr().out == ("DELETE_TOOL | deleting\n" if deletes else "")
    system, user, _, tool_message = client.requests[-1]["messages"]
    assert system["content"] == "You delete objects given their keys."
    assert user["content"] == "delete object with key 'X'"
    assert tool_message["content"] == ("true" if deletes else "approval was not granted")
