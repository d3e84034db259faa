"""What stands before a call of an agent of Strands holds for it, whatever else runs there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.interventions import Confirm, InterventionHandler, Proceed
from strands.middleware import ExecuteToolStage, InvokeModelStage
from strands.middleware._agent_stream import AgentStreamStage
from strands.tools.executors import SequentialToolExecutor
from strands.types._events import ToolResultEvent, ToolStreamEvent
from strands.vended_interventions.hitl import HumanInTheLoop

import hitl
from tests.python.ext.strands_runs import APPROVE, Speaking, payer, proved, proved_text, says
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


async def waiting_middleware(context: Any, next_fn: Any) -> Any:
    assert await hitl.interrupt({"type": "may_it"})
    async for event in next_fn(context):
        yield event


def ungated(effects: Effects, *, hook: Any = None, middleware: Any = None) -> Agent:
    agent = payer(effects, interventions=[], hooks=[] if hook is None else [hook])
    if middleware is not None:
        agent.add_middleware(ExecuteToolStage, middleware)
    return agent


@pytest.mark.parametrize(
    "gate",
    [
        {"hook": asking_hook},
        {"hook": waiting_hook},
        {"hook": stepping_hook},
        {"middleware": asking_middleware},
        {"middleware": waiting_middleware},
    ],
    ids=[
        "a hook by interrupt",
        "a hook by hitl.interrupt",
        "a step of a hook",
        "middleware by interrupt",
        "middleware by hitl.interrupt",
    ],
)
async def test_what_a_person_let_run_is_not_run_again_after_a_crash_without_asking(gate: dict[str, Any]) -> None:
    run, said = await proved(lambda effects: ungated(effects, **gate), lambda asked: "y")
    assert (said, run.effects, len(run.requests)) == ([["success", "paid 5"]], [5], 1)
    assert [request.get("lets_run") for request in run.requests] == [True]
    assert begun_once(run) == ["~tool:c00"]


async def test_what_nobody_was_asked_about_is_run_again_after_a_crash() -> None:
    run, _ = await proved(ungated)
    assert (run.effects, begun_once(run)) == ([5], [])


async def test_what_a_tool_asks_behind_a_gate_is_its_own_business_and_the_gates_before_something_that_waits() -> None:
    @tool
    async def consult() -> str:
        """Ask somebody."""
        return str(await hitl.interrupt({"type": "what"}))

    async def reviewing(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "pay":
            reviewer = Agent(says([("consult", {})]), name="reviewer", tools=[consult])
            await reviewer.invoke_async("fine?")

    def make(effects: Effects) -> Agent:
        agent = payer(effects, [("consult", {})], [("pay", {"cents": 5})], interventions=[], hooks=[reviewing])
        agent.tool_registry.process_tools([consult])
        agent.add_middleware(ExecuteToolStage, asking_middleware)
        return agent

    run, _ = await proved(make, lambda asked: "y")
    asked = [(each["agent"], each["type"], each.get("lets_run", False)) for each in run.requests]
    assert asked == [
        ("payer", "hook_interrupt", True),
        ("payer", "what", False),
        ("reviewer", "what", True),
        ("payer", "hook_interrupt", True),
    ]


async def test_what_middleware_of_models_asks_lets_a_request_run() -> None:
    async def gate(context: Any, next_fn: Any) -> Any:
        await hitl.interrupt({"type": "ask_the_model"})
        async for event in next_fn(context):
            yield event

    agent = Agent(Speaking(lambda messages: "hello"), name="greeter")
    agent.add_middleware(InvokeModelStage, gate)
    run, said = await proved_text(lambda effects: agent, lambda asked: "y")
    assert (said, [asked.get("lets_run") for asked in run.requests]) == ("hello", [True])


async def test_middleware_asks_about_each_call_for_itself_also_where_two_of_a_reply_have_one_id() -> None:
    async def gate(context: Any, next_fn: Any) -> Any:
        if context.interrupt("gate", reason=context.tool_use["input"]).response == "y":
            async for event in next_fn(context):
                yield event
        else:
            yield ToolResultEvent({"toolUseId": "one", "status": "error", "content": [{"text": "no"}]})

    def make(effects: Effects) -> Agent:
        calls = [("pay", {"cents": 5}), ("pay", {"cents": 900})]
        agent = payer(effects, calls, interventions=[])
        agent.model = OneId(agent.model.reply)  # type: ignore[union-attr]
        agent.add_middleware(ExecuteToolStage, gate)
        return agent

    run, _ = await proved(make, lambda asked: "y" if asked["payload"]["reason"]["cents"] == 5 else "n")
    assert (run.effects, sorted(asked["payload"]["reason"]["cents"] for asked in run.requests)) == ([5], [5, 900])


async def test_what_middleware_asks_about_a_call_waits_for_no_other_call() -> None:
    effects: Effects = []

    def make() -> Agent:
        agent = payer(effects, [("pay", {"cents": 1}), ("pay", {"cents": 2})], interventions=[])
        agent.add_middleware(ExecuteToolStage, naming_middleware)
        return agent

    first = await hitl.run(make(), "go")
    assert first.status == "interrupted"
    second_asked = next(each for each in first.interrupts if each.payload["reason"] == {"cents": 2})
    second = await hitl.run(make(), first.state.answer(second_asked, "y"))
    assert (second.status, effects) == ("interrupted", [2])
    assert [each.payload["reason"] for each in second.interrupts] == [{"cents": 1}]


async def naming_middleware(context: Any, next_fn: Any) -> Any:
    context.interrupt("gate", reason=context.tool_use["input"])
    async for event in next_fn(context):
        yield event


async def test_middleware_of_a_whole_run_may_ask_too() -> None:
    async def gate(context: Any, next_fn: Any) -> Any:
        context.interrupt("run it?")
        async for event in next_fn(context):
            yield event

    agent = Agent(Speaking(lambda messages: "hello"), name="greeter")
    agent.add_middleware(AgentStreamStage, gate)
    run, said = await proved_text(lambda effects: agent, lambda asked: "y")
    assert said == "hello"
    assert [(asked["payload"]["name"], asked["lets_run"]) for asked in run.requests] == [("run it?", True)]


async def test_what_middleware_of_an_agent_in_a_tool_asks_is_asked() -> None:
    def make(effects: Effects) -> Agent:
        inner = payer(effects, name="inner", interventions=[])
        inner.add_middleware(ExecuteToolStage, naming_middleware)

        @tool
        async def ask_payer() -> str:
            """Ask."""
            return str(await inner.invoke_async("pay"))

        return Agent(says([("ask_payer", {})]), name="clerk", tools=[ask_payer])

    run, said = await proved(make, lambda asked: "y")
    assert (said, run.effects) == ([["success", '[["success", "paid 5"]]\n']], [5])
    assert [(asked["agent"], asked["payload"]["reason"]) for asked in run.requests] == [("inner", {"cents": 5})]


class OneId(Speaking):
    """Its calls all have the same id."""

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for event in super().stream(messages, *args, **kwargs):
            if use := event.get("contentBlockStart", {}).get("start", {}).get("toolUse"):
                use["toolUseId"] = "one"
            yield event


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
