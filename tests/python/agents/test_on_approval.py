"""Approvals that code decides, and what is said to the person when it does not."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from hitl import ApprovalRequest, Decision, ReActAgent, RunContext, tool
from hitl.testing import ScriptedChatClient
from tests.python.support.local import PENDING, Answers, run_locally
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

APPROVE = {"type": "approve"}


async def pay(on_approval: Any, answers: Answers | None = None, **options: Any) -> Run:
    """The model wants to pay 100; checked from every prefix of the journal."""

    def make(effects: Effects) -> ReActAgent:
        @tool(**{"requires_approval": True, "on_approval": on_approval, **options})
        async def pay(cents: int) -> str:
            effects.append(cents)
            return f"paid {cents}"

        script = [{"tool_calls": [{"name": "pay", "args": {"cents": 100}, "id": "call_1"}]}, {"content": "done"}]
        return ReActAgent(client=ScriptedChatClient(script), tools=[pay], name="payer")

    return await run_all_prefixes(make, answers)


def nobody(asked: Any) -> Any:
    raise AssertionError(f"a person was asked: {asked}")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("decision", "effects", "told"),
    [
        (Decision.approve(), [100], "paid 100"),
        (Decision.edit({"cents": 5}), [5], 'paid 5\n\n[The arguments of this call were changed to {"cents":5}]'),
        (Decision.reject(), [], '{"error": "User rejected pay"}'),
        (Decision.reject("too much"), [], '{"error": "User rejected pay: too much"}'),
        (Decision.reject("too much", "Pay less."), [], '{"error": "Pay less."}'),
        (Decision.respond({"paid": False}), [], '{"paid":false}'),
        (Decision.respond(None), [], "null"),
    ],
)
async def test_what_code_decides_is_done_without_a_person(
    is_async: bool, decision: Decision, effects: list[int], told: str
) -> None:
    async def decide_later(request: ApprovalRequest) -> Decision:
        return decision

    run = await pay(decide_later if is_async else lambda request: decision, nobody)
    assert run.effects == effects
    assert run.told == [told]
    # It is in the journal like a person's: a question, and its answer.
    assert [entry["entry"] for entry in run.port.journal if entry["entry"] in ("ask", "answer")] == ["ask", "answer"]


async def test_it_sees_the_call_as_the_person_would() -> None:
    seen: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> Decision:
        seen.append(request)
        request.tool_args["cents"] = 0  # a copy: nothing that runs or is shown
        return Decision.approve()

    @tool(
        requires_approval=True,
        on_approval=decide,
        approval_description="Rent.",
        input_guardrails=[lambda cents: {"cents": cents * 2}],
    )
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    script = [{"tool_calls": [{"name": "pay", "args": {"cents": 1}, "id": "call_1"}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[pay], name="payer")
    result = await run_locally(agent, "go", context={"user": "ada"})
    (request,) = seen
    assert (request.tool_name, request.tool_call_id, request.agent) == ("pay", "call_1", "payer")
    assert (request.context, request.description) == ({"user": "ada"}, "Rent.")
    assert result.state[2].content == "paid 2"
    steps = [(step["kind"], step["name"]) for step, _ in result.port.steps[1:-1]]
    assert steps == [("guardrail", "pay.<lambda>"), ("policy", "pay.on_approval"), ("tool", "pay")]


async def test_it_is_not_asked_about_a_call_that_needs_no_approval() -> None:
    run = await pay(nobody, nobody, requires_approval=lambda ctx, args: False)
    assert run.effects == [100]
    assert run.requests == []


def raises(request: ApprovalRequest) -> Decision:
    raise LookupError("who?")


@pytest.mark.parametrize(
    "on_approval",
    [
        lambda request: None,
        lambda request: True,
        lambda request: "approve",
        lambda request: {"type": "approve"},
        lambda request: Decision.edit({"cents": "many"}),
        lambda request: Decision.edit({}),
        lambda request: Decision.respond(object()),
        lambda: Decision.approve(),
        raises,
    ],
)
async def test_whatever_is_no_decision_asks_a_person(on_approval: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hitl.approvals"):
        run = await pay(on_approval, lambda asked: {"type": "reject"})
    assert len(run.requests) == 1
    assert run.requests[0]["proposed"] is None
    assert run.effects == []
    assert "who?" not in caplog.text  # an error of somebody's code may hold secrets


async def test_an_edit_of_code_that_guardrails_change_asks_a_person_with_what_would_run() -> None:
    run = await pay(
        lambda request: Decision.edit({"cents": request.tool_args["cents"] + 1}),
        lambda asked: APPROVE if asked["proposed"] is None else PENDING,
        input_guardrails=[lambda cents: {"cents": cents - cents % 10}],
    )
    # 100 -> 101 by code -> 100 by the guardrail; and code, asked about that, wants 101 once more.
    assert [asked["payload"]["tool_args"]["cents"] for asked in run.requests] == [100, 100]
    assert run.effects == [100]


def test_a_decision_is_checked_where_it_is_made() -> None:
    with pytest.raises(TypeError, match="a dict of arguments"):
        Decision.edit(["x"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="reason must be a str"):
        Decision.reject(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="always must be True or False"):
        Decision.approve(always=1)  # type: ignore[arg-type]
    assert Decision.approve(always=True).to_json() == {"type": "approve", "always": True}
    assert Decision.reject("r", "m", True).to_json() == {
        "type": "reject",
        "reason": "r",
        "message": "m",
        "always": True,
    }
    assert Decision.respond(0).to_json() == {"type": "respond", "message": 0}
    assert Decision.edit({"a": 1}).to_json() == {"type": "edit", "args": {"a": 1}}


# -- what is said to the person --------------------------------------------------------------------------------------


async def about(ctx: RunContext[Any], args: dict[str, Any]) -> str:
    return f"{ctx.agent} pays {args.pop('cents')} for {ctx.context}"


async def test_a_description_may_be_made_from_the_call() -> None:
    @tool(requires_approval=True, approval_description=about)
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    script = [{"tool_calls": [{"name": "pay", "args": {"cents": 100}}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[pay], name="payer")
    result = await run_locally(agent, "go", answers=lambda asked: APPROVE, context="ada")
    assert result.requests[0]["message"] == "payer pays 100 for ada"
    assert result.state[2].content == "paid 100"


async def test_a_description_is_made_once() -> None:
    made: list[int] = []

    def count(ctx: Any, args: dict[str, Any]) -> str:
        made.append(args["cents"])
        return f"number {len(made)}"

    run = await pay(None, lambda asked: APPROVE, approval_description=count)
    assert run.requests[0]["message"] == "number 1"


@pytest.mark.parametrize("description", [lambda ctx, args: 5, lambda: "x", lambda ctx, args: args["no such"]])
async def test_a_description_that_fails_leaves_the_arguments_to_speak(description: Any) -> None:
    run = await pay(None, lambda asked: APPROVE, approval_description=description)
    assert run.requests[0]["message"] is None
    assert run.effects == [100]


async def test_a_call_that_needs_no_approval_is_not_described() -> None:
    run = await pay(None, nobody, approval_description=nobody, requires_approval=False)
    assert run.effects == [100]


# -- what the model is told of a no ----------------------------------------------------------------------------------


def worded(tool_name: str, args: dict[str, Any], error: Any) -> str:
    return f"[{tool_name} {args['cents']}] {error} ({error.reason})"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"type": "reject"}, "[pay 100] User rejected pay (None)"),
        ({"type": "reject", "reason": "no"}, "[pay 100] User rejected pay: no (no)"),
        ({"type": "reject", "reason": "no", "message": "Ask first."}, "Ask first."),
        ({"type": "reject", "by": "policy"}, "[pay 100] Policy rejected pay (None)"),
    ],
)
async def test_a_message_goes_before_the_run_s_formatter_and_that_before_the_built_in_text(
    answer: Any, told: str
) -> None:
    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True)
        async def pay(cents: int) -> str:
            raise AssertionError("it ran")

        script = [{"tool_calls": [{"name": "pay", "args": {"cents": 100}}]}, {"content": "done"}]
        return ReActAgent(client=ScriptedChatClient(script), tools=[pay])

    def give_formatter(local: Any) -> None:
        local.turn.tool_error_formatter = worded

    run = await run_all_prefixes(make, lambda asked: answer, setup=give_formatter)
    assert run.told == [json.dumps({"error": told})]


@pytest.mark.parametrize("formatter", [lambda *given: 1 / 0, lambda *given: None])
async def test_a_formatter_that_fails_leaves_the_built_in_text(formatter: Any) -> None:
    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True)
        async def pay() -> None: ...

        return ReActAgent(
            client=ScriptedChatClient([{"tool_calls": [{"name": "pay"}]}, {"content": "done"}]), tools=[pay]
        )

    def give_formatter(local: Any) -> None:
        local.turn.tool_error_formatter = formatter

    run = await run_all_prefixes(make, lambda asked: {"type": "reject"}, setup=give_formatter)
    assert run.told == ['{"error": "User rejected pay"}']
