"""Turns that began under standing rules: every tool call is put before them, also one that needs no approval."""

from __future__ import annotations

from typing import Any

import pytest

from hitl import ReActAgent, RunContext, tool
from hitl.testing import ScriptedChatClient
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes

RULES = {"policy": True}
DENIED = {"type": "reject", "reason": "not today", "by": "policy"}


def make(effects: Effects, **options: Any) -> ReActAgent:
    @tool(**options)
    async def act(what: str) -> str:
        effects.append(what)
        return f"did {what}"

    script = [{"tool_calls": [{"name": "act", "args": {"what": "x"}}]}, {"content": "done"}]
    return ReActAgent(client=ScriptedChatClient(script), tools=[act])


def rule(decision: Any) -> Any:
    """Stands for a server that has a rule: what it decides comes before everything that code proposes."""

    def setup(local: LocalTurn) -> None:
        local.port.decide_at_once = lambda request: decision

    return setup


async def test_without_rules_a_call_that_needs_no_approval_asks_nobody() -> None:
    run = await run_all_prefixes(make, None)
    assert run.requests == []
    assert run.effects == ["x"]


async def test_under_rules_it_is_asked_about_and_goes_through_when_none_matches() -> None:
    run = await run_all_prefixes(make, None, journal_start=RULES)
    (request,) = run.requests
    assert (request["required"], request["proposed"]) == (False, None)
    assert run.effects == ["x"]


async def test_a_rule_that_denies_is_a_no_by_policy() -> None:
    run = await run_all_prefixes(make, None, journal_start=RULES, setup=rule(DENIED))
    assert run.effects == []
    assert run.told == ['{"error": "Policy rejected act: not today"}']


async def test_a_rule_goes_before_what_code_decided() -> None:
    from hitl import Decision

    def gated(effects: Effects) -> ReActAgent:
        return make(effects, requires_approval=True, on_approval=lambda request: Decision.approve())

    run = await run_all_prefixes(gated, None, journal_start=RULES, setup=rule(DENIED))
    assert run.requests[0]["proposed"] == {"type": "approve"}
    assert run.effects == []


@pytest.mark.parametrize("options", [{}, {"requires_approval": lambda ctx, args: False}])
async def test_on_approval_is_not_asked_about_a_call_that_needs_no_approval(options: Any) -> None:
    def nobody(request: Any) -> Any:
        raise AssertionError("asked")

    def gated(effects: Effects) -> ReActAgent:
        return make(effects, on_approval=nobody, **options)

    run = await run_all_prefixes(gated, None, journal_start=RULES)
    assert run.effects == ["x"]


async def test_a_turn_without_rules_goes_on_without_them() -> None:
    """Its journal holds no such questions, and it must fit. Rules that come are in `test_rule_changes.py`."""
    run = await run_all_prefixes(make, None, journal_start={"policy": False})
    assert run.requests == []


async def test_what_nobody_has_to_look_at_may_be_of_any_size() -> None:
    @tool
    async def measure(text: str) -> int:
        return len(text)

    def large(effects: Effects) -> ReActAgent:
        script = [{"tool_calls": [{"name": "measure", "args": {"text": "x" * 50_000}}]}, {"content": "done"}]
        return ReActAgent(client=ScriptedChatClient(script), tools=[measure])

    assert (await run_all_prefixes(large, None, journal_start=RULES)).told == ["50000"]


@pytest.mark.parametrize(("asks", "is_once"), [(False, False), (True, True)])
async def test_a_call_that_needs_no_approval_is_once_where_a_rule_let_a_person_approve_it(
    asks: bool, is_once: bool
) -> None:
    onces: list[bool] = []

    def remembering(effects: Effects) -> ReActAgent:
        @tool
        async def act(ctx: RunContext[Any]) -> None:
            from hitl.turn.runtime import current_turn

            step = current_turn().current_step
            assert step is not None
            onces.append(step.once)

        return ReActAgent(
            client=ScriptedChatClient([{"tool_calls": [{"name": "act"}]}, {"content": "done"}]), tools=[act]
        )

    setup = rule(PENDING) if asks else None
    await run_all_prefixes(remembering, lambda asked: {"approved": True}, journal_start=RULES, setup=setup)
    assert set(onces) == {is_once}
