"""Code that stands before something: middleware, hooks, guardrails of what goes in, policies.

Whoever such code asks lets something run with the answer, so the question is one of approval, whatever its type; and
what was let run so is not run again after a crash without asking.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Permit:
    """What stands in the way of something."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = False
        """Whether a person was asked in it, by this run or, in a replay, by an earlier one."""

    @contextmanager
    def again(self) -> Iterator[Permit]:
        """More of the same."""
        token = _permit.set(self)
        try:
            yield self
        finally:
            _permit.reset(token)


_permit: contextvars.ContextVar[Permit | None] = contextvars.ContextVar("hitl_permit", default=None)


def current_permit() -> Permit | None:
    """What the code that runs here stands in the way of; None where it does nothing of the kind."""
    return _permit.get()


@contextmanager
def permit() -> Iterator[Permit]:
    """In this block, what is asked lets something run."""
    with Permit().again() as made:
        yield made


@contextmanager
def permitted() -> Iterator[None]:
    """In this block runs what was let run: what it asks is its own business."""
    token = _permit.set(None)
    try:
        yield
    finally:
        _permit.reset(token)


def asked_inside(journal: list[dict[str, Any]]) -> frozenset[str]:
    """Paths of the steps in which a person was asked."""
    paths: set[str] = set()
    for entry in journal:
        if entry["entry"] != "ask":
            continue
        outer, slash, inner = entry["step"]["path"].rpartition("/")
        if inner.startswith("?"):
            continue  # what came of the step, or once more what was asked before
        while slash:
            paths.add(outer)
            outer, slash, _ = outer.rpartition("/")
    return frozenset(paths)
