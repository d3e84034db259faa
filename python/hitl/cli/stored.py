"""The store's file, read by a command while its server may be running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hitl.cli import exit_codes
from hitl.cli.output import Failure
from hitl.errors import StoreError

if TYPE_CHECKING:
    from hitl._core import StoredSessions
    from hitl.client import Page, SessionSummary


@contextmanager
def stored_sessions(address: str) -> Iterator[StoredSessions]:
    """The sessions of the store at `address`, for the length of a `with` block.

    `Failure` where they cannot be read.
    """
    from hitl._core import StoredSessions

    try:
        sessions = StoredSessions(address)
    except StoreError as error:
        raise _failure(error, exit_codes.USAGE) from error
    try:
        yield sessions
    except StoreError as error:
        raise _failure(error, exit_codes.RUNTIME) from error
    finally:
        sessions.close()


def _failure(error: StoreError, exit_code: int) -> Failure:
    return Failure(str(error), error.hint or "name it with --store sqlite:PATH", exit_code)


def page_of(
    sessions: StoredSessions, status: str | None, search: str | None, size: int, cursor: str | None
) -> Page[SessionSummary]:
    """What a client's `list_sessions` gives."""
    from hitl.client import Page, SessionSummary

    found, following = sessions.page(status, size, None if cursor is None else int(cursor), search)
    return Page([SessionSummary.from_json(session) for session in found], None if following is None else str(following))
