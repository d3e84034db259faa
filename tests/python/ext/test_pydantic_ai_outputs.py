"""What makes the output of a run of pydantic-ai: functions and validators of the program do their work once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelMessage, ModelResponse, ModelRetry, RunContext, TextOutput, TextPart, ToolOutput
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.output import Choice, Choices

import hitl
from hitl import RunState
from hitl.ext.pydantic_ai import durability
from tests.python.ext.pydantic_ai_runs import APPROVE, Timeless, payer, says
from tests.python.support.prefixes import Effects, Run, run_all_prefixes


class Order(BaseModel):
    item: str


@dataclass
class Receipt:
    order: Order
    cents: int


def ends(*replies: list[Any]) -> FunctionModel:
    """A model that says each of these, and the last of them from then on."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(parts=replies[min(done, len(replies) - 1)])

    return FunctionModel(reply)


def call(name: str, args: dict[str, Any], call_id: str) -> ToolCallPart:
    return ToolCallPart(name, args, tool_call_id=call_id)


def pays_beside(agent: Agent[Any, Any], effects: Effects) -> Agent[Any, Any]:
    """An agent with a tool that asks, so that the turn pauses once its output is made."""

    @agent.tool_plain(requires_approval=True)
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent


BESIDE = [call("final_result", {"item": "hat"}, "o1"), call("pay", {"cents": 5}, "p1")]


async def proved_once(make: Callable[[Effects], Any], *expected: Any, answers: Any = lambda asked: APPROVE) -> Run:
    """The run of an agent, which every prefix of its journal leads to."""
    run = await run_all_prefixes(lambda effects: Timeless(make(effects)), answers)
    assert run.effects == list(expected)
    return run


async def test_a_function_that_makes_the_output_runs_once_beside_a_tool_that_asks() -> None:
    made: list[str] = []

    async def order(item: str) -> Receipt:
        made.append(item)
        return Receipt(Order(item=item), len(made))

    agent = pays_beside(Agent(ends(BESIDE), name="shop", output_type=order), [])
    first = await hitl.run(agent, "go")
    assert (first.status, made) == ("interrupted", ["hat"])
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert (result.output, made) == ('{"order":{"item":"hat"},"cents":1}', ["hat"])


async def test_every_prefix_of_a_journal_leads_to_the_same_output() -> None:
    def make(effects: Effects) -> Any:
        def order(item: str) -> Receipt:
            effects.append(item)
            return Receipt(Order(item=item), 1)

        return pays_beside(Agent(ends(BESIDE), name="shop", output_type=order), effects)

    run = await proved_once(make, "hat", 5)
    assert json.loads(run.response.content) == {"order": {"item": "hat"}, "cents": 1}
    steps = [entry["step"] for entry in run.port.journal if entry["entry"] == "step"]
    assert ("step", "order") in [(step["kind"], step["name"]) for step in steps]


async def test_a_function_of_a_text_runs_once_for_a_nested_agent_that_is_asked_again() -> None:
    made: list[str] = []

    def shout(text: str) -> str:
        made.append(text)
        return text.upper()

    inner = Agent(ends([TextPart("hat")]), name="inner", output_type=TextOutput(shout))
    agent = Agent(says([("look", {})]), name="outer")

    @agent.tool_plain
    async def look() -> str:
        said = (await inner.run("what?")).output
        return f"{said} {await hitl.interrupt({'type': 'confirm'})}"

    first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.answer(state.interrupts[0], "yes"))
    assert (result.output, made) == ('[["success", "HAT yes"]]', ["hat"])


