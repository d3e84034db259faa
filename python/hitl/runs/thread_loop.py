"""The event loop on which a thread without one blocks."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

from hitl.turn.forked import leave_to_parent

T = TypeVar("T")

_local = threading.local()


class _Runner:
    """One loop per thread, so that clients which an agent keeps open work in the next call too.

    Closed when its thread or the program ends: at the program's exit, where code still runs as it should, and not when
    the interpreter takes its objects apart. Not in a process that is forked from this one: that forgets the other
    threads at once, while their loops go on here.
    """

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.loop = self.runner.get_loop()
        self.loop.shutdown_default_executor = _leave_executor  # type: ignore[method-assign]  # a runner always waits
        self.pid = os.getpid()
        weakref.finalize(self, _close, self.runner, self.loop, self.pid)


async def _leave_executor(timeout: float | None = None) -> None:
    """Closing the loop tells the threads of its executor to end. To wait for that as well takes one more thread, and an
    interpreter that exits starts none."""


def _close(runner: asyncio.Runner, loop: asyncio.AbstractEventLoop, pid: int) -> None:
    if pid != os.getpid():
        leave_to_parent(loop)
    # One that runs is a daemon thread's, which ends with the program wherever it is.
    elif not loop.is_running():
        runner.close()


def blocking_loop() -> asyncio.Runner:
    """The runner of this thread's loop, which stays open between calls."""
    kept: _Runner | None = getattr(_local, "runner", None)
    if kept is None or kept.loop.is_closed() or kept.pid != os.getpid():
        kept = _local.runner = _Runner()
    return kept.runner


def block_on(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine comes to, on this thread's loop.

    Not as the result of the loop's own task: after each run asyncio looks what Ctrl-C does, and makes a text of what it
    finds, that task with all of its result in it.
    """
    come_to: list[T] = []

    async def keep() -> None:
        come_to.append(await coroutine)

    blocking_loop().run(keep(), context=contextvars.copy_context())  # a runner's own is that of its first call
    return come_to[0]


def refuse_on_a_loop(name: str, instead: str) -> None:
    """RuntimeError where an event loop runs, which ``name`` would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name} would block the event loop; use: {instead}")
