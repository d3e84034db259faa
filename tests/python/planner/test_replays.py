"""Planners whose tools pause, replayed from every prefix of their journal."""

from __future__ import annotations

from typing import Any

from hitl.planner import ReactPlanner, ToolContext
from hitl.testing import ScriptedChatClient
from tests.python.planner.writing import DONE, Ok, Text, spec, write
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes


async def test_pauses_of_several_messages() -> None:
    def make(effects: Effects) -> Any:
        async def write_line(args: Text, ctx: ToolContext) -> Ok:
            effects.append(args.text)
            if args.text.startswith("pause"):
                await ctx.pause("approval_required", {"preview": args.text})
                effects.append("went on")
            return Ok(ok=True)

        script = [write("pause 1", "a", "pause 2"), write("b", "pause 3"), DONE]
        return ReactPlanner(llm=ScriptedChatClient(script), catalog=[spec(write_line)])._agent

    def context(local: LocalTurn) -> None:
        local.turn.context = {}

    def person(request: Any) -> Any:
        return {"user_input": f"about {request['payload']['payload']['preview']}"}

    run = await run_all_prefixes(make, person, setup=context)
    assert sorted(run.effects) == ["a", "b", "pause 1", "pause 2", "pause 3"]
    assert len(run.requests) == 3
