"""What an agent says its ``deps`` are: a class, or any other type that pydantic-ai takes."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin


def fits(value: Any, wanted: Any) -> bool:
    """Whether a value is of a type, as far as can be told without looking into it."""
    wanted = _plain(wanted)
    if wanted is Any:
        return True
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in get_args(wanted))
    if is_none(wanted):
        return value is None
    try:
        return isinstance(value, origin or wanted)
    except TypeError:  # a protocol, a TypedDict, a type variable: of those it cannot be told, but none is None
        return value is not None


def is_none(wanted: Any) -> bool:
    """Whether a type is that of None alone."""
    return wanted is None or wanted is NoneType


def name_of_type(wanted: Any) -> str:
    """A type as a message names it."""
    return wanted.__name__ if isinstance(wanted, type) and get_origin(wanted) is None else str(wanted)


def _plain(wanted: Any) -> Any:
    """A type without what is said beside it, and without the name that it was given."""
    while True:
        if get_origin(wanted) is Annotated:
            wanted = get_args(wanted)[0]
        elif hasattr(wanted, "__supertype__"):
            wanted = wanted.__supertype__
        elif type(wanted).__name__ == "TypeAliasType":
            wanted = wanted.__value__
        else:
            return wanted
