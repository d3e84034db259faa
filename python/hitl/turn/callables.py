"""What is asked of functions that a program hands over, when it does: a wrong one must not wait for its first call."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

_COUNTS = {1: "one argument", 2: "two arguments"}


def is_async(function: Any) -> bool:
    """Whether it runs on the event loop; every other function has a thread, which cannot be stopped."""
    call = getattr(function, "__call__", None)  # noqa: B004  (an object with an async __call__)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def check_listed(owner: str, option: str, given: object) -> None:
    """TypeError for one thing where a list of them is meant."""
    if not isinstance(given, Iterable):
        raise TypeError(f"{owner}: {option} takes a list, got {given!r}\n\nhint: {option}=[...], also for one")


def check_takes(what: str, function: Any, *arguments: str) -> None:
    """TypeError where ``function`` cannot be called with these arguments, one or two, by position. ``what`` names it
    there. A builtin whose signature cannot be read may be anything, and passes."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        named = " and ".join(arguments)
        raise TypeError(f"{what} must take {_COUNTS[len(arguments)]}, {named}: {error}") from None
    except ValueError:
        return
