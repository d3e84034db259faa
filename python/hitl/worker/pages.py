"""The memory of a process that forks, in huge pages, so that a fork and its child's end have less to do.

At a fork the system copies what it knows of each page, and the child's end takes it back: twenty thousand pages, of an
agent that imports clients of models. A huge page is one thing to copy, also once parts of it were written to, for which
it is mapped page by page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
_MADV_COLLAPSE = 25
"""Since Linux 6.1, and refused before."""
_ENTRY = 8
"""Bytes of ``/proc/self/pagemap`` for each page. The highest bit of the last one says that the page is there."""
_LEAST_THERE = 0.75
"""Of a huge page: what was merely reserved would become memory."""


def collapse() -> None:
    """Make huge pages of this process's own memory, where most of one is there.

    Where the system has none, or was told to use none, nothing happens.
    """
    try:
        if "[never]" in (_SETTINGS / "enabled").read_text():
            return
        size = int((_SETTINGS / "hpage_pmd_size").read_text())
        found = list(_spans(size))
        import ctypes  # late: a worker that is no zygote does not need it

        madvise = ctypes.CDLL(None).madvise
    except (OSError, ValueError, ImportError, AttributeError):  # not this system, or a Python without ctypes
        return
    for start, end in found:
        # A page that cannot be had is left as it is.
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)


def _spans(size: int) -> Iterator[tuple[int, int]]:
    """Where memory is to be collapsed, from and to. Together what follows on each other: each call costs."""
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
        for start, end in _own_memory():
            begun: int | None = None
            piece = -(-start // size) * size
            while piece + size <= end:
                if _is_there(pagemap, piece, size):
                    begun = piece if begun is None else begun
                elif begun is not None:
                    yield begun, piece
                    begun = None
                piece += size
            if begun is not None:
                yield begun, piece


def _own_memory() -> Iterator[tuple[int, int]]:
    """What this process may write to and shares with nobody, without what comes from files and the stack."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, _offset, _device, inode, *name = line.split()
        if mode == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = span.split("-")
            yield int(start, 16), int(end, 16)


def _is_there(pagemap: BinaryIO, start: int, size: int) -> bool:
    page = os.sysconf("SC_PAGE_SIZE")
    pagemap.seek(start // page * _ENTRY)
    entries = pagemap.read(size // page * _ENTRY)
    return sum(last >> 7 for last in entries[_ENTRY - 1 :: _ENTRY]) >= _LEAST_THERE * size / page
