"""What one version of a framework has kept, and another one is to read: it may be upgraded while something waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from pydantic import ValidationError

from hitl.errors import UnreadableJournal
from hitl.tools.schema import describe_errors


@contextmanager
def reading(distribution: str) -> Iterator[None]:
    """Around what reads back a framework's own form. What the version that is installed cannot read is an
    ``UnreadableJournal`` that names it: the journal stays as it is, and a retry goes on from it."""
    try:
        yield
    except ValidationError as error:
        # In words of ours, and without the cause: it shows what was said and what tools were called with.
        found = error.error_count()
        first = describe_errors(error).split("; ")[0]
        raise _unreadable(distribution, first if found == 1 else f"{first}, and {found - 1} more") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise _unreadable(distribution, str(error)) from error


def _unreadable(distribution: str, why: str) -> UnreadableJournal:
    return UnreadableJournal(
        f"{installed(distribution)} is installed, and cannot read what was kept of this turn by another version of "
        f"it: {why}\n\nhint: install the version that the turn was begun with, and retry it"
    )


def installed(distribution: str) -> str:
    """A package and its version, as an error names it."""
    return f"{distribution} {version(distribution)}"
