"""Which part of an agent's resources a parameter of a tool takes.

Apart from what opens them: whoever only declares tools needs no event loop, which takes as long to import as the rest.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from hitl.errors import HitlError


class NoSuchResource(HitlError, TypeError):
    """A tool takes a resource that its agent has not, or that cannot be told from others. It ends the turn: the mistake
    is the program's, and no model's to mend."""

    code = "no_such_resource"


class Resource:
    """Marks a parameter that the run fills in: ``pool: Annotated[Pool, hitl.Resource]``.

    The model does not see it, nor does whoever approves the call. It gets what the agent's ``resources`` are where that
    is a ``Pool``, or else the one part of them that is.

    Example:
        @tool
        async def count(table: str, pool: Annotated[Pool, Resource]) -> int:
            return await pool.fetchval(f"select count(*) from {table}")
    """


def part_of(value: Any, wanted: Any, parameter: str) -> Any:
    """The part of the resources that a parameter takes; ``NoSuchResource`` where none is of its type, or several are.

    A type that objects cannot be compared with, such as ``Any`` or most protocols, takes all of them.
    """
    classes = _classes(wanted)
    if classes is None or isinstance(value, classes):
        return value
    parts = _parts(value)
    found = [part for part in parts if part is not None and isinstance(part, classes)]
    if len(found) == 1:
        return found[0]
    if not found and types.NoneType in classes and any(part is None for part in parts):
        return None
    has = "no part that is one" if not found else f"{len(found)} parts that are one"
    names = " or ".join(cls.__name__ for cls in classes)
    raise NoSuchResource(
        f"the parameter {parameter!r} takes a {names}, and the agent's resources, a {type(value).__name__}, have {has}"
    )


def takes_none(wanted: Any) -> bool:
    """Whether a parameter does without where the agent has no resources."""
    is_union = typing.get_origin(wanted) in (typing.Union, types.UnionType)
    return types.NoneType in typing.get_args(wanted) if is_union else wanted in (None, types.NoneType)


def _classes(wanted: Any) -> tuple[type, ...] | None:
    """The classes that a type stands for; None where objects cannot be compared with it."""
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        members = [_classes(member) for member in typing.get_args(wanted)]
        return None if None in members else tuple(cls for member in members for cls in member or ())
    cls = wanted if origin is None else origin
    if not isinstance(cls, type):
        return None
    try:
        isinstance(None, cls)
    except TypeError:  # `Any`, a TypedDict, a protocol that is for checkers only
        return None
    return (cls,)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, Mapping):
        return list(value.values())
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return [getattr(value, name) for name in fields if hasattr(value, name)]
    return list(getattr(value, "__dict__", {}).values())
