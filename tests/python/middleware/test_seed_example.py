"""The example of the reference that these words come from, with nothing but the import changed and a scripted model."""

from __future__ import annotations

from typing import Any

from hitl import tool
from hitl.middleware import Command, HumanInTheLoopMiddleware, InterruptOnConfig, ToolCallAgent
from hitl.testing import ScriptedChatClient
from tests.python.middleware.files import thread

CONFIG = thread("example")


def test_configured_simply() -> None:
    deleted: list[str] = []

    @tool(name="delete_file")
    def dangerous_tool(path: str) -> str:
        deleted.append(path)
        return "gone"

    two = [{"name": "delete_file", "args": {"path": path}} for path in ("/old", "/other")]
    agent = ToolCallAgent(
        client=ScriptedChatClient([{"tool_calls": two}, {"content": "Both are gone."}]),
        tools=[dangerous_tool],
        middleware=[
            HumanInTheLoopMiddleware(
                interrupt_on={"delete_file": True, "send_email": {"allowed_decisions": ["approve", "reject"]}}
            )
        ],
    )

    paused = agent.invoke({"messages": [{"role": "user", "content": "Clean up"}]}, config=CONFIG)
    assert [request["args"] for request in paused["__interrupt__"][0]["value"]["action_requests"]] == [
        {"path": "/old"},
        {"path": "/other"},
    ]
    assert deleted == []

    result = agent.invoke(
        Command(resume={"decisions": [{"type": "approve"}, {"type": "edit", "args": {"path": "/new/path"}}]}),
        config=CONFIG,
    )
    assert sorted(deleted) == ["/new/path", "/old"]
    assert result["messages"][-1].content == "Both are gone."


def test_with_a_description_made_for_each_call() -> None:
    def format_shell_description(tool_call: Any, state: Any, runtime: Any) -> str:
        command = tool_call["args"].get("command", "N/A")
        return f"Execute Command: {command}"

    async def shell(command: str) -> str:
        return f"ran {command}"

    async def write_file(path: str, content: str) -> str:
        return f"wrote {path}"

    config: InterruptOnConfig = {"allowed_decisions": ["approve", "reject"], "description": format_shell_description}
    middleware = HumanInTheLoopMiddleware(
        interrupt_on={"shell": config, "write_file": {"allowed_decisions": ["approve", "edit", "reject"]}}
    )
    asked = [
        {"name": "shell", "args": {"command": "rm -rf"}, "id": "call_1"},
        {"name": "write_file", "args": {"path": "/a", "content": "x"}, "id": "call_2"},
    ]
    agent = ToolCallAgent(
        client=ScriptedChatClient([{"tool_calls": asked}, {"content": "ok"}]),
        tools=[shell, write_file],
        middleware=[middleware],
    )

    paused = agent.invoke("go", config=CONFIG)
    (shown,) = paused["__interrupt__"]
    assert shown["value"] == {
        "action_requests": [
            {
                "name": "shell",
                "args": {"command": "rm -rf"},
                "id": "call_1",
                "description": "Execute Command: rm -rf",
            },
            {"name": "write_file", "args": {"path": "/a", "content": "x"}, "id": "call_2"},
        ],
        "review_configs": [
            {
                "action_name": "shell",
                "action_id": "call_1",
                "allowed_decisions": ["approve", "reject"],
                "description": "Execute Command: rm -rf",
            },
            {
                "action_name": "write_file",
                "action_id": "call_2",
                "allowed_decisions": ["approve", "edit", "reject"],
            },
        ],
    }
    assert shown["interrupt_id"] == shown["id"]
