"""Disks that are full, and files of releases that are still to come."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path


@contextmanager
def full_disk(pid: int = 0) -> Iterator[None]:
    """While it lasts, the process writes nothing beyond the first page of any file. 0 is this process."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def newer_file(path: Path) -> None:
    """A store as a later release would leave it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1000")
        connection.commit()
