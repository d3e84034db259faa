"""What one version of a framework has kept, and another one is to read: it may be upgraded while something waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from hitl.errors import UnreadableJournal


@contextmanager
def reading(distribution: str) -> Iterator[None]:
    """Around what reads back a framework's own form. What the version that is installed cannot read is an
    ``UnreadableJournal`` that names it: the journal stays as it is, and a retry goes on from it."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UnreadableJournal(
            f"{installed(distribution)} is installed, and cannot read what was kept of this turn by another version of "
            f"it: {error}\n\nhint: install the version that the turn was begun with, and retry it"
        ) from error


def installed(distribution: str) -> str:
    """A package and its version, as an error names it."""
    return f"{distribution} {version(distribution)}"
