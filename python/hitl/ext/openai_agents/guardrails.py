"""Guardrails in a turn: each is a step, so that none is asked again, and none may change its mind in a replay."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any, Final

from agents import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)
from pydantic_core import to_jsonable_python

from hitl.ext.openai_agents.memory import name_of
from hitl.ext.turns import is_in_turn
from hitl.journal.codec import encode
from hitl.turn.permits import permit
from hitl.turn.runtime import current_turn

_OF_WHAT_GOES_IN: Final = ("input_guardrail", "tool_input_guardrail")

_run_input = InputGuardrail.run
_run_output = OutputGuardrail.run
_run_tool_input = ToolInputGuardrail.run
_run_tool_output = ToolOutputGuardrail.run


async def _run(kind: str, guardrail: Any, agent: Any, call_id: str | None, ask: Any) -> Any:
    """What a guardrail said, by member: what it says beside its verdict may be of any class, and is of it again."""
    turn = current_turn()
    function = guardrail.guardrail_function
    name = guardrail.name or getattr(function, "__name__", type(function).__name__)
    of = name_of(turn, agent) if call_id is None else call_id

    async def body() -> Any:
        said = await ask()
        if not dataclasses.is_dataclass(said):
            return to_jsonable_python(said, fallback=repr)
        return {field.name: _kept(getattr(said, field.name)) for field in dataclasses.fields(said)}

    with permit() if kind in _OF_WHAT_GOES_IN else nullcontext():
        return await turn.run_step("guardrail", name, body, key=f"{kind}:{of}:{name}")


def _kept(value: Any) -> Any:
    """The value as a step keeps it; of what none can keep, its JSON."""
    try:
        encode(value)
    except (TypeError, ValueError):
        return to_jsonable_python(value, fallback=repr)
    return value


async def _input(self: InputGuardrail[Any], agent: Any, input: Any, context: Any) -> InputGuardrailResult:
    if not is_in_turn():
        return await _run_input(self, agent, input, context)

    async def ask() -> Any:
        return (await _run_input(self, agent, input, context)).output

    said = await _run("input_guardrail", self, agent, None, ask)
    return InputGuardrailResult(guardrail=self, output=GuardrailFunctionOutput(**said))


async def _output(self: OutputGuardrail[Any], context: Any, agent: Any, agent_output: Any) -> OutputGuardrailResult:
    if not is_in_turn():
        return await _run_output(self, context, agent, agent_output)

    async def ask() -> Any:
        return (await _run_output(self, context, agent, agent_output)).output

    said = await _run("output_guardrail", self, agent, None, ask)
    output = GuardrailFunctionOutput(**said)
    return OutputGuardrailResult(guardrail=self, agent=agent, agent_output=agent_output, output=output)


async def _tool_input(self: ToolInputGuardrail[Any], data: Any) -> ToolGuardrailFunctionOutput:
    if not is_in_turn():
        return await _run_tool_input(self, data)

    async def ask() -> Any:
        return await _run_tool_input(self, data)

    said = await _run("tool_input_guardrail", self, data.agent, data.context.tool_call_id, ask)
    return ToolGuardrailFunctionOutput(**said)


async def _tool_output(self: ToolOutputGuardrail[Any], data: Any) -> ToolGuardrailFunctionOutput:
    if not is_in_turn():
        return await _run_tool_output(self, data)

    async def ask() -> Any:
        return await _run_tool_output(self, data)

    said = await _run("tool_output_guardrail", self, data.agent, data.context.tool_call_id, ask)
    return ToolGuardrailFunctionOutput(**said)


def install() -> None:
    """Let guardrails in turns be steps."""
    InputGuardrail.run = _input  # type: ignore[method-assign]
    OutputGuardrail.run = _output  # type: ignore[method-assign]
    ToolInputGuardrail.run = _tool_input  # type: ignore[method-assign]
    ToolOutputGuardrail.run = _tool_output  # type: ignore[method-assign]
