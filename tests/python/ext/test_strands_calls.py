"""What is each call's own in a turn of Strands: its id may come again, others run beside it, it may be made again.

Each from every prefix of its journal too.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.agent.state import AgentState
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.interventions import Confirm, InterventionHandler, Proceed
from strands.types.tools import AgentTool
from strands.vended_interventions.hitl import HumanInTheLoop
from strands.vended_interventions.hitl.classifier import ClassifierResult

import hitl
from hitl import RunState
from tests.python.ext.strands_runs import APPROVE, Speaking, payer, proved, proved_text, says
from tests.python.support.prefixes import Effects

# -- ids that come again -----------------------------------------------------------------------------------------------

ONE_THEN_FIVE = says([("pay", {"cents": 1})], [("pay", {"cents": 5})], again=True)
FIVE_THEN_ONE = says([("pay", {"cents": 5})], [("pay", {"cents": 1})], again=True)


async def test_what_a_classifier_said_of_a_call_says_nothing_of_a_later_one_with_its_id() -> None:
    async def risky(event: BeforeToolCallEvent, **_: Any) -> ClassifierResult:
        return ClassifierResult(event.tool_use["input"]["cents"] > 3, "more than three")

    def make(effects: Effects) -> Agent:
        return payer(effects, model=ONE_THEN_FIVE, interventions=[HumanInTheLoop(classifier=risky)])

    run, said = await proved(make, lambda asked: {"type": "reject"})
    assert (said, run.effects) == ([["success", "paid 1"], ["error", "User rejected pay"]], [1])
    assert [asked["payload"]["tool_args"] for asked in run.requests] == [{"cents": 5}]


async def test_what_somebody_elsewhere_said_of_a_call_says_nothing_of_a_later_one_with_its_id() -> None:
    async def elsewhere(prompt: str) -> str:
        return "y" if '"cents": 1' in prompt else "n"

    def make(effects: Effects) -> Agent:
        return payer(effects, model=ONE_THEN_FIVE, interventions=[HumanInTheLoop(ask=elsewhere)])

    run, said = await proved(make)
    assert ([status for status, *_ in said], run.effects) == (["success", "error"], [1])


async def test_a_call_is_not_asked_about_for_an_earlier_one_with_its_id_was() -> None:
    class Cautious(InterventionHandler):
        name = "cautious"

        def before_tool_call(self, event: BeforeToolCallEvent, **kwargs: Any) -> Any:
            return Confirm(prompt="So much?") if event.tool_use["input"]["cents"] > 3 else Proceed()

    run, said = await proved(
        lambda effects: payer(effects, model=FIVE_THEN_ONE, interventions=[Cautious()]), lambda asked: APPROVE
    )
    assert (said, run.effects) == ([["success", "paid 5"], ["success", "paid 1"]], [5, 1])
    assert [asked["message"] for asked in run.requests] == ["So much?"]


async def test_only_the_call_that_a_hook_asked_about_is_an_approved_one() -> None:
    def hook(event: BeforeToolCallEvent) -> None:
        if event.tool_use["input"]["cents"] > 3:
            event.interrupt("sure")

    def make(effects: Effects) -> Agent:
        return payer(effects, model=FIVE_THEN_ONE, interventions=[], hooks=[hook])

    run, _ = await proved(make, lambda asked: "y")
    assert [entry["step"]["path"] for entry in run.port.journal if entry["entry"] == "intent"] == ["~tool:c0"]


async def test_a_hook_that_asks_about_each_call_asks_about_a_later_one_with_the_same_id() -> None:
    def hook(event: BeforeToolCallEvent) -> None:
        if event.interrupt("sure", reason=event.tool_use["input"]) != "y":
            event.cancel_tool = "no"

    def make(effects: Effects) -> Agent:
        return payer(effects, model=ONE_THEN_FIVE, interventions=[], hooks=[hook])

    run, said = await proved(make, lambda asked: "y" if asked["payload"]["reason"]["cents"] == 1 else "n")
    assert (said, run.effects) == ([["success", "paid 1"], ["error", "no"]], [1])


async def test_calls_of_one_message_that_have_the_same_id_are_asked_about_one_by_one() -> None:
    def hook(event: BeforeToolCallEvent) -> None:
        if event.interrupt("sure", reason=event.tool_use["input"]) != "y":
            event.cancel_tool = "no"

    class Careless(Speaking):
        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            async for event in super().stream(messages):
                if use := event.get("contentBlockStart", {}).get("start", {}).get("toolUse"):
                    use["toolUseId"] = "same"
                yield event

    def make(effects: Effects) -> Agent:
        model = Careless(says([("pay", {"cents": 1}), ("pay", {"cents": 5})]).reply)
        return payer(effects, model=model, interventions=[], hooks=[hook])

    run, said = await proved(make, lambda asked: "y" if asked["payload"]["reason"]["cents"] == 1 else "n")
    assert (sorted(said), run.effects) == ([["error", "no"], ["success", "paid 1"]], [1])
    assert len(run.requests) == 2


# -- options and rules -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["as a tool", "in a tool", "in a hook"])
async def test_options_say_how_agents_ask_that_it_calls(how: str) -> None:
    options: Any = {"description": "A payment", "approvers": ["group:finance"], "source": "bank"}

    def make(effects: Effects) -> Agent:
        inner = payer(effects, name="inner")

        @tool
        async def ask(input: str) -> str:
            """Ask the inner agent."""
            return "asked" if how == "in a hook" else str(await inner.invoke_async(input))

        async def hook(event: BeforeToolCallEvent) -> None:
            await inner.invoke_async("go")

        hooks: list[Any] = [hook] if how == "in a hook" else []
        tools: list[Any] = [inner.as_tool(name="ask") if how == "as a tool" else ask]
        return Agent(says([("ask", {"input": "a"})]), name="outer", tools=tools, hooks=hooks)

    run, _ = await proved(make, lambda asked: APPROVE, approvals={"pay": options})
    (asked,) = run.requests
    assert (asked["agent"], asked["message"], asked["approvers"]) == ("inner", "A payment", ["group:finance"])
    assert asked["tool_source"] == "bank"


@pytest.mark.parametrize("arguments", [{}, {"cents": None}, {"cents": 5}, {"cents": "much"}], ids=str)
async def test_rules_let_pass_what_is_left_out_or_null_where_that_is_the_default(arguments: dict[str, Any]) -> None:
    def make(effects: Effects) -> Agent:
        @tool
        def pay(cents: int | None = None) -> str:
            """Pay.

            Args:
                cents: how much.
            """
            effects.append(cents)
            return "paid"

        return Agent(says([("pay", arguments)]), name="payer", tools=[pay])

    run, _ = await proved(make, journal_start={"policy": True})
    assert run.effects == ([] if arguments.get("cents") == "much" else [arguments.get("cents")])


# -- state -------------------------------------------------------------------------------------------------------------


def marking(first: str) -> Any:
    """Makes an agent with two calls at once that set the same member, `a` before `b`; `first` is the one that ends
    first. Then it asks whether to pay, and then looks."""

    def make(effects: Effects) -> Agent:
        a_has_set, first_is_told = asyncio.Event(), asyncio.Event()

        @tool(context=True)
        async def a(tool_context: ToolContext) -> str:
            """Mark."""
            tool_context.agent.state.set("mark", "a")
            a_has_set.set()
            if first == "b":
                await first_is_told.wait()
            return "a"

        @tool(context=True)
        async def b(tool_context: ToolContext) -> str:
            """Mark."""
            await a_has_set.wait()
            tool_context.agent.state.set("mark", "b")
            if first == "a":
                await first_is_told.wait()
            return "b"

        @tool(context=True)
        def look(tool_context: ToolContext) -> str:
            """Look."""
            return str(tool_context.agent.state.get("mark"))

        def told(event: AfterToolCallEvent) -> None:
            if event.tool_use["name"] == first:
                first_is_told.set()

        handler = HumanInTheLoop(allowed_tools=["a", "b", "look"])
        rounds: Any = [("a", {}), ("b", {})], [("look", {})], [("pay", {"cents": 1})], [("look", {})]
        agent = payer(effects, *rounds, interventions=[handler], hooks=[told])
        agent.tool_registry.process_tools([a, b, look])
        return agent

    return make


@pytest.mark.parametrize("first", ["a", "b"])
async def test_what_calls_leave_in_their_agent_at_once_is_not_lost_and_comes_in_its_order(first: str) -> None:
    make = marking(first)
    agent = make([])
    result = await hitl.run(agent, "go")
    agent = make([])
    state = RunState.from_string(agent, result.state.to_string())
    result = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert result.output is not None
    assert result.output.count('["success", "b"]') == 3, result.output  # of the call itself, and of both looks


async def test_state_that_a_tool_puts_in_the_place_of_another_or_sets_in_a_thread_of_its_own_is_kept() -> None:
    @tool(context=True)
    def replace(tool_context: ToolContext) -> str:
        """Begin anew."""
        tool_context.agent.state = AgentState({"fresh": 1})
        state = tool_context.agent.state
        beside = threading.Thread(target=lambda: state.set("beside", 2))
        beside.start()
        beside.join()
        return "replaced"

    @tool(context=True)
    def look(tool_context: ToolContext) -> str:
        """Look."""
        return str(tool_context.agent.state.get())

    def make(effects: Effects) -> Agent:
        model = says([("replace", {})], [("look", {})])
        return Agent(model, name="a", tools=[replace, look], state={"old": 0})

    _, said = await proved(make)
    assert said[1] == ["success", "{'fresh': 1, 'beside': 2}"]


# -- results -----------------------------------------------------------------------------------------------------------


class Returning(AgentTool):
    """A tool that is no function, and returns what it is given."""

    tool_name = "give"
    tool_type = "custom"
    tool_spec: Any = {"name": "give", "description": "Give.", "inputSchema": {"json": {"type": "object"}}}

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result

    async def stream(self, tool_use: Any, invocation_state: Any, **kwargs: Any) -> Any:
        yield self._result


@pytest.mark.parametrize(
    "result",
    [
        None,
        {"toolUseId": "c00", "status": "success", "content": None},
        {"toolUseId": "c00", "status": "success", "content": []},
        {"toolUseId": "c00", "status": "success", "content": [{"text": None}]},
        {"toolUseId": "c00", "status": "success", "content": [{"json": None}]},
    ],
    ids=["none", "no content", "empty content", "no text", "null"],
)
async def test_a_result_that_is_nothing_is_told_to_the_model_as_without_hitl(result: Any) -> None:
    told: list[Any] = []

    def reply(messages: list[Any]) -> Any:
        if len(messages) == 1:
            return [("give", {})]
        told.append(messages[-1]["content"])
        return "done"

    def make(effects: Effects) -> Agent:
        return Agent(Speaking(reply), name="giver", tools=[Returning(result)], callback_handler=None)

    assert str(await make([]).invoke_async("go")) == "done\n"
    (without,) = told
    told.clear()
    _, said = await proved_text(make)
    assert said == "done"
    assert told[0] == without


NOTE = {"text": '[A person changed the arguments of this call to {"a":1}]'}
EMPTY = {"toolUseId": "c00", "status": "success"}


@pytest.mark.parametrize(
    ("result", "told"),
    [(None, None), ({**EMPTY, "content": None}, {**EMPTY, "content": [NOTE]})],
    ids=["none", "no content"],
)
async def test_an_edit_is_told_beside_a_result_that_says_nothing_where_there_is_one(result: Any, told: Any) -> None:
    def reply(messages: list[Any]) -> Any:
        return [("give", {})] if len(messages) == 1 else json.dumps(messages[-1]["content"][0]["toolResult"])

    def make(effects: Effects) -> Agent:
        handler = HumanInTheLoop()
        return Agent(Speaking(reply), name="giver", tools=[Returning(result)], interventions=[handler])

    _, said = await proved_text(make, lambda asked: {"type": "edit", "args": {"a": 1}})
    assert json.loads(said) == told


# -- tools that are called again ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["async", "in a thread"])
async def test_steps_of_a_tool_that_asks_are_not_run_again_when_it_is_called_again(how: str) -> None:
    def make(effects: Effects) -> Agent:
        def charge(what: str) -> str:
            effects.append(what)
            return f"charged {what}"

        @tool(context=True)
        async def ship(tool_context: ToolContext) -> str:
            """Ship."""
            said = [await hitl.step(charge, "one")]
            said.append(tool_context.interrupt("where"))
            said.append(await hitl.step(charge, "two"))
            said.append(tool_context.interrupt("when"))
            return ", ".join([*said, await hitl.step(charge, "three")])

        @tool(name="ship", context=True)
        def ship_blocking(tool_context: ToolContext) -> str:
            """Ship."""
            said = [hitl.step.sync(charge, "one")]
            said.append(tool_context.interrupt("where"))
            said.append(hitl.step.sync(charge, "two"))
            said.append(tool_context.interrupt("when"))
            return ", ".join([*said, hitl.step.sync(charge, "three")])

        tools: list[Any] = [ship if how == "async" else ship_blocking]
        return Agent(says([("ship", {})]), name="clerk", tools=tools)

    run, said = await proved(make, lambda asked: asked["payload"]["name"])
    assert said == [["success", "charged one, where, charged two, when, charged three"]]
    assert run.effects == ["one", "two", "three"]


async def test_what_an_agent_did_in_a_tool_that_asks_is_not_done_again() -> None:
    def make(effects: Effects) -> Agent:
        inner = payer(effects, name="inner")

        @tool(context=True)
        async def ship(tool_context: ToolContext) -> str:
            """Ship."""
            said = str(await inner.invoke_async("pay"))
            return f"{tool_context.interrupt('where')}: {said}"

        return Agent(says([("ship", {})]), name="clerk", tools=[ship])

    run, said = await proved(make, lambda asked: APPROVE if asked["type"] == "tool_approval" else "home")
    assert said == [["success", 'home: [["success", "paid 5"]]\n']]
    assert (run.effects, len(run.requests)) == ([5], 2)


# -- replies of a type -------------------------------------------------------------------------------------------------


class City(BaseModel):
    name: str
    people: int


@pytest.mark.parametrize(
    ("decision", "people"),
    [(APPROVE, 7), ({"type": "edit", "args": {"name": "Oslo", "people": 8}}, 8), ({"type": "reject"}, None)],
    ids=["approve", "edit", "reject"],
)
async def test_a_reply_of_a_type_is_approved_where_the_agent_wants_that(decision: Any, people: int | None) -> None:
    def make(effects: Effects) -> Agent:
        calls: Any = [("City", {"name": "Oslo", "people": 7})], [("City", {"name": "Bergen", "people": 3})]
        return payer(effects, *calls, structured_output_model=City)

    def answers(asked: Any) -> Any:
        return decision if asked["payload"]["tool_args"]["name"] == "Oslo" else APPROVE

    run, reply = await proved_text(make, answers)
    assert run.requests[0]["payload"]["tool_args"] == {"name": "Oslo", "people": 7}
    assert run.requests[0]["allowed_decisions"] == ["approve", "edit", "reject"]
    expected = City(name="Bergen", people=3) if people is None else City(name="Oslo", people=people)
    assert City.model_validate_json(reply) == expected
    assert len(run.requests) == (2 if people is None else 1)
