"""What agents of Strands ask people in a turn, from every prefix of its journal too: approvals and questions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, ToolContext, tool
from strands.hooks import BeforeToolCallEvent
from strands.interventions import Confirm, Deny, InterventionHandler, Proceed
from strands.middleware import ExecuteToolStage
from strands.vended_interventions.hitl import HumanInTheLoop
from strands.vended_interventions.hitl.classifier import ClassifierResult
from strands.vended_tools import handoff_to_user

import hitl
from hitl.ext.strands import as_agent
from tests.python.ext.strands_runs import APPROVE, payer, proved, says
from tests.python.support.prefixes import Effects

# -- approvals ---------------------------------------------------------------------------------------------------------

NOTE = '[A person changed the arguments of this call to {"cents":7}]'


@pytest.mark.parametrize(
    ("answer", "told", "effects"),
    [
        (APPROVE, ["success", "paid 5"], [5]),
        ({"type": "edit", "args": {"cents": 7}}, ["success", "paid 7", NOTE], [7]),
        ({"type": "reject", "reason": "too much"}, ["error", "User rejected pay: too much"], []),
        ({"type": "reject", "message": "Ask Ada."}, ["error", "Ask Ada."], []),
        ({"type": "respond", "message": {"paid": "by hand"}}, ["success", {"paid": "by hand"}], []),
        ({"type": "respond", "message": "paid before"}, ["success", "paid before"], []),
    ],
    ids=["approve", "edit", "reject", "reject with a message", "respond", "respond in words"],
)
async def test_each_decision_goes_back_in_the_frameworks_words(answer: Any, told: Any, effects: Any) -> None:
    run, said = await proved(payer, lambda asked: answer)
    assert (said, run.effects) == ([told], effects)
    (asked,) = run.requests
    assert (asked["type"], asked["agent"], asked["tool_call_id"]) == ("tool_approval", "payer", "c00")
    assert asked["allowed_decisions"] == ["approve", "edit", "reject", "respond"]


async def test_a_classifier_is_asked_once_and_its_reason_is_shown() -> None:
    def make(effects: Effects) -> Agent:
        async def risky(event: BeforeToolCallEvent, **_: Any) -> ClassifierResult:
            judged.append(event.tool_use["input"]["cents"])
            return ClassifierResult(event.tool_use["input"]["cents"] > 3, "more than three")

        def second(event: BeforeToolCallEvent) -> None:
            event.interrupt("second", reason="sure?")

        handler = HumanInTheLoop(classifier=risky)
        calls = [("pay", {"cents": 5}), ("pay", {"cents": 1})]
        return payer(effects, calls, interventions=[handler], hooks=[second])

    judged: list[int] = []
    run, said = await proved(make, lambda asked: APPROVE if asked["type"] == "tool_approval" else "y")
    assert said == [["success", "paid 5"], ["success", "paid 1"]]
    (asked,) = (each for each in run.requests if each["type"] == "tool_approval")
    assert (asked["payload"]["tool_args"], asked["message"]) == ({"cents": 5}, "more than three")

    judged.clear()
    served = make([])
    result = await hitl.run(served, "go")
    while result.status == "interrupted":
        state = hitl.RunState.from_string(served, result.state.to_string())
        for asked in state.interrupts:
            if asked.type != "tool_approval":
                state.answer(asked, "y")
            else:
                state.approve(asked)
        result = await hitl.run(served, state)
    assert sorted(judged) == [1, 5]


async def test_whom_a_terminal_would_ask_is_asked_by_an_approval_and_other_ways_of_asking_are_used_once() -> None:
    brought: list[str] = []

    async def elsewhere(prompt: str) -> str:
        brought.append(prompt)
        return "y"

    def make(ask: Any) -> Any:
        return lambda effects: payer(effects, interventions=[HumanInTheLoop(ask=ask)])

    run, said = await proved(make("stdio"), lambda asked: APPROVE)
    assert (said, len(run.requests)) == ([["success", "paid 5"]], 1)

    first = await hitl.run(payer([], interventions=[HumanInTheLoop(ask=elsewhere)]), "go")
    assert (first.status, len(brought)) == ("idle", 1)
    run, said = await proved(make(elsewhere))
    assert (said, run.requests) == ([["success", "paid 5"]], [])


async def test_whoever_reads_the_answer_itself_gets_it() -> None:
    def make(effects: Effects) -> Agent:
        return payer(effects, interventions=[HumanInTheLoop(evaluate=lambda response: response == {"pin": 4711})])

    run, said = await proved(make, lambda asked: {"pin": 4711})
    assert (said, run.effects) == ([["success", "paid 5"]], [5])
    (asked,) = run.requests
    assert asked["type"] == "hook_interrupt"
    assert (asked["payload"]["tool_name"], asked["payload"]["tool_args"]) == ("pay", {"cents": 5})
    run, said = await proved(make, lambda asked: APPROVE)
    assert run.effects == []


async def test_what_is_approved_is_what_runs_after_all_that_changes_it() -> None:
    class Cautious(InterventionHandler):
        name = "cautious"

        def before_tool_call(self, event: BeforeToolCallEvent, **kwargs: Any) -> Any:
            return Confirm(prompt="Is that right?") if event.tool_use["input"]["cents"] > 1 else Proceed()

    class Closed(InterventionHandler):
        name = "closed"

        def before_tool_call(self, event: BeforeToolCallEvent, **kwargs: Any) -> Any:
            return Deny("closed") if event.tool_use["input"]["cents"] == 9 else Proceed()

    def double(context: Any) -> Any:
        return context.replace(
            tool_use={**context.tool_use, "input": {"cents": 2 * context.tool_use["input"]["cents"]}}
        )

    def make(effects: Effects) -> Agent:
        calls = [("pay", {"cents": cents}) for cents in (1, 4, 9)]
        agent = payer(effects, calls, interventions=[Cautious(), Closed()])
        agent.add_middleware(ExecuteToolStage.Input, double)
        return agent

    run, said = await proved(make, lambda asked: APPROVE)
    assert said == [["success", "paid 2"], ["success", "paid 8"], ["error", "DENIED: closed"]]
    (asked,) = run.requests
    assert (asked["payload"]["tool_args"], asked["message"]) == ({"cents": 8}, "Is that right?")


async def test_options_say_how_to_ask() -> None:
    options: Any = {"description": "A payment", "approvers": ["group:finance"], "allowed_decisions": ["reject"]}
    run, said = await proved(payer, lambda asked: {"type": "reject"}, approvals={"pay": options})
    assert said == [["error", "User rejected pay"]]
    (asked,) = run.requests
    assert (asked["message"], asked["allowed_decisions"]) == ("A payment", ["reject"])
    assert asked["approvers"] == ["group:finance"]


async def test_one_answer_never_waits_for_another() -> None:
    paid: list[Any] = []
    calls = [("pay", {"cents": 1}), ("pay", {"cents": 2})]
    first = await hitl.run(payer(paid, calls), "go")
    assert first.status == "interrupted"
    second_asked = next(each for each in first.interrupts if each.payload["tool_args"] == {"cents": 2})
    second = await hitl.run(payer(paid, calls), first.state.approve(second_asked))
    assert (second.status, paid) == ("interrupted", [2])
    (left,) = second.interrupts
    assert left.payload["tool_args"] == {"cents": 1}


async def test_a_state_with_two_open_calls_is_small() -> None:
    result = await hitl.run(payer([], [("pay", {"cents": 1}), ("pay", {"cents": 2})]), "go")
    assert len(result.state.to_string()) < 5 * 1024


@pytest.mark.parametrize("cents", [math.nan, math.inf, 10**30], ids=str)
async def test_numbers_that_json_lacks_are_put_before_nobody_and_the_model_is_told(cents: float) -> None:
    effects: Effects = []
    result = await hitl.run(payer(effects, [("pay", {"cents": cents})]), "go")
    assert (result.status, effects) == ("idle", []), result
    assert "pay did not run, for its arguments are no JSON: cents is " in str(result.output)


async def test_a_call_with_such_a_number_runs_where_nobody_has_a_say_and_the_next_turn_knows_of_it(
    tmp_path: Path,
) -> None:
    @tool
    def grade(points: float) -> str:
        """Grade."""
        return f"graded {points}"

    agent = Agent(says([("grade", {"points": math.inf})]), tools=[grade], name="grader", callback_handler=None)
    for _ in range(2):
        result = await hitl.run(agent, "go", store=tmp_path / "hitl.db", session="class")
        assert (result.status, result.output) == ("idle", '[["success", "graded inf"]]'), result


# -- questions ---------------------------------------------------------------------------------------------------------


@tool
async def drop(table: str) -> str:
    """Drop a table."""
    return f"dropped {table}"


async def test_hooks_ask_and_each_is_called_again_with_its_answers() -> None:
    def make(effects: Effects) -> Agent:
        def first(event: BeforeToolCallEvent) -> None:
            if event.interrupt("first", reason={"why": "large"}) != "y":
                event.cancel_tool = "not now"

        async def second(event: BeforeToolCallEvent) -> None:
            if event.tool_use["input"]["table"] == "users":
                assert event.interrupt("second", reason="Really?") == {"by": ["ada"]}

        calls = [("drop", {"table": "users"}), ("drop", {"table": "tmp"}), ("drop", {"table": "kept"})]
        return Agent(says(calls), name="dba", tools=[drop], hooks=[first, second])

    def answers(asked: Any) -> Any:
        payload = asked["payload"]
        kept = payload["tool_args"]["table"] == "kept"
        return {"by": ["ada"]} if payload["name"] == "second" else "n" if kept else "y"

    run, said = await proved(make, answers)
    assert said == [["success", "dropped users"], ["success", "dropped tmp"], ["error", "not now"]]
    assert {(asked["type"], asked["agent"]) for asked in run.requests} == {("hook_interrupt", "dba")}
    by_line = {(asked["message"], asked["tool_call_id"]): asked["payload"] for asked in run.requests}
    assert by_line["Really?", "c00"] == {
        "type": "hook_interrupt",
        "id": by_line["Really?", "c00"]["id"],
        "name": "second",
        "reason": "Really?",
        "tool_name": "drop",
        "tool_args": {"table": "users"},
    }
    assert ("first", "c02") in by_line  # a reason that is no text is shown by its name


async def test_a_tool_that_asks_is_called_again_and_its_questions_may_have_schemas() -> None:
    schema = {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}

    @tool(context=True)
    def ship(tool_context: ToolContext, item: str) -> str:
        """Ship something, from a thread."""
        where = tool_context.interrupt(
            "where",
            reason={"item": item, "hitl": {"type": "address", "response_schema": schema, "description": "Where?"}},
        )
        when = tool_context.interrupt("when", reason=where)
        return f"{item} to {where['zip']} {when}"

    agent = Agent(says([("ship", {"item": "book"})]), name="clerk", tools=[ship, handoff_to_user])
    answers = {"address": {"zip": "94607"}, "tool_interrupt": "today"}
    run, said = await proved(lambda effects: agent, lambda asked: answers[asked["type"]])
    assert said == [["success", "book to 94607 today"]]
    first, second = run.requests
    assert (first["response_schema"], first["message"], first["payload"]["reason"]) == (
        schema,
        "Where?",
        {"item": "book"},
    )
    assert second["payload"]["reason"] == {"zip": "94607"}

    handing = Agent(says([("handoff_to_user", {"message": "Which one?"})]), name="clerk", tools=[handoff_to_user])
    run, said = await proved(lambda effects: handing, lambda asked: "the red one")
    assert said == [["success", "the red one"]]
    assert run.requests[0]["message"] == "Which one?"


async def test_no_answer_is_asked_again() -> None:
    """To Strands null is none; it must not be a yes, nor go round for ever."""

    def hook(event: BeforeToolCallEvent) -> None:
        event.interrupt("sure")

    given = iter([None, "y"])
    agent = Agent(says([("drop", {"table": "users"})]), name="dba", tools=[drop], hooks=[hook])
    result = await hitl.run(agent, "go")
    while result.status == "interrupted":
        result = await hitl.run(agent, result.state.answer(result.interrupts[0], next(given)))
    assert (result.status, result.output) == ("idle", '[["success", "dropped users"]]')


async def test_middleware_may_ask_too() -> None:
    def make(effects: Effects) -> Agent:
        async def gate(context: Any, next_fn: Any) -> Any:
            if context.interrupt("gate", reason=context.tool_use["input"]).response == "y":
                effects.append(context.tool_use["input"]["table"])
            async for event in next_fn(context):
                yield event

        agent = Agent(says([("drop", {"table": "a"}), ("drop", {"table": "b"})]), name="dba", tools=[drop])
        agent.add_middleware(ExecuteToolStage, gate)
        return agent

    run, said = await proved(make, lambda asked: "y" if asked["payload"]["reason"]["table"] == "a" else "n")
    assert said == [["success", "dropped a"], ["success", "dropped b"]]
    assert sorted(asked["payload"]["reason"]["table"] for asked in run.requests) == ["a", "b"]


async def test_an_option_of_a_question_that_is_none_lets_nobody_answer_it() -> None:
    def hook(event: BeforeToolCallEvent) -> None:
        event.interrupt("sure", reason={"hitl": {"approver": ["group:dba"]}})

    agent = Agent(says([("drop", {"table": "users"})]), name="dba", tools=[drop], hooks=[hook])
    result = await hitl.run(agent, "go")
    assert result.status == "error"
    assert "the interrupt 'sure': there is no option 'approver', there are type, response_schema" in result.error
    with pytest.raises(TypeError, match="approvals= of drop: there is no option 'approver'"):
        as_agent(agent, approvals={"drop": {"approver": ["group:dba"]}})  # type: ignore[typeddict-unknown-key]


async def test_what_stands_before_something_lets_it_run_and_what_a_tool_asks_does_not() -> None:
    @tool(context=True)
    def pick(tool_context: ToolContext) -> str:
        """Let somebody pick."""
        return str(tool_context.interrupt("pick"))

    async def around(context: Any, next_fn: Any) -> Any:
        context.interrupt("middleware")
        async for event in next_fn(context):
            yield event

    async def by_hitl(event: BeforeToolCallEvent) -> None:
        if not await hitl.interrupt({"type": "by_hitl"}):
            event.cancel_tool = "no"

    def make(effects: Effects) -> Agent:
        def first(event: BeforeToolCallEvent) -> None:
            event.interrupt("hook")

        agent = Agent(name="picker", model=says([("pick", {})]), tools=[pick], hooks=[first, by_hitl])
        agent.add_middleware(ExecuteToolStage, around)
        return agent

    run, _ = await proved(make, lambda asked: "y")
    asked = {each["payload"].get("name", each["type"]): each.get("lets_run", False) for each in run.requests}
    assert asked == {"hook": True, "by_hitl": True, "middleware": True, "pick": False}
