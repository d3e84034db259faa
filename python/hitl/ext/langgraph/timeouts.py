"""The `timeout=` of a node counts what its node does, and not the time that people take: while somebody is asked inside
of it, by a tool, a rule or a graph that it runs, its clock stands still.

LangGraph has a task beside the node for each of its limits, which sleeps until that is over. Here it sleeps only while
nobody is asked.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from typing import Any, Final

from hitl.turn.stopwatch import counting

_LEAST_SECONDS: Final = 0.001
"""What is left of a limit at least: that it is over is for a timer to say, which is in the journal."""


class Clock:
    """Of one try of a node: whether its time counts. It goes by the machine's time, for that of a turn stands still
    while code runs; only how long timers are set for follows from it, and what happens is in the journal."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._holds = 0
        self._since = 0.0
        self.held = 0.0
        """For how many seconds it stood still before now."""
        self._changed = asyncio.Event()

    def pause(self) -> None:
        """Somebody is asked; several may be at once."""
        self._holds += 1
        if self._holds == 1:
            self._since = time.monotonic()
            self._tell()

    def resume(self) -> None:
        """It is answered."""
        self._holds -= 1
        if self._holds == 0:
            self.held += time.monotonic() - self._since
            self._tell()

    def discount(self) -> None:
        """A pause before a next try begins: it counts, as where LangGraph's models try again by themselves."""

    def count_again(self) -> None:
        """It is over."""

    @property
    def worked(self) -> float:
        """For how many seconds it has counted, where it counts now."""
        return time.monotonic() - self._began - self.held

    async def until_running(self) -> None:
        """Until nobody is asked."""
        while self._holds:
            await self._changed.wait()

    async def is_over_in(self, seconds: float) -> bool:
        """Whether so much time is over before somebody is asked; it waits for the one or the other."""
        try:
            async with asyncio.timeout(max(_LEAST_SECONDS, seconds)):
                while not self._holds:
                    await self._changed.wait()
        except TimeoutError:
            return not self._holds
        return False

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


_clock: contextvars.ContextVar[Clock | None] = contextvars.ContextVar("hitl_langgraph_clock", default=None)
"""Of the try of a node that is begun here."""


async def run_timed(run: Any, *args: Any, **kwargs: Any) -> Any:
    """``run`` of LangGraph, which makes a try of a node and the tasks that watch it: with a clock that they share."""
    clock = Clock()
    token = _clock.set(clock)
    try:
        with counting(clock):
            return await run(*args, **kwargs)
    finally:
        _clock.reset(token)


async def watch_run(seconds: float) -> None:
    """TimeoutError once a try has worked for so long."""
    clock = _clock.get()
    assert clock is not None
    while True:
        await clock.until_running()
        if await clock.is_over_in(seconds - clock.worked):
            raise TimeoutError


async def watch_idle(scope: Any, seconds: float) -> None:
    """TimeoutError once a try has come no further for so long. ``scope``: LangGraph's, of the try."""
    clock = _clock.get()
    assert clock is not None
    seen = clock.held
    while True:
        await clock.until_running()
        with scope._lock:
            if not scope._active:
                return
            now, held = time.monotonic(), clock.held
            scope._last_progress, seen = min(now, scope._last_progress + held - seen), held
            progress = scope._last_progress
        # By a timer alone, never by a look at the clock, which in a replay says something else.
        if await clock.is_over_in(progress + seconds - now) and scope._last_progress == progress:
            raise TimeoutError
