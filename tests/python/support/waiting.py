"""Waiting for what nobody announces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], expected: T, timeout: float = 100.0) -> None:
    """Return when `look()` is `expected`; fail with the last look when it does not become so in time.

    For what has no event and no long poll. Where one of them tells, wait for that instead.
    """
    deadline = time.monotonic() + timeout
    while (seen := look()) != expected:
        if time.monotonic() >= deadline:
            raise AssertionError(f"still {seen!r} after {timeout:g} s, expected {expected!r}")
        time.sleep(0.01)
