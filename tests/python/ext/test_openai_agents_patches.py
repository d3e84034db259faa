"""Patches that agents of the OpenAI Agents SDK make: several operations in one call, each of which is decided about."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest
from agents import Agent, ApplyPatchTool, Runner, set_tracing_disabled
from agents.editor import ApplyPatchResult
from openai.types.responses import ResponseCustomToolCall

import hitl
from hitl.driver.shapes import as_agent as load
from hitl.ext.openai_agents import as_agent, message_of
from hitl.messages import ChatMessage
from tests.python.ext.openai_agents_runs import APPROVE, Once
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def editor(effects: Effects, **options: Any) -> Agent[Any]:
    """Has two files made in one call."""

    class Editor:
        def create_file(self, operation: Any) -> ApplyPatchResult:
            effects.append(operation.path)
            return ApplyPatchResult(status="completed", output="done")

        update_file = delete_file = create_file

    operations = [{"type": "create_file", "path": path, "diff": "+hi"} for path in ("a.txt", "b.txt")]
    wanted = json.dumps({"operations": operations})
    made = ResponseCustomToolCall(type="custom_tool_call", name="apply_patch", input=wanted, call_id="p1")
    return Agent(name="editor", model=Once(made), tools=[ApplyPatchTool(editor=Editor(), **options)])


gated = partial(editor, needs_approval=True)


def about_b(said: Any) -> Callable[[Any], Any]:
    """Who says this of the second file, and yes to everything else."""
    yes = {**APPROVE, "by": "policy"}
    return lambda asked: said if asked["payload"]["tool_args"].get("path") == "b.txt" else yes


async def test_each_operation_of_a_patch_asks() -> None:
    run = await run_all_prefixes(gated, lambda asked: APPROVE)
    assert [asked["payload"]["tool_args"]["path"] for asked in run.requests] == ["a.txt", "b.txt"]
    assert run.effects == ["a.txt", "b.txt"]


async def test_nothing_of_a_patch_is_made_where_one_operation_is_refused() -> None:
    run = await run_all_prefixes(gated, about_b({"type": "reject", "message": "leave it"}))
    assert (run.effects, run.response.content) == ([], "leave it")


async def test_a_turn_waits_on_behind_a_patch_that_an_older_version_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        said = (await Runner.run(gated([]), "go")).final_output
        await hitl.interrupt({"type": "sure"})
        return ChatMessage.assistant_message(content=said), state

    with monkeypatch.context() as older:
        older.setattr("hitl.tools.asking._is_apart", AsyncMock(return_value=False))
        asked = await hitl.run(agent, "go")
        asked = await hitl.run(agent, asked.state.approve(asked.interrupts[0]))
    (question,) = asked.interrupts
    state = hitl.RunState.from_string(agent, asked.state.to_string())
    result = await hitl.run(agent, state.answer(question.id, "yes"))
    assert "stands for an approved call" in str(result.output)


# -- rules -------------------------------------------------------------------------------------------------------------

CLOSED = {"type": "reject", "reason": "closed", "by": "policy"}


async def under_rules(agent: Agent[Any], message: ChatMessage) -> tuple[str, list[Any]]:
    """The reply of an agent whose second operation a rule denies; and what was asked."""
    loaded = load(as_agent(agent))
    start = {"at": 1, "entry": "start", "code": "c", "python": "3.11", "policy": True}
    local = LocalTurn(agent=loaded.name, journal=[start])
    local.turn.is_own_run = True  # who runs it may say what was approved
    local.port.decide_at_once = about_b(CLOSED)
    reply, _ = await local.run(loaded.run, message, [])
    await local.end()
    return reply.content or "", [each.request["payload"]["tool_args"] for each in local.port.interrupts]


async def test_rules_come_before_each_operation_of_a_patch_that_the_program_approves() -> None:
    effects: Effects = []
    agent = gated(effects, on_approval=lambda context, item: {"approve": True})
    said, _ = await under_rules(agent, ChatMessage.user_message(content="go"))
    assert (effects, "closed" in said) == (["a.txt"], True)


async def approved_elsewhere() -> ChatMessage:
    """A patch that was approved in a program that knew nothing of hitl."""
    theirs = await Runner.run(gated([]), "go")
    state = theirs.to_state()
    state.approve(theirs.interruptions[0])
    return message_of(state)


async def test_rules_come_before_each_operation_of_a_patch_whose_approval_a_state_brought_along() -> None:
    effects: Effects = []
    said, asked = await under_rules(gated(effects), await approved_elsewhere())
    assert [each["path"] for each in asked] == ["a.txt", "b.txt"]
    assert (effects, "closed" in said) == (["a.txt"], True)


# -- brought along by a state ------------------------------------------------------------------------------------------


async def taken_in(effects: Effects, **options: Any) -> Any:
    """A patch that waits in a program that knew nothing of hitl, once that is taken in."""
    theirs = await Runner.run(gated(effects, **options), "go")
    return await hitl.run(gated(effects, **options), message_of(theirs.to_state()))


async def test_who_refuses_a_patch_in_a_state_is_not_asked_again() -> None:
    effects: Effects = []
    asked = await taken_in(effects)
    (call,) = asked.interrupts
    assert call.tool_args["path"] == "a.txt"
    result = await hitl.run(gated(effects), asked.state.reject(call, message="leave it"))
    assert (result.status, result.output, effects) == ("idle", "leave it", [])


async def test_whoever_is_asked_in_place_of_the_program_that_made_the_state_sees_the_whole_patch() -> None:
    effects: Effects = []
    asked = await taken_in(effects, on_approval=lambda context, item: None)
    (call,) = asked.interrupts
    assert [each["path"] for each in call.tool_args["operations"]] == ["a.txt", "b.txt"]


async def test_a_turn_waits_on_in_which_an_older_version_has_shown_nothing_of_a_patch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effects: Effects = []
    with monkeypatch.context() as older:
        older.setattr("hitl.ext.openai_agents.runner.patched", AsyncMock(return_value=False))
        asked = await taken_in(effects)
        asked = await hitl.run(gated(effects), asked.state.reject(asked.interrupts[0]))
    (call,) = asked.interrupts
    assert call.tool_args == {}
    agent = gated(effects)
    result = await hitl.run(agent, hitl.RunState.from_string(agent, asked.state.to_string()).reject(call.id))
    assert (result.status, effects) == ("idle", [])
