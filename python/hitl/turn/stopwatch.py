"""Time limits on work. A person's time is not the work's time: while somebody is asked, the clocks stand still."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext

# What is left of a limit at least: that it is over is a timer's to say, which is in the journal.
_LEAST_SECONDS = 0.001

_running: contextvars.ContextVar[tuple[Stopwatch, ...]] = contextvars.ContextVar("hitl_stopwatches", default=())


class Stopwatch:
    """One limit: counts down, except while paused. Belongs to one event loop."""

    def __init__(self, timeout: asyncio.Timeout, seconds: float):
        self._timeout = timeout
        self._left = seconds
        self._pauses = 0
        self._over = False

    def stop(self) -> None:
        """The block has ended; a task it left behind may still pause and resume, to no effect."""
        self._over = True

    def pause(self) -> None:
        """Stop counting; pauses nest."""
        self._pauses += 1
        deadline = self._timeout.when()
        if self._pauses == 1 and deadline is not None and self._counts():
            self._left = max(_LEAST_SECONDS, deadline - asyncio.get_running_loop().time())
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Count on, with what was left."""
        self._pauses -= 1
        if self._pauses == 0 and self._counts():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    def _counts(self) -> bool:
        return not self._over and not self._timeout.expired()


def limit(seconds: float | None, what: str) -> AbstractAsyncContextManager[None]:
    """Let the block work for `seconds` (None: without limit), else `TimeoutError("<what> took longer than 5 s")`."""
    return nullcontext() if seconds is None else _limit(seconds, what)


@asynccontextmanager
async def _limit(seconds: float, what: str) -> AsyncIterator[None]:
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            watch = Stopwatch(timeout, seconds)
            token = _running.set((*_running.get(), watch))
            try:
                yield
            finally:
                watch.stop()
                _running.reset(token)
    except TimeoutError as error:
        if timeout.expired():
            raise TimeoutError(f"{what} took longer than {seconds:g} s") from error
        raise


@contextmanager
def paused() -> Iterator[None]:
    """Hold every limit that the calling code is under, while a person thinks."""
    watches = _running.get()
    for watch in watches:
        watch.pause()
    try:
        yield
    finally:
        for watch in watches:
            watch.resume()
