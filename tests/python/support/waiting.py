"""Waiting for what nobody announces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


def pauses() -> Iterator[float]:
    """Seconds between looks, the more the longer it has lasted: each costs both sides a request, and the processor is
    what other tests need meanwhile."""
    pause = 0.01
    while True:
        yield pause
        pause = min(pause * 1.3, 0.1)


def eventually(look: Callable[[], T], expected: T, timeout: float = 100.0) -> None:
    """Return when `look()` is `expected`; fail with the last look when it does not become so in time.

    For what has no event and no long poll. Where one of them tells, wait for that instead.
    """
    deadline = time.monotonic() + timeout
    between = pauses()
    while (seen := look()) != expected:
        if time.monotonic() >= deadline:
            raise AssertionError(f"still {seen!r} after {timeout:g} s, expected {expected!r}")
        time.sleep(next(between))
