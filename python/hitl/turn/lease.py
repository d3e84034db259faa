"""Until when the server of this worker may act: after that no step begins here.

A server that is stopped, or hangs, cannot end its workers, and another one goes on with their turns meanwhile. What
has begun is run twice then; what comes next is the other's alone.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from typing import Final

VARIABLE: Final = "HITL_LEASE_PAGE"
"""In the environment of workers whose server is one of several: the descriptor of a file in memory, of eight bytes."""

_BYTES = 8
_LOOK_AGAIN = 0.005
"""Seconds."""

_page: mmap.mmap | None = None


def take_page() -> mmap.mmap | None:
    """The page that the environment names; None without one. The variable is taken out of the environment."""
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return None
    page = mmap.mmap(int(descriptor), _BYTES, mmap.MAP_SHARED, mmap.PROT_READ)
    os.close(int(descriptor))
    return page


def go_by(page: mmap.mmap | None) -> None:
    """Begin no step but by this page, from now on, in processes too that are forked from this one."""
    global _page
    _page = page


def stand_still() -> None:
    """Return as soon as the server may act, as a rule at once. Where it may not, nothing else goes on in this thread:
    the server ends this process once it goes on itself, unless nobody has taken its place."""
    while _page is not None and time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= _end(_page):
        time.sleep(_LOOK_AGAIN)


def _end(page: mmap.mmap) -> int:
    """Nanoseconds since the machine was booted."""
    return int.from_bytes(page[:_BYTES], sys.byteorder)
