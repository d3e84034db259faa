"""The example of the system whose words these are; only imports and the model are ours."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from hitl.planner import ModelRegistry, Node, PlannerPause, ReactPlanner, ToolContext, build_catalog, tool
from hitl.testing import ScriptedChatClient


class WriteArgs(BaseModel):
    text: str


class WriteOut(BaseModel):
    ok: bool


@tool(desc="Write a line to a system (approval required)", side_effects="write")
async def write_line(args: WriteArgs, ctx: ToolContext) -> WriteOut:
    approvals = ctx.tool_context.get("approvals") or {}
    if not approvals.get("write_line"):
        await ctx.pause(
            "approval_required",
            {"title": "Approve write", "preview": args.text, "approval_key": "write_line"},
        )

    # Safe to execute: approval is provided by the orchestrator via tool_context.
    del args, ctx
    return WriteOut(ok=True)


async def main(client: Any) -> None:
    registry = ModelRegistry()
    registry.register("write_line", WriteArgs, WriteOut)
    catalog = build_catalog([Node(write_line, name="write_line")], registry)

    planner = ReactPlanner(llm=client, catalog=catalog)
    tool_ctx: dict[str, Any] = {"session_id": "demo", "approvals": {}}
    result = await planner.run("Write 'hello' to the system", tool_context=tool_ctx)

    while isinstance(result, PlannerPause):
        # In real systems: render result.payload in your UI and wait for user action.
        tool_ctx = {"session_id": "demo", "approvals": {"write_line": True}}
        result = await planner.resume(
            result.resume_token,
            user_input="approved",
            tool_context=tool_ctx,
        )

    print(result.reason, getattr(result.payload, "raw_answer", result.payload))


def test_it_works_with_the_import_changed(capsys: pytest.CaptureFixture[str]) -> None:
    call = {"tool_calls": [{"name": "write_line", "args": {"text": "hello"}}]}
    client = ScriptedChatClient([call, call, {"content": "I wrote it."}])
    asyncio.run(main(client))

    assert capsys.readouterr().out == "answer_complete I wrote it.\n"
    first, second = (json.loads(m["content"]) for m in client.requests[-1]["messages"] if m["role"] == "tool")
    assert (first["paused"], first["user_input"]) == ("approval_required", "approved")
    assert first["payload"] == {"title": "Approve write", "preview": "hello", "approval_key": "write_line"}
    assert second == {"ok": True}
