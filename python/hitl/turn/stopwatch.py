"""Time limits on work. A person's time is not the work's time: while somebody is asked, the clocks stand still. Neither
is the pause before a next try, and a turn that was retried has all of its time again.

When a limit is over is a timer of the turn, and so in its journal. A pause between tries does not set it anew: in
journals of 0.2 and before other timers would come after it. What it took is added when the timer fires.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Protocol

from hitl.turn.places import place_var

# What is left of a limit at least: that it is over is a timer's to say, which is in the journal.
_LEAST_SECONDS = 0.001


class Countdown(Protocol):
    """What counts the time of work, and stands still while somebody is asked."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def discount(self) -> None: ...

    def count_again(self) -> None: ...


_running: contextvars.ContextVar[tuple[Countdown, ...]] = contextvars.ContextVar("hitl_stopwatches", default=())


class Stopwatch:
    """One limit: counts down, except while paused or discounted. Belongs to one event loop."""

    def __init__(self, timeout: asyncio.Timeout, seconds: float):
        """``timeout``: one that has begun, and is never over by itself."""
        self._timeout = timeout
        self._seconds = seconds
        self._left = seconds
        self._pauses = 0
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._discounts = 0
        self._discounted_at = 0.0
        self._discounted: float | None = None
        """Seconds to add; None where nothing was discounted since that was done last."""
        self._is_due = False
        """The time was over while something is discounted."""
        place = place_var.get()
        self._turn = None if place is None else place.turn
        self._granted = self._told
        """The entry after which the time was given."""
        self._set(seconds)

    def stop(self) -> None:
        """The block has ended; a task it left behind may still pause and resume, to no effect."""
        self._is_stopped = True
        self._cancel()

    def pause(self) -> None:
        """Stop counting; pauses nest."""
        self._pauses += 1
        if self._pauses == 1 and self._timer is not None and self._counts():
            # A timer that was overdue after a replay has been put off.
            deadline = getattr(self._timer, "deadline", self._deadline)
            self._left = max(_LEAST_SECONDS, deadline - self._now())
            self._cancel()

    def resume(self) -> None:
        """Count on, with what was left."""
        self._pauses -= 1
        if self._pauses == 0 and self._counts() and not self._is_due:
            self._set(self._left)

    def discount(self) -> None:
        """What passes from now on does not count, and is added at the end; these nest."""
        self._discounts += 1
        if self._discounts == 1:
            self._discounted_at = self._now()

    def count_again(self) -> None:
        """It counts again."""
        self._discounts -= 1
        if self._discounts == 0:
            self._discounted = (self._discounted or 0.0) + self._now() - self._discounted_at
            if self._is_due:
                self._is_due = False
                self._over()

    def _over(self) -> None:
        """The time is over: whether there is more is said by the journal alone, and not by any clock."""
        self._timer = None
        if not self._counts():
            return
        told = self._told
        if self._turn is not None and self._turn.limits.was_retried_between(self._granted, told):
            self._granted, self._discounted = told, None
            self._set(self._seconds)
        elif self._discounts:
            self._is_due = True
        elif self._discounted is not None:
            until, self._discounted = self._deadline + self._discounted, None
            self._set(max(_LEAST_SECONDS, until - self._now()))
        else:
            self._timeout.reschedule(self._now())

    def _set(self, seconds: float) -> None:
        if self._pauses:
            self._left = seconds
            return
        self._deadline = self._now() + seconds
        self._timer = asyncio.get_running_loop().call_at(self._deadline, self._over)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _counts(self) -> bool:
        return not self._is_stopped and not self._timeout.expired()

    @property
    def _told(self) -> int:
        return 0 if self._turn is None else self._turn.order.last

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def limit(seconds: float | None, what: str, *, goes_on: bool = False) -> AbstractAsyncContextManager[None]:
    """Let the block work for `seconds` (None: without limit), else `TimeoutError("<what> took longer than 5 s")`.

    `goes_on`: what runs in it cannot be stopped, and whoever hears of it must not take it for undone.
    """
    return nullcontext() if seconds is None else _limit(seconds, what, goes_on)


def took_longer(what: str, seconds: float, *, goes_on: bool) -> str:
    """What is said of work whose time is over."""
    return f"{what} took longer than {seconds:g} s" + (" and may still take effect" if goes_on else "")


@asynccontextmanager
async def _limit(seconds: float, what: str, goes_on: bool) -> AsyncIterator[None]:
    timeout = asyncio.timeout(None)
    try:
        async with timeout:
            watch = Stopwatch(timeout, seconds)
            with counting(watch):
                try:
                    yield
                finally:
                    watch.stop()
    except TimeoutError as error:
        if timeout.expired():
            raise TimeoutError(took_longer(what, seconds, goes_on=goes_on)) from error
        raise


@contextmanager
def counting(watch: Countdown) -> Iterator[None]:
    """In this block, and in what it begins, it counts, and is told when to stand still."""
    token = _running.set((*_running.get(), watch))
    try:
        yield
    finally:
        _running.reset(token)


@contextmanager
def paused() -> Iterator[None]:
    """Stop every limit that the calling code is under, while a person thinks."""
    watches = _running.get()
    for watch in watches:
        watch.pause()
    try:
        yield
    finally:
        for watch in watches:
            watch.resume()


@contextmanager
def discounted() -> Iterator[None]:
    """The same for a wait that the journal tells of, between two tries."""
    watches = _running.get()
    for watch in watches:
        watch.discount()
    try:
        yield
    finally:
        for watch in watches:
            watch.count_again()
