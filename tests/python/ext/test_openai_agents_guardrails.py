"""What guardrails of the OpenAI Agents SDK say is what whoever reads it gets, also where the turn goes on later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
)
from agents.exceptions import ToolInputGuardrailTripwireTriggered
from pydantic import BaseModel

import hitl
from hitl import RunState
from tests.python.ext.openai_agents_runs import Says


class Verdict(BaseModel):
    reason: str


@dataclass
class Found:
    verdict: Verdict
    lines: tuple[int, ...]


FOUND = Found(Verdict(reason="rude"), (1, 2))


def guarded(kind: str, info: Any, asked: list[str]) -> Agent[Any]:
    """An agent whose guardrail trips, and says ``info``."""

    @input_guardrail(run_in_parallel=False)
    def of_input(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        asked.append(kind)
        return GuardrailFunctionOutput(output_info=info, tripwire_triggered=True)

    @output_guardrail
    def of_output(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        asked.append(kind)
        return GuardrailFunctionOutput(output_info=info, tripwire_triggered=True)

    @tool_input_guardrail
    def of_call(data: Any) -> ToolGuardrailFunctionOutput:
        asked.append(kind)
        return ToolGuardrailFunctionOutput.raise_exception(output_info=info)

    @function_tool(tool_input_guardrails=[of_call])
    def look() -> str:
        return "seen"

    if kind == "tool":
        return Agent(name="guarded", model=Says([("look", {})], last="fine"), tools=[look])
    guards: Any = {"input_guardrails": [of_input]} if kind == "input" else {"output_guardrails": [of_output]}
    return Agent(name="guarded", model=Says(last="fine"), **guards)


def info_of(tripped: Any) -> Any:
    """What the guardrail that tripped has said."""
    result = getattr(tripped, "guardrail_result", tripped)
    return result.output.output_info


@pytest.mark.parametrize("kind", ["input", "output", "tool"])
@pytest.mark.parametrize(
    "info", [Verdict(reason="rude"), FOUND, {"reason": "rude"}, None], ids=lambda info: type(info).__name__
)
async def test_what_a_guardrail_says_is_of_the_class_that_it_said(kind: str, info: Any) -> None:
    read: list[Any] = []
    asked: list[str] = []
    inner = guarded(kind, info, asked)

    @function_tool
    async def delegate() -> str:
        try:
            await Runner.run(inner, "go")
        except (
            InputGuardrailTripwireTriggered,
            OutputGuardrailTripwireTriggered,
            ToolInputGuardrailTripwireTriggered,
        ) as tripped:
            read.append(info_of(tripped))
        return str(await hitl.interrupt({"type": "confirm"}))

    agent = Agent(name="outer", model=Says([("delegate", {})]), tools=[delegate])
    first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.answer(state.interrupts[0], "yes"))
    assert (result.output, asked) == ('["yes"]', [kind])
    assert read == [info, info]
    assert [type(each) for each in read] == [type(info)] * 2


async def test_what_cannot_be_kept_of_it_is_json_from_the_first_run_on() -> None:
    class Local(BaseModel):
        reason: str

    read: list[Any] = []
    inner = guarded("input", Local(reason="rude"), [])

    @function_tool
    async def delegate() -> str:
        try:
            await Runner.run(inner, "go")
        except InputGuardrailTripwireTriggered as tripped:
            read.append(info_of(tripped))
        return str(await hitl.interrupt({"type": "confirm"}))

    agent = Agent(name="outer", model=Says([("delegate", {})]), tools=[delegate])
    first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    await hitl.run(agent, state.answer(state.interrupts[0], "yes"))
    assert read == [{"reason": "rude"}] * 2
