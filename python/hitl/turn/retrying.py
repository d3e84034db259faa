"""Tries: a step whose errors may pass by themselves runs again after a pause, and waits for people when that is no use.

Each try is a step of its own. One that is followed by another is recorded as a ``TryFailed`` that says how long the
pause is, so that a replay waits as often and as long, whatever the settings are by then; the pause is a timer of the
turn, outside of the step. The last try is recorded only when it came to something: else the turn is suspended, and
tries again when it is retried.

A body that makes hitl calls of its own is not tried again, since a second try would run what it finished a second time:
its steps have their own tries. Nothing below a ``once`` step is suspended: what it did before would be done again.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from hitl.errors import HitlError, ModelUnavailable, TransientError
from hitl.journal.error_codec import error_message
from hitl.turn.bodies import NoOutcome
from hitl.turn.places import StepScope, place_var
from hitl.turn.runtime import Turn
from hitl.turn.stopwatch import discounted

T = TypeVar("T")

Transient = Literal["suspend", "raise"]
"""What becomes of an error that may pass when all tries are used up: the turn is suspended, or the agent is told."""

Judge = Callable[[Exception], bool | float]
"""Whether an error may pass by itself; a number: yes, but not before that many seconds."""

_STATUSES = frozenset({408, 409, 429})
# The pause before the second try, by how much it grows, and its limit; without what the other side asks for.
_FIRST_PAUSE = 0.5
_GROWTH = 2.0
_LONGEST_PAUSE = 30.0
# Who is told to come back later than that waits for a person instead.
_LONGEST_WAIT = 3600.0
# What libraries raise where the connection failed.
_LOST_CONNECTIONS = (
    ("httpx2", "TransportError"),
    ("httpx", "TransportError"),
    ("openai", "APIConnectionError"),
    ("anthropic", "APIConnectionError"),
)


class TryFailed(HitlError):
    """The outcome of a try that is followed by another. Nobody but ``run`` sees it.

    pause: seconds until the next one. tried: how many there were since the turn was last retried. first: the path of
    the first one.
    """

    code = "try_failed"

    def __init__(self, message: str, pause: float, tried: int, first: str) -> None:
        super().__init__(message, pause, tried, first)
        self.pause = pause
        self.tried = tried
        self.first = first

    def __str__(self) -> str:
        return f"{self.args[0]} (tried again after {self.pause:g} s)"


@dataclass(frozen=True)
class Retries:
    """How often errors that may pass are tried again after the first try, and what then."""

    most: int
    transient: Transient
    judge: Judge
    asked: object = None
    """Who is asked again and again, such as a chat client; None where nobody needs to know."""

    def verdict(self, error: Exception) -> bool | float:
        """What ``judge`` says of an error; one that says nothing says no. TypeError for what is no verdict."""
        said: Any = self.judge(error)
        if said is None:
            return False
        if not isinstance(said, int | float):
            raise TypeError(f"is_transient must return a bool or a number of seconds, got {said!r}") from error
        return said


@dataclass(frozen=True)
class CurrentTry:
    """Which of several tries runs here."""

    number: int
    """How many went before it since the turn was last retried."""
    asked: object
    """As in ``Retries``."""


try_var: ContextVar[CurrentTry | None] = ContextVar("hitl_try", default=None)
"""The try that runs in this context; None outside of tries. A replay finds the same number, so that what is asked may
depend on it."""


def is_transient(error: Exception) -> bool | float:
    """Whether an error may pass by itself, as far as it can be told of any: a lost or refused connection, a time-out,
    a response with the status 408, 409, 429 or 5xx, a ``TransientError``. A number: the seconds of `Retry-After`."""
    if isinstance(error, TransientError):
        return True if error.retry_after is None else error.retry_after
    status = _status(error)
    if status is not None:
        if status not in _STATUSES and status < 500:
            return False
        return True if (seconds := retry_after(error)) is None else seconds
    return isinstance(error, ConnectionError | TimeoutError) or _is_lost_connection(error)


def retry_after(error: Exception) -> float | None:
    """The seconds that the response an error tells of asks to be left alone; None where it does not say."""
    return seconds_asked(getattr(getattr(error, "response", None), "headers", None))


def seconds_asked(headers: Mapping[str, str] | None) -> float | None:
    """The seconds that the headers of a response ask to be left alone; None where they do not say."""
    if headers is None:
        return None
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _until(text)
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None


def check_retries(owner: str, retries: Any, transient: Any) -> None:
    """ValueError for options that are none; `retries` may be None."""
    if retries is not None and (type(retries) is not int or retries < 0):
        raise ValueError(f"{owner}: retries must be a whole number of 0 or more, got {retries!r}")
    if transient not in ("suspend", "raise"):
        raise ValueError(f"{owner}: transient must be 'suspend' or 'raise', got {transient!r}")


async def run(
    turn: Turn,
    retries: Retries,
    kind: str,
    name: str,
    body: Callable[[], Awaitable[T]],
    *,
    key: str | None = None,
    location: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> T:
    """``turn.run_step``, tried again after errors that may pass."""
    if once_around():
        in_place = partial(run_in_place, retries, body)
        return await turn.run_step(kind, name, in_place, key=key, location=location, arguments=arguments)
    number, tried, first = 0, 0, ""
    while True:
        # Asked before the step, as long as the turn stands where it stood when it was suspended.
        if turn.limits.has_been_retried(turn.order.last):
            tried = 0
        attempt = _Try(turn, retries, f"{kind} {name!r}", body, number, tried, first)
        try:
            return await turn.run_step(kind, name, attempt, key=key, location=location, arguments=arguments)
        except TryFailed as failed:
            number, tried, first, pause = number + 1, failed.tried, failed.first, failed.pause
        with discounted():
            await asyncio.sleep(pause)


async def run_in_place(retries: Retries, call: Callable[[], Awaitable[T]]) -> T:
    """``call``, tried again after errors that may pass, where nothing is recorded; the last error is raised."""
    tried = 0
    while True:
        token = try_var.set(CurrentTry(tried, retries.asked))
        try:
            return await call()
        except Exception as error:
            tried += 1
            place = place_var.get()
            is_ordered = place is not None and place.step is not None and place.step.ordered
            verdict = not is_ordered and retries.verdict(error)
            if verdict is False or tried > retries.most or (pause := _pause(verdict, tried)) > _LONGEST_WAIT:
                raise
        finally:
            try_var.reset(token)
        await asyncio.sleep(pause)


@dataclass
class _Try:
    """The body of one try."""

    turn: Turn
    retries: Retries
    title: str
    body: Callable[[], Awaitable[Any]]
    number: int
    """How many went before it."""
    tried: int
    """How many of them since the turn was last retried."""
    first: str

    async def __call__(self) -> Any:
        scope = self.turn.current_step
        assert scope is not None  # it is the body of a step
        if self.first:
            scope.shown_as = self.first
        scope.attempt += self.number
        try_var.set(CurrentTry(self.tried, self.retries.asked))  # in the context that the body has for itself
        try:
            return await self.body()
        except Exception as error:
            raised = self._verdict(error, scope)
            if raised is error:
                raise
            raise raised from error

    def _verdict(self, error: Exception, scope: StepScope) -> Exception:
        if scope.ordered or (verdict := self.retries.verdict(error)) is False:
            return error
        tried = self.tried + 1
        text = error_message(error)
        described = f"{type(error).__name__}: {text}" if text else type(error).__name__
        pause = _pause(verdict, tried)
        if tried <= self.retries.most and pause <= _LONGEST_WAIT:
            return TryFailed(described, pause, tried, self.first or scope.path)
        if self.retries.transient == "raise":
            return error
        times = "once" if tried == 1 else f"{tried} times"
        return NoOutcome(ModelUnavailable(f"{self.title} was tried {times}, last: {described}"))


def once_around() -> bool:
    """Whether this code runs in a step, at any depth, that must not run twice."""
    place = place_var.get()
    scope = None if place is None else place.step
    while scope is not None and not scope.once:
        scope = scope.outer
    return scope is not None


def _pause(verdict: bool | float, tried: int) -> float:
    if verdict is not True:
        return float(verdict)
    longest = min(_FIRST_PAUSE * _GROWTH ** (tried - 1), _LONGEST_PAUSE)
    # Three libraries, which each worker would inherit: what is mapped costs time when a worker is forked.
    from random import uniform

    return round(longest * uniform(0.75, 1.0), 3)


def _status(error: Exception) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if type(status) is int:
            return status
    return None


def _is_lost_connection(error: Exception) -> bool:
    """Whether an HTTP library says that the connection failed. Looked up, not imported: its error came from it."""
    for library, name in _LOST_CONNECTIONS:
        module = sys.modules.get(library)
        if module is not None and isinstance(error, getattr(module, name, ())):
            return True
    return False


def _until(date: str) -> float:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
