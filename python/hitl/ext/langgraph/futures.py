"""What ``task(...)`` returns in a plain function: it waits as hitl's own calls do, and a turn can be parked meanwhile.

LangGraph gives a thread a bare future. A thread that waits for one looks like a thread that works: the turn is held for
as long as a person takes, and so is its place in the worker.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

from langgraph._internal._future import chain_future

from hitl.ext.turns import is_in_thread
from hitl.turn.runtime import current_turn

CALLER = "a task"


class TaskFuture(concurrent.futures.Future[Any]):
    """What becomes of a task of LangGraph's, for a thread of the turn."""

    def __init__(self, on_loop: asyncio.Future[Any]) -> None:
        super().__init__()
        self._on_loop = on_loop
        chain_future(on_loop, self)

    def result(self, timeout: float | None = None) -> Any:
        return super().result(self._left(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return super().exception(self._left(timeout))

    def _left(self, timeout: float | None) -> float | None:
        """Wait for it, up to that many seconds; how many of them are left."""
        if self.done() or not is_in_thread() or (timeout is not None and timeout <= 0):
            return timeout
        current_turn(CALLER).run_sync(CALLER, lambda: asyncio.wait([self._on_loop], timeout=timeout))
        return None if timeout is None else 0


def call_in_thread(call: Callable[[], asyncio.Future[Any]]) -> TaskFuture:
    """Call a task from a thread of the turn: on the loop, where its calls come in the order in which they are made."""

    async def make() -> TaskFuture:
        return TaskFuture(call())

    return current_turn(CALLER).run_sync(CALLER, make)
