"""What guardrails make of arguments and results, each as a step."""

from __future__ import annotations

import copy
from typing import Any

from hitl.tools.guardrails import InputGuardrail, OutputGuardrail
from hitl.tools.invoking import as_step, invoke
from hitl.tools.options import AnyTool
from hitl.tools.read_back import is_same
from hitl.tools.recorded import as_recorded
from hitl.tools.schema import Arguments, InvalidArguments
from hitl.turn.runtime import Turn


async def guard_input(turn: Turn | None, tool: AnyTool, arguments: Arguments) -> Arguments:
    """Let each guardrail of a tool keep (None) or change arguments; `InvalidArguments` for what does not fit then."""
    for guardrail in tool.input_guardrails:
        arguments = as_recorded(turn, tool, arguments)
        given = guardrail.pick(arguments.values)

        async def look(
            guardrail: InputGuardrail = guardrail, given: dict[str, Any] = given, before: Arguments = arguments
        ) -> Any:
            # A copy, as of a result: the tool gets what the record says, and nothing that is kept or changed later.
            copies = copy.deepcopy(given)
            patch = await invoke(turn, guardrail.function, **copies)
            if patch is not None and not isinstance(patch, dict):
                raise TypeError(
                    f"guardrail {guardrail.name!r} must return None or a dict of arguments, got {type(patch).__name__}"
                )
            changed = _changed_in_place(tool, before, given, copies, guardrail.name)
            return {**changed, **(patch or {})} if changed else patch

        shown = guardrail.pick(arguments.json)
        if shown.keys() != given.keys():  # a schema with aliases: JSON has other names than Python
            shown = arguments.json
        patch = await as_step(turn, "guardrail", f"{tool.name}.{guardrail.name}", look, shown)
        if patch is not None:
            try:
                # As the model's would be with these: what was converted already is not converted once more.
                arguments = tool.check(tool.parameters.replaced(arguments.given, patch))
            except InvalidArguments as error:
                raise InvalidArguments(f"after guardrail {guardrail.name!r}: {error}") from error
    return as_recorded(turn, tool, arguments)


def _changed_in_place(
    tool: AnyTool, before: Arguments, given: dict[str, Any], copies: dict[str, Any], guardrail: str
) -> dict[str, Any]:
    """The arguments that a guardrail has changed in its `copies` of what was `given`, as JSON: so they are checked as
    the model's are, and recorded whatever their classes."""
    if all(copies[name] is given[name] for name in given):  # nothing in them can be changed
        return {}
    try:
        now = tool.parameters.to_json({**before.values, **copies})
    except ValueError as error:
        raise InvalidArguments(f"after guardrail {guardrail!r}: arguments cannot be written as JSON: {error}") from None
    return {name: value for name, value in now.items() if not is_same(value, before.in_order.get(name))}


async def guard_output(turn: Turn | None, owner: str, guardrails: tuple[OutputGuardrail, ...], value: Any) -> Any:
    """Let each guardrail keep (None) or replace a value."""
    for guardrail in guardrails:

        async def look(guardrail: OutputGuardrail = guardrail, value: Any = value) -> Any:
            if turn is None:
                return await invoke(turn, guardrail.function, value)
            # A copy: what it changes in place is recorded as what it returns is.
            given = copy.deepcopy(value)
            replaced = await invoke(turn, guardrail.function, given)
            is_changed = given is not value and given != value
            return given if replaced is None and is_changed else replaced

        replaced = await as_step(turn, "guardrail", f"{owner}.{guardrail.name}", look, {"value": value})
        if replaced is not None:
            value = replaced
    return value