@pytest.mark.parametrize("how", ["a function", "a validator", "pydantic", "a function of text"])
async def test_an_output_that_is_refused_is_made_again_by_the_model(how: str) -> None:
    told: list[Any] = []

    def make(effects: Effects) -> Any:
        def checked(item: str) -> str:
            effects.append(item)
            if item == "hat" and how == "pydantic":
                Order.model_validate({"item": 1})
            if item == "hat":
                raise ModelRetry("no hats")
            return item

        def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            told[:] = [part.content for part in messages[-1].parts] if len(messages) > 1 else []
            item = "cap" if told else "hat"
            if how == "a function of text":
                return ModelResponse(parts=[TextPart(item)])
            args = {"response": item} if how == "a validator" else {"item": item}
            return ModelResponse(parts=[call("final_result", args, item)])

        output: Any = {"a validator": ToolOutput(str), "a function of text": TextOutput(checked)}.get(how, checked)
        agent: Any = Agent(FunctionModel(reply), name="shop", output_type=output)
        if how == "a validator":
            agent.output_validator(checked)
        return agent

    run = await proved_once(make, "hat", "cap", answers=None)
    assert run.response.content == "cap"
    (refused,) = told
    if how == "pydantic":
        assert (refused[0]["type"], refused[0]["loc"], refused[0]["input"]) == ("string_type", ["item"], 1)
    else:
        assert "no hats" in refused


async def test_an_action_that_a_model_chooses_runs_once() -> None:
    done: list[str] = []

    def refund() -> str:
        done.append("refund")
        return "refunded"

    chosen = Choices({"refund": Choice("Money back", value=refund), "none": Choice("Nothing")})
    replies = [call("final_result", {"response": "refund"}, "o1"), call("pay", {"cents": 5}, "p1")]
    agent = pays_beside(Agent(ends(replies), name="shop", output_type=chosen), [])
    first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert (result.output, done) == ("refunded", ["refund"])


async def test_what_a_function_asks_and_has_other_agents_do_are_its_own_steps() -> None:
    def make(effects: Effects) -> Any:
        inner = payer(effects)

        async def hand_over(ctx: RunContext[Any], item: str) -> Order:
            said = (await inner.run(item, usage=ctx.usage)).output
            return Order(item=f"{item}: {said}")

        return Agent(ends([call("final_result", {"item": "hat"}, "o1")]), name="shop", output_type=hand_over)

    run = await proved_once(make, 5)
    assert json.loads(run.response.content)["item"] == 'hat: [["success", "paid 5"]]'


async def test_what_cannot_be_stored_is_made_again_in_a_replay() -> None:
    class Local:
        def __init__(self, item: str) -> None:
            self.item = item

        def __repr__(self) -> str:
            return f"<{self.item}>"

    made: list[str] = []

    def local(item: str) -> Any:
        made.append(item)
        return Local(item)

    agent = pays_beside(Agent(ends(BESIDE), name="shop", output_type=local), [])
    first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert (result.output, made) == ('"<hat>"', ["hat", "hat"])


async def test_what_cannot_be_stored_and_has_steps_of_its_own_is_an_error_that_says_so() -> None:
    async def local(item: str) -> Any:
        await hitl.step(str.upper, item)
        return object()

    agent = Agent(ends([call("final_result", {"item": "hat"}, "o1")]), name="shop", output_type=local)
    result = await hitl.run(agent, "go")
    assert result.status == "error"
    assert (result.error or "").startswith("TypeError: what local() made of the reply")


async def test_a_turn_of_an_earlier_release_whose_output_was_no_step_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def order(item: str) -> Order:
        made.append(item)
        return Order(item=item)

    agent = pays_beside(Agent(ends(BESIDE), name="shop", output_type=order), [])
    with monkeypatch.context() as earlier:
        earlier.setattr(durability, "has_functions", lambda *_: False)
        first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert (result.output, made) == ('{"item":"hat"}', ["hat", "hat"])


async def test_an_output_without_functions_is_no_step() -> None:
    run = await run_all_prefixes(
        lambda effects: Timeless(
            Agent(ends([call("final_result", {"item": "hat"}, "o1")]), name="shop", output_type=Order)
        ),
        None,
    )
    assert [e["step"]["kind"] for e in run.port.journal if e["entry"] == "step"] == ["model"]
