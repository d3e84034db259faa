"""Parameters that the run fills in, and not the model: its `RunContext`, and resources."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hitl.tools.context import RunContext
from hitl.tools.hints import resolve_hints
from hitl.turn.resource_parts import Resource, part_of, takes_none


class FilledParameters(NamedTuple):
    """Which parameters of a tool the run fills in."""

    context: str | None
    """The one that gets the `RunContext`."""

    resources: Mapping[str, Any]
    """Those that get a resource, with its type."""

    takes_resources: bool
    """Whether the agent's resources have to be open when the function is called."""

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return frozenset(self.resources) if self.context is None else frozenset((*self.resources, self.context))

    @property
    def needed(self) -> str | None:
        """One that cannot do without a resource."""
        return next((name for name, wanted in self.resources.items() if not takes_none(wanted)), None)

    def values(self, context: RunContext[Any]) -> dict[str, Any]:
        """What they get; raises `NoSuchResource`."""
        filled = {name: part_of(context.resources, wanted, name) for name, wanted in self.resources.items()}
        if self.context is not None:
            filled[self.context] = context
        return filled


def read_filled(owner: str, names: typing.Iterable[str], hints: Mapping[str, Any]) -> FilledParameters:
    """From a tool's annotations; `TypeError` for several contexts."""
    contexts, resources = [], {}
    for name in names:
        hint = hints.get(name)
        if _context_of(hint) is not None:
            contexts.append(name)
        elif (wanted := _resource_of(hint)) is not None:
            resources[name] = wanted
    if len(contexts) > 1:
        raise TypeError(f"tool {owner!r} has several RunContext parameters: {', '.join(contexts)}")
    context = contexts[0] if contexts else None
    takes = bool(resources) or (context is not None and _has_resources(hints[context]))
    return FilledParameters(context, resources, takes)


def says_resources(function: Callable[..., Any]) -> bool:
    """Whether the context that a policy or a description gets is annotated as one with resources."""
    try:
        hints = resolve_hints(function, None)
    except (NameError, TypeError, AttributeError):  # what cannot be read says nothing
        return False
    return any(_has_resources(hint) for name, hint in hints.items() if name != "return")


def _context_of(hint: Any) -> Any:
    """The `RunContext` in an annotation, with or without arguments; None where there is none."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    candidates = [hint, *typing.get_args(hint)] if is_union else [hint]
    return next((item for item in candidates if item is RunContext or typing.get_origin(item) is RunContext), None)


def _has_resources(hint: Any) -> bool:
    found = _context_of(hint)
    return found is not None and typing.get_args(found)[1:] != (types.NoneType,)


def _resource_of(hint: Any) -> Any:
    """The type of a parameter that is marked with `Resource`; None for any other."""
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    wanted, *marks = typing.get_args(hint)
    return wanted if any(mark is Resource or isinstance(mark, Resource) for mark in marks) else None
