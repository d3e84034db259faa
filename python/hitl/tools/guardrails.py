"""Guardrails: code that looks at what a model wrote, or what a tool gave back, and keeps, changes or refuses it.

A guardrail of a tool's input is called with copies of the arguments it names, as keywords (`**kwargs` gets all). It
returns None (keep them), a dict (replace those arguments), or raises (the model gets a tool error); what it changes
inside of an argument counts as returned. A guardrail of an output is called with the result as its one positional
argument: None keeps it, anything else takes its place, and raising makes the call a tool error. Either may be `def`
or `async def`.

Every call is a journaled step, so a resumed turn sees what the guardrail said the first time.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hitl.turn.callables import check_takes

Guardrail = Callable[..., Any]


class InputGuardrail(NamedTuple):
    """One checked guardrail of a tool's arguments."""

    function: Guardrail
    name: str
    wanted: frozenset[str] | None
    """The arguments it names; None: all of them."""

    def pick(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments this guardrail is called with."""
        if self.wanted is None:
            return dict(arguments)
        return {name: arguments[name] for name in arguments if name in self.wanted}


class OutputGuardrail(NamedTuple):
    """One checked guardrail of a result."""

    function: Guardrail
    name: str


def read_input_guardrails(
    tool_name: str, functions: Iterable[Guardrail] | None, parameters: frozenset[str] | None
) -> tuple[InputGuardrail, ...]:
    """Check guardrails when the tool is made: a wrong one must not wait for a model to find it.

    `parameters`: names the tool has; None where it takes any.
    """
    return tuple(_read_input_guardrail(tool_name, function, parameters) for function in _listed(functions))


def _read_input_guardrail(tool_name: str, function: Guardrail, parameters: frozenset[str] | None) -> InputGuardrail:
    label = guardrail_name(function)
    wanted: set[str] = set()
    takes_all = False
    for parameter in _signature(function, tool_name).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise TypeError(
                f"guardrail {label!r} of tool {tool_name!r} takes {parameter.name!r} by position: "
                "guardrails get arguments by name"
            )
        elif parameters is not None and parameter.name not in parameters:
            has = ", ".join(sorted(parameters)) or "none"
            raise TypeError(
                f"guardrail {label!r} names the argument {parameter.name!r}, which tool {tool_name!r} "
                f"does not have (it has: {has})"
            )
        else:
            wanted.add(parameter.name)
    return InputGuardrail(function, label, None if takes_all else frozenset(wanted))


def read_output_guardrails(owner: str, functions: Iterable[Guardrail] | None) -> tuple[OutputGuardrail, ...]:
    """Check guardrails that take one value by position."""
    checked = []
    for function in _listed(functions):
        label = guardrail_name(function)
        check_takes(f"guardrail {label!r} of {owner!r}", function, "the value")
        checked.append(OutputGuardrail(function, label))
    return tuple(checked)


def guardrail_name(function: Guardrail) -> str:
    """What errors and the journal call it."""
    if isinstance(function, functools.partial):
        return guardrail_name(function.func)
    return getattr(function, "__name__", None) or type(function).__name__


def _listed(functions: Iterable[Guardrail] | None) -> list[Guardrail]:
    if functions is None:
        return []
    listed: list[Guardrail] = [functions] if callable(functions) else list(functions)
    for function in listed:
        if not callable(function):
            raise TypeError(f"a guardrail must be callable, got {type(function).__name__}")
    return listed


def _signature(function: Guardrail, owner: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError as error:
        raise TypeError(
            f"guardrail {guardrail_name(function)!r} of {owner!r} has no readable signature\n\n"
            "hint: wrap it in a def that names what it needs"
        ) from error
