"""What the agent's own code would say to calls that wait, by a handler or a hook, changes nothing of what people and
rules have said: no refused call runs, and an approved one runs with the arguments that were approved."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, HandleDeferredToolCalls, Hooks
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.tools import ToolApproved

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import as_agent as load
from tests.python.ext.pydantic_ai_runs import APPROVE, Calls, Timeless, payer, proved, says
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.prefixes import Effects

Says = Callable[[RunContext[Any], DeferredToolRequests], DeferredToolResults]
"""What a handler of the agent says to the calls that it is asked about."""


class Outermost(AbstractCapability[Any]):
    """A capability that is asked before all others."""

    def __init__(self, says: Says) -> None:
        self._says = says

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        return self._says(ctx, requests)


def hooks(says: Says) -> Hooks[Any]:
    made = Hooks[Any]()

    @made.on.deferred_tool_calls
    async def say(ctx: RunContext[Any], /, *, requests: DeferredToolRequests) -> DeferredToolResults | None:
        return says(ctx, requests)

    return made


WAYS: dict[str, Callable[[Says], AbstractCapability[Any]]] = {
    "HandleDeferredToolCalls": lambda says: HandleDeferredToolCalls(handler=says),
    "Hooks": hooks,
    "outermost": Outermost,
}


def approves(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
    return requests.build_results(approve_all=True)


def overrides(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
    given = ToolApproved(override_args={"cents": 99})
    return DeferredToolResults(approvals={call.tool_call_id: given for call in requests.approvals})


def answers_itself(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
    return DeferredToolResults(calls={call.tool_call_id: "paid 99" for call in requests.approvals})


def denies_otherwise(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
    return DeferredToolResults(approvals={call.tool_call_id: ToolDenied("Try again.") for call in requests.approvals})


SAYS: list[Says] = [approves, overrides, answers_itself, denies_otherwise]
whatever_it_says = pytest.mark.parametrize(
    ("way", "handler"),
    [
        *(pytest.param("HandleDeferredToolCalls", says, id=says.__name__) for says in SAYS),
        *(pytest.param(way, says, id=f"{way}-{says.__name__}") for way in ("Hooks", "outermost") for says in SAYS[:2]),
    ],
)

NO = {"type": "reject", "reason": "too much"}


async def test_a_no_is_not_overruled_by_a_handler() -> None:
    paid: Effects = []

    def agent() -> Agent[Any, Any]:
        return payer(paid, capabilities=[HandleDeferredToolCalls(handler=approves)])

    asked = await hitl.run(agent(), "go")
    assert asked.status == "interrupted"
    result = await hitl.run(agent(), asked.state.reject(asked.interrupts[0], reason="too much"))
    assert json.loads(result.output or "") == [["denied", "User rejected pay: too much"]]
    assert paid == []


@whatever_it_says
@pytest.mark.parametrize(
    ("answer", "told", "effects"),
    [
        (NO, ["denied", "User rejected pay: too much"], []),
        (APPROVE, ["success", "paid 5"], [5]),
        ({"type": "edit", "args": {"cents": 7}}, ["success", "paid 7"], [7]),
        ({"type": "respond", "message": "by hand"}, ["success", "by hand"], []),
    ],
    ids=["reject", "approve", "edit", "respond"],
)
async def test_what_a_person_decided_stands(way: str, handler: Says, answer: Any, told: Any, effects: Any) -> None:
    run, said = await proved(lambda made: payer(made, capabilities=[WAYS[way](handler)]), lambda asked: answer)
    assert (said, run.effects) == ([told], effects)


@whatever_it_says
async def test_what_nobody_decided_in_time_does_not_run(way: str, handler: Says) -> None:
    def expired(request: Any) -> Any:
        raise hitl.InterruptExpired

    message = ChatMessage.user_message(content="go")
    effects: Effects = []
    runs: list[Any] = []
    journal: list[Any] | None = None
    for _ in range(2):  # and once more as after a crash
        agent = load(Timeless(payer(effects, capabilities=[WAYS[way](handler)])))
        turn = LocalTurn(expired, agent=agent.name, journal=journal)
        reply, _state = await turn.run(agent.run, message, [])
        await turn.end()
        runs.append(json.loads(reply.content or ""))
        entries = [entry["entry"] for entry in turn.port.journal]
        journal = turn.port.journal[: entries.index("expire") + 1]
    assert effects == []
    assert runs[0] == runs[1]
    assert [outcome for outcome, _ in runs[0]] == ["denied"]
    assert "Try again." not in str(runs)


def no_more_than_three(request: Any) -> Any:
    """A rule that denies large payments, and allows the others."""
    if request["payload"]["tool_args"].get("cents", 0) > 3:
        return {"type": "reject", "reason": "large", "by": "policy"}
    return {"type": "approve", "by": "policy"} if not request.get("required", True) else PENDING


def ungated(effects: Effects, capability: AbstractCapability[Any], calls: Calls) -> Agent[Any, Any]:
    agent = Agent(says(calls), name="payer", capabilities=[capability])

    @agent.tool_plain
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent


@whatever_it_says
async def test_what_a_rule_denies_does_not_run(way: str, handler: Says) -> None:
    def make(effects: Effects) -> Any:
        return ungated(effects, WAYS[way](handler), [("pay", {"cents": 5}), ("pay", {"cents": 1})])

    def ruled(turn: LocalTurn) -> None:
        turn.port.decide_at_once = no_more_than_three

    run, said = await proved(make, setup=ruled, journal_start={"policy": True})
    assert run.effects == [1]
    (denied, told), paid = said
    assert (denied, paid) == ("denied", ["success", "paid 1"])
    assert "large" in told


class Wary(AbstractCapability[Any]):
    """A capability that wants every call approved."""

    async def before_tool_execute(self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any) -> Any:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return args


def asked_by_a_validator(effects: Effects, capability: AbstractCapability[Any]) -> Agent[Any, Any]:
    agent = Agent(says([("pay", {"cents": 5})]), name="payer", capabilities=[capability])

    def check(ctx: RunContext[None], cents: int) -> None:
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    @agent.tool_plain(args_validator=check)
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent


def asked_by_a_hook(effects: Effects, capability: AbstractCapability[Any]) -> Agent[Any, Any]:
    agent = Agent(says([("pay", {"cents": 5})]), name="payer", capabilities=[capability, Wary()])

    @agent.tool_plain
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent


@whatever_it_says
@pytest.mark.parametrize("make", [asked_by_a_validator, asked_by_a_hook], ids=lambda it: it.__name__)
@pytest.mark.parametrize(
    ("answer", "effects"), [(NO, []), (APPROVE, [5]), ({"type": "edit", "args": {"cents": 7}}, [7])],
    ids=["reject", "approve", "edit"],
)  # fmt: skip
async def test_what_code_beside_a_tool_wants_approved_is_for_people(
    way: str, handler: Says, make: Any, answer: Any, effects: Any
) -> None:
    run, _ = await proved(lambda made: make(made, WAYS[way](handler)), lambda asked: answer)
    assert run.effects == effects
    assert len(run.requests) == 1


async def test_a_tool_that_asks_again_after_a_yes_asks_a_person() -> None:
    def make(effects: Effects) -> Any:
        agent = Agent(
            says([("pay", {"cents": 5})]), name="payer", capabilities=[HandleDeferredToolCalls(handler=overrides)]
        )

        @agent.tool(requires_approval=True)
        def pay(ctx: RunContext[None], cents: int) -> str:
            if cents == 5 or not ctx.tool_call_approved:
                raise ApprovalRequired
            effects.append(cents)
            return f"paid {cents}"

        return agent

    answers = iter([APPROVE, NO])
    turn = LocalTurn(lambda asked: next(answers), agent="payer")
    effects: Effects = []
    reply, _ = await turn.run(load(make(effects)).run, ChatMessage.user_message(content="go"), [])
    await turn.end()
    assert json.loads(reply.content or "") == [["denied", "User rejected pay: too much"]]
    assert effects == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_rule_denies_also_what_code_beside_a_tool_wants_approved(way: str) -> None:
    def ruled(turn: LocalTurn) -> None:
        turn.port.decide_at_once = no_more_than_three

    run, said = await proved(
        lambda made: asked_by_a_validator(made, WAYS[way](approves)), setup=ruled, journal_start={"policy": True}
    )
    assert run.effects == []
    assert [outcome for outcome, _ in said] == ["denied"]


# -- what the program has approved before a run ------------------------------------------------------------------------


def going_on(effects: Effects, cents: int) -> Agent[Any, Any]:
    """An agent whose tool runs another one, with what it says to a call that was put off before."""
    inner = Agent(says([("pay", {"cents": cents})]), name="inner", output_type=[str, DeferredToolRequests])

    @inner.tool(requires_approval=True)
    def pay(ctx: RunContext[None], cents: int) -> str:
        effects.append((cents, ctx.tool_call_metadata))
        return f"paid {cents}"

    outer = Agent(says([("ask", {})]), name="outer")

    @outer.tool_plain
    async def ask() -> str:
        call = ToolCallPart("pay", {"cents": cents}, tool_call_id="c00")
        history = [ModelRequest(parts=[UserPromptPart("Pay.")]), ModelResponse(parts=[call])]
        given = DeferredToolResults(approvals={"c00": True}, metadata={"c00": {"by": "Ada"}})
        result = await inner.run(message_history=history, deferred_tool_results=given)
        return str(result.output)

    return outer


@pytest.mark.parametrize(
    ("cents", "told", "effects"),
    [(5, ["denied", "Policy rejected pay: large"], []), (1, ["success", "paid 1"], [(1, {"by": "Ada"})])],
    ids=["denied", "allowed"],
)
async def test_rules_hold_for_what_the_program_has_approved_by_itself(cents: int, told: Any, effects: Any) -> None:
    def ruled(turn: LocalTurn) -> None:
        turn.port.decide_at_once = no_more_than_three

    run, said = await proved(lambda made: going_on(made, cents), setup=ruled, journal_start={"policy": True})
    assert [(outcome, json.loads(reply)) for outcome, reply in said] == [("success", [told])]
    assert run.effects == effects
    assert all(asked.get("required") is False for asked in run.requests)


async def test_without_rules_nobody_is_asked_about_what_the_program_has_approved() -> None:
    run, _ = await proved(lambda made: going_on(made, 5))
    assert (run.effects, run.requests) == ([(5, {"by": "Ada"})], [])
