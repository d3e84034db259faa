"""What a caller gave, looked at before anything is sent: a wrong one is told by its name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from numbers import Real
from typing import Any
from urllib.parse import quote
from uuid import UUID


def path_part(name: str, given: object) -> str:
    """An id as a part of a path. One of dots alone would lead to another path, and an empty one to none."""
    if isinstance(given, UUID):
        given = str(given)
    if not isinstance(given, str):
        hint = f"\n\nhint: give its .{name}" if isinstance(getattr(given, name, None), str) else ""
        raise TypeError(f"{name} is a str, got {type(given).__name__}{hint}")
    if not given.strip("."):
        raise ValueError(f"{name} is {given!r}, which is the id of nothing")
    return quote(given, safe="")


def query_value(name: str, given: object) -> str | Real:
    """What is in a query as it stands. The text of any other object would be looked for, and nothing found."""
    if isinstance(given, UUID):
        return str(given)
    if not isinstance(given, str | Real):
        hint = f"\n\nhint: give its .{name}" if isinstance(getattr(given, name, None), str) else ""
        raise TypeError(f"{name} is a str or a number, got {type(given).__name__}{hint}")
    return given


def flag(name: str, given: object) -> bool:
    """True or False, and nothing that is as good as one of them: `"no"` would approve for a whole session."""
    if not isinstance(given, bool):
        raise TypeError(f"{name} is True or False, got {given!r}")
    return given


def seconds(name: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{name} is a number of seconds, got {given!r}")
    number = float(given)
    if math.isnan(number) or number < 0:
        raise ValueError(f"{name} is a number of seconds of 0 or more, got {given}")
    return number


def moment(name: str, given: object) -> str | None:
    """A moment as text. The time of a clock is one only where it is said whose clock."""
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, datetime):
        raise TypeError(f"{name} is a datetime or a str, got {given!r}")
    if given.utcoffset() is None:
        hint = "datetime.now(UTC), or .astimezone()"
        raise ValueError(f"{name} is a datetime without a time zone: {given.isoformat()}\n\nhint: {hint}")
    return given.isoformat()


def tool_arguments(given: object) -> dict[str, Any]:
    made = members(given)
    if made is None:
        raise TypeError(f"args is a dict with all arguments of the tool, got {type(given).__name__}")
    return made


def member(name: str, given: object) -> dict[str, Any]:
    """What is an object in the body, such as a webhook."""
    made = members(given)
    if made is None:
        raise TypeError(f"{name} is a dict, got {given!r}")
    return made


def members(given: Any) -> dict[str, Any] | None:
    """What is as good as a dict, such as a pydantic model; None for anything else."""
    if isinstance(given, str | bytes | list | tuple):
        return None
    try:
        return dict(given)
    except (TypeError, ValueError):
        return None


def header(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{name} is a str, got {given!r}")
    return given


def listed(name: str, given: Any) -> list[Any]:
    """A list of what was given. Of a string it would be one of its letters."""
    if isinstance(given, str | bytes | Mapping):
        raise TypeError(f"{name} is a list, got {given!r}")
    return list(given)
