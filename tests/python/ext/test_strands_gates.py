"""What stands before a call of an agent of Strands holds for it, whatever else runs there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.interventions import Confirm, InterventionHandler, Proceed
from strands.middleware import ExecuteToolStage
from strands.tools.executors import SequentialToolExecutor
from strands.types._events import ToolStreamEvent
from strands.vended_interventions.hitl import HumanInTheLoop

import hitl
from tests.python.ext.strands_runs import APPROVE, payer, proved, says
from tests.python.support.prefixes import Effects, Run

# -- an agent that code before the call asks ---------------------------------------------------------------------------


@tool
def look() -> str:
    """Look."""
    return "seen"


async def review() -> None:
    """Ask an agent whose calls are made in the context of whoever asks it."""
    reviewer = Agent(says([("look", {})]), name="reviewer", tools=[look], tool_executor=SequentialToolExecutor())
    await reviewer.invoke_async("fine?")


class Reviewing(InterventionHandler):
    name = "reviewing"

    async def before_tool_call(self, event: BeforeToolCallEvent, **kwargs: Any) -> Any:
        await review()
        return Proceed()


class Reviewed(Reviewing):
    name = "reviewed"

    async def before_tool_call(self, event: BeforeToolCallEvent, **kwargs: Any) -> Any:
        await review()
        return Confirm(prompt="Pay?")


async def reviewing_hook(event: BeforeToolCallEvent) -> None:
    await review()


async def reviewing_middleware(context: Any, next_fn: Any) -> Any:
    await review()
    async for event in next_fn(context):
        yield event


def with_late_hook(effects: Effects) -> Agent:
    agent = payer(effects)
    agent.hooks.add_callback(BeforeToolCallEvent, reviewing_hook, order=100)
    return agent


def with_middleware(effects: Effects) -> Agent:
    agent = payer(effects)
    agent.add_middleware(ExecuteToolStage, reviewing_middleware)
    return agent


@pytest.mark.parametrize(
    "make",
    [
        lambda effects: payer(effects, interventions=[Reviewed()]),
        lambda effects: payer(effects, interventions=[HumanInTheLoop(), Reviewing()]),
        with_late_hook,
        with_middleware,
    ],
    ids=["the intervention itself", "one after it", "a later hook", "middleware"],
)
async def test_a_call_waits_for_its_approval_though_an_agent_is_asked_before_it(
    make: Callable[[Effects], Agent],
) -> None:
    effects: Effects = []
    result = await hitl.run(make(effects), "go")
    assert (result.status, effects) == ("interrupted", [])
    run, said = await proved(make, lambda asked: APPROVE)
    assert (said, run.effects) == ([["success", "paid 5"]], [5])
    assert [(asked["agent"], asked["payload"]["tool_args"]) for asked in run.requests] == [("payer", {"cents": 5})]


async def test_a_call_waits_for_its_approval_though_each_piece_of_what_its_agent_does_is_taken_in_a_task() -> None:
    async def telling(context: Any, next_fn: Any) -> Any:
        yield ToolStreamEvent(context.tool_use, "about to pay")
        async for event in next_fn(context):
            yield event

    def make(effects: Effects) -> Agent:
        inner = payer(effects, tool_executor=SequentialToolExecutor())
        inner.add_middleware(ExecuteToolStage, telling)

        @tool
        async def ask_payer() -> str:
            """Ask."""
            pieces: Any = inner.stream_async("pay")
            last: Any = None
            while (piece := await asyncio.create_task(anext(pieces, None))) is not None:
                last = piece
            return str(last["result"])

        return Agent(says([("ask_payer", {})]), name="clerk", tools=[ask_payer])

    effects: Effects = []
    result = await hitl.run(make(effects), "go")
    assert (result.status, effects) == ("interrupted", []), result
    run, said = await proved(make, lambda asked: APPROVE)
    assert (said, run.effects) == ([["success", '[["success", "paid 5"]]\n']], [5])


class Pinned(HumanInTheLoop):
    """Reads the answer itself, to what it wants confirmed beside what it inherits."""

    async def before_tool_call(self, event: BeforeToolCallEvent, **kwargs: Any) -> Any:
        return Confirm(prompt="Which pin?", evaluate=lambda response: response == {"pin": 4711})


class Warning(HumanInTheLoop):
    """Lets the handler that it extends decide, and says more."""

    async def before_tool_call(self, event: BeforeToolCallEvent, **kwargs: Any) -> Any:
        action = await super().before_tool_call(event, **kwargs)
        return replace(action, prompt="Really?") if isinstance(action, Confirm) else action


@pytest.mark.parametrize(("answer", "effects"), [({"pin": 4711}, [5]), (APPROVE, [])], ids=["the pin", "an approval"])
async def test_a_handler_that_extends_human_in_the_loop_reads_the_answer_itself_where_it_wants_to(
    answer: Any, effects: Effects
) -> None:
    run, _ = await proved(lambda effects: payer(effects, interventions=[Pinned()]), lambda asked: answer)
    (asked,) = run.requests
    assert (asked["type"], asked["payload"]["reason"], run.effects) == ("hook_interrupt", "Which pin?", effects)


async def test_a_handler_that_extends_human_in_the_loop_and_lets_it_decide_asks_for_an_approval() -> None:
    run, _ = await proved(lambda effects: payer(effects, interventions=[Warning()]), lambda asked: APPROVE)
    (asked,) = run.requests
    assert (asked["type"], asked["message"], run.effects) == ("tool_approval", "Really?", [5])


# -- who let a call run ------------------------------------------------------------------------------------------------


async def asking_hook(event: BeforeToolCallEvent) -> None:
    event.interrupt("hook")


async def waiting_hook(event: BeforeToolCallEvent) -> None:
    if not await hitl.interrupt({"type": "may_it"}):
        event.cancel_tool = "no"


async def stepping_hook(event: BeforeToolCallEvent) -> None:
    async def asked() -> Any:
        return await hitl.interrupt({"type": "may_it"})

    if not await hitl.step(asked):
        event.cancel_tool = "no"


async def asking_middleware(context: Any, next_fn: Any) -> Any:
    context.interrupt("middleware")
    async for event in next_fn(context):
        yield event


def ungated(effects: Effects, *, hook: Any = None, middleware: Any = None) -> Agent:
    agent = payer(effects, interventions=[], hooks=[] if hook is None else [hook])
    if middleware is not None:
        agent.add_middleware(ExecuteToolStage, middleware)
    return agent


@pytest.mark.parametrize(
    "gate",
    [{"hook": asking_hook}, {"hook": waiting_hook}, {"hook": stepping_hook}, {"middleware": asking_middleware}],
    ids=["a hook by interrupt", "a hook by hitl.interrupt", "a step of a hook", "middleware"],
)
async def test_what_a_person_let_run_is_not_run_again_after_a_crash_without_asking(gate: dict[str, Any]) -> None:
    run, said = await proved(lambda effects: ungated(effects, **gate), lambda asked: "y")
    assert (said, run.effects, len(run.requests)) == ([["success", "paid 5"]], [5], 1)
    assert [request.get("lets_run") for request in run.requests] == [True]
    assert begun_once(run) == ["~tool:c00"]


async def test_what_nobody_was_asked_about_is_run_again_after_a_crash() -> None:
    run, _ = await proved(ungated)
    assert (run.effects, begun_once(run)) == ([5], [])


def begun_once(run: Run) -> list[str]:
    """Paths of the steps that a crash in the middle leaves for a person to judge."""
    return [entry["step"]["path"] for entry in run.port.journal if entry["entry"] == "intent"]


# -- middleware that an agent is given later ---------------------------------------------------------------------------


async def doubling(context: Any, next_fn: Any) -> Any:
    cents = 2 * context.tool_use["input"]["cents"]
    async for event in next_fn(context.replace(tool_use={**context.tool_use, "input": {"cents": cents}})):
        yield event


async def test_what_is_approved_is_what_runs_also_of_middleware_that_came_after_the_first_turn() -> None:
    effects: Effects = []
    agent = payer(effects)
    first = await hitl.run(agent, "go")
    assert first.status == "interrupted"
    agent.add_middleware(ExecuteToolStage, doubling)
    second = await hitl.run(agent, "go")
    assert second.status == "interrupted"
    (asked,) = second.interrupts
    assert asked.tool_args == {"cents": 10}
    result = await hitl.run(agent, second.state.approve(asked))
    assert (result.status, effects) == ("idle", [10]), result


async def test_a_turn_leaves_the_middleware_of_an_agent_as_its_program_made_it() -> None:
    def handlers() -> list[Any]:
        return [each.handler for each in agent._middleware_registry._handlers[ExecuteToolStage]]

    agent = payer([])
    agent.add_middleware(ExecuteToolStage, doubling)
    before = handlers()
    await hitl.run(agent, "go")
    assert handlers() == before
