"""A pause for approval is an approval: of whom it asks, and that what it lets run is done once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import hitl
from hitl.planner import NodeSpec, PlannerFinish, ReactPlanner, ToolContext, tool
from hitl.testing import ScriptedChatClient
from tests.python.planner.writing import DONE, Ok, Planner, Text, paused, spec, write

SCRIPT = [write("a", tool="send_line"), write("a", tool="send_line"), DONE]


class Line(list[str]):
    """A tool that pauses when it is first called, and is slow when it is called again; and its calls."""

    def __init__(self, reason: Any, **options: Any) -> None:
        self.began = asyncio.Event()
        self.reason, self.options = reason, options

    @property
    def spec(self) -> NodeSpec:
        @tool(desc="Send a line", side_effects="write")
        async def send_line(args: Text, ctx: ToolContext) -> Ok:
            self.append(args.text)
            if len(self) == 1:
                await ctx.pause(self.reason, {"preview": args.text}, **self.options)
            if len(self) == 2:
                self.began.set()
                await asyncio.sleep(3600)
            return Ok(ok=True)

        return spec(send_line)


async def stopped(line: Line) -> tuple[Planner, str]:
    """A planner whose tool was let run and was stopped in the middle, and the token to go on with."""
    planner = Planner(SCRIPT, line.spec)
    token = paused(await planner.run("go")).resume_token
    resuming = asyncio.create_task(planner.resume(token, "yes"))
    await line.began.wait()
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    return planner, token


async def test_what_an_approval_let_run_is_not_run_again_where_nobody_knows_what_came_of_it() -> None:
    line = Line("approval_required")
    planner, token = await stopped(line)
    asked = paused(await planner.resume(token, "yes"))
    assert (asked.payload["type"], asked.payload["tool_name"]) == ("unknown_outcome", "send_line")
    finish = await planner.resume(asked.resume_token, {"outcome": "done", "result": {"ok": True}})
    assert isinstance(finish, PlannerFinish)
    assert line == ["a", "a"]


async def test_what_was_asked_for_something_else_lets_nothing_run_once() -> None:
    line = Line("await_input")
    planner, token = await stopped(line)
    assert isinstance(await planner.resume(token, "yes"), PlannerFinish)
    assert line == ["a", "a", "a"]


@pytest.mark.parametrize(
    ("reason", "lets_run"), [("approval_required", True), ("await_input", None), ("constraints_conflict", None)]
)
async def test_the_question_says_whether_it_lets_something_run_and_who_may_answer(reason: str, lets_run: Any) -> None:
    line = Line(reason, approvers=["ada", "group:finance"])
    planner = ReactPlanner(llm=ScriptedChatClient(SCRIPT), catalog=[line.spec])
    (asked,) = (await hitl.run(planner._agent, "go", context={})).interrupts
    record = asked.to_dict()
    assert (record.get("lets_run"), record["approvers"]) == (lets_run, ["ada", "group:finance"])


async def test_approvers_that_nobody_can_be_are_a_tool_error() -> None:
    line = Line("approval_required", approvers=["Nobody!"])
    planner = Planner([*SCRIPT[:1], DONE], line.spec)
    assert isinstance(await planner.run("go"), PlannerFinish)
    assert "approvers" in planner.client.requests[-1]["messages"][-1]["content"]
