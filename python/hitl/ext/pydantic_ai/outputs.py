"""What the program's own functions make of a model's last words, as a step: output functions, validators, and actions
of ``Choices``. They do their work once, also where the turn waits beside them, or their agent is a tool's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from pydantic_ai.durable_exec import record_durable_unit
from pydantic_ai.exceptions import ModelRetry, ToolRetryError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ToolReturnPart
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import RunContext
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError, to_jsonable_python

from hitl.ext.versions import reading
from hitl.journal.codec import encode
from hitl.turn.runtime import current_turn

DISTRIBUTION: Final = "pydantic-ai-slim"

_AGAIN: Final = "again"
"""The record of an output that cannot be stored: it is made anew."""


def has_functions(ctx: RunContext[Any], output: OutputContext) -> bool:
    """Whether functions of the program make or check an output."""
    if output.has_function or getattr(ctx.agent, "_output_validators", None):
        return True
    # Of `Choices` it is not said whether they have actions.
    return getattr(output.output_type, "__module__", None) == OutputContext.__module__


async def made_once(agent: str, output: OutputContext, call_id: str | None, make: Callable[[], Awaitable[Any]]) -> Any:
    """What ``make()`` makes of a model's words, or has made in an earlier run of the turn; or what it has raised to
    have the model try again."""
    name = output.function_name or "output"
    turn = current_turn(name)
    executed, unstored = False, list[Any]()

    async def body() -> dict[str, Any]:
        nonlocal executed
        executed = True
        try:
            made = await make()
        except (ModelRetry, ToolRetryError, ValidationError) as refused:
            return _wire_of(refused)
        step = current_turn().current_step
        try:
            encode(made, f"what {name}() made of the reply")
        except (TypeError, ValueError):
            if step is not None and step.ordered:
                raise  # what it has done by steps would be done again
            unstored.append(made)
            return {_AGAIN: True}
        return {"value": made}

    try:
        wire: dict[str, Any] = await turn.run_step(
            "step", name, body, key=f"output:{call_id or agent}", past={_AGAIN: True}, is_edit=True
        )
    finally:
        record_durable_unit(executed=executed)
    if _AGAIN in wire:
        return unstored[0] if unstored else await make()
    if "value" in wire:
        return wire["value"]
    raise _refusal_of(wire)


def _wire_of(refused: ModelRetry | ToolRetryError | ValidationError) -> dict[str, Any]:
    """What has the model try again, as JSON."""
    if isinstance(refused, ModelRetry):
        return {"retry": refused.message}
    if isinstance(refused, ToolRetryError):
        part = ModelMessagesTypeAdapter.dump_python([ModelRequest(parts=[refused.tool_retry])], mode="json")
        return {"part": part}
    errors = refused.errors(include_url=False, include_context=False)
    return {"errors": to_jsonable_python(errors, fallback=repr), "title": refused.title}


def _refusal_of(wire: dict[str, Any]) -> ModelRetry | ToolRetryError | ValidationError:
    if "retry" in wire:
        return ModelRetry(wire["retry"])
    if "part" in wire:
        with reading(DISTRIBUTION):
            (request,) = ModelMessagesTypeAdapter.validate_python(wire["part"])
        return ToolRetryError(cast(ToolReturnPart, request.parts[0]))
    errors = [
        InitErrorDetails(
            type=PydanticCustomError(error["type"], error["msg"]),
            loc=tuple(error["loc"]),
            input=error["input"],
        )
        for error in wire["errors"]
    ]
    return ValidationError.from_exception_data(wire["title"], errors)
