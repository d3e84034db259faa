"""Whoever watches turns from inside of the process that runs them, to trace them.

Nobody does unless somebody was installed: then a turn has no watcher, and each place that would tell one costs a
comparison. A watcher changes nothing: what it is told is what happens anyway.

What has happened once is told once, in whichever process that was. A replay tells nothing of what is recorded: no body
begins, and nothing is committed. So a step is told of when it is committed and not when its body ends, since a crash
between the two has it run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Protocol

from hitl.journal.ports import InterruptRequest, StepIdentity
from hitl.turn.places import AnyTurn, StepScope


class TurnWatcher(Protocol):
    """Watches one turn, in one process. Called on the turn's loop; what it raises would be the turn's."""

    def enter(self, context: Context) -> None:
        """Code of the turn's agent is going to run in that context."""

    def step_asked(self, step: StepIdentity, scope: StepScope, shown: Mapping[str, Any] | None) -> None:
        """The body of a step is to run: for the first time, or in a replay again from its top. ``shown``: of a tool,
        its arguments as they may be shown."""

    def body_begins(self, scope: StepScope, context: Context) -> None:
        """It is about to run, in that context."""

    def model_asked(self, scope: StepScope, client: object, request: Any) -> None:
        """The step that runs is a request (``hitl.models.ModelRequest``) to a model."""

    def body_ended(self, scope: StepScope, outcome: Mapping[str, Any] | None) -> None:
        """It ended, with this outcome; None where it came to nothing that is recorded."""

    def recorded(self, step: StepIdentity, outcome: Mapping[str, Any], at: int) -> None:
        """The outcome of a step is committed. ``at``: in milliseconds since 1970, here and below."""

    def asks(self, step: StepIdentity, request: InterruptRequest) -> None:
        """Somebody is asked something, or was before this replay."""

    def asked(self, step: StepIdentity, interrupt_id: str, at: int) -> None:
        """The question is committed."""

    def answered(self, interrupt_id: str, index: int, at: int, outcome: Mapping[str, Any], by: str | None) -> None:
        """Entry ``index`` is an answer, of somebody with the name ``by`` where there is one, or says that there was
        none in time. ``outcome``: ``{"answer": json}`` or ``{"expired": True}``."""

    def went_on(self, index: int) -> None:
        """Entry ``index``, of the turn itself, is committed."""

    def ended(self, result: Mapping[str, Any]) -> None:
        """The end of the turn is committed. ``result``: as in the protocol's ``end`` frame."""

    def cancelled(self) -> None:
        """The turn was ended from elsewhere."""


class Watching(Protocol):
    """Watches all turns of a process."""

    def watch(self, turn: AnyTurn, journal: list[dict[str, Any]], answered_by: Mapping[str, str]) -> TurnWatcher | None:
        """A turn begins, or goes on from its journal. ``answered_by``: who gave answers at the journal's end, by
        interrupt."""

    def headers(self) -> dict[str, str]:
        """What requests of whatever runs here carry, so that the other side can tell whose part they are."""

    def before_forks(self) -> None:
        """Turns are not going to run in this process but in some that are forked from it."""

    def after_forks(self) -> None:
        """No more are forked."""


_watching: Watching | None = None


def install(watching: Watching | None) -> None:
    """Watch all turns that begin from now on, in place of whoever did; None: nobody does."""
    global _watching
    _watching = watching


def installed() -> Watching | None:
    """Who watches."""
    return _watching


def watcher_of(
    turn: AnyTurn, journal: list[dict[str, Any]], answered_by: Mapping[str, str] | None
) -> TurnWatcher | None:
    """Who watches a turn that begins here."""
    return None if _watching is None else _watching.watch(turn, journal, answered_by or {})


def outgoing_headers() -> dict[str, str]:
    """What a request that is made here says of whose part it is: a new dictionary, empty where nobody watches."""
    return {} if _watching is None else _watching.headers()


@contextmanager
def unwatched() -> Iterator[None]:
    """Turns that are begun in this block are nobody's business."""
    global _watching
    watching, _watching = _watching, None
    try:
        yield
    finally:
        _watching = watching
