"""Between a turn's event loop and its threads: sync agents and tools run in threads, and call hitl from there."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hitl.runtime import Turn

T = TypeVar("T")


async def contained(body: Callable[[], Awaitable[T]]) -> tuple[T | None, BaseException | None]:
    """Value or exit of a body. Asyncio lets a task's SystemExit fly out of the loop, which may be somebody else's."""
    try:
        return await body(), None
    except (SystemExit, KeyboardInterrupt) as leaving:
        return None, leaving


def label(function: Callable[..., Any]) -> str:
    """A function's name, for threads and messages."""
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__name__


def job(
    loop: asyncio.AbstractEventLoop, context: contextvars.Context, function: Callable[[], T]
) -> tuple[asyncio.Future[T], Callable[[], None]]:
    """A future of ``loop``, and what to call in some thread to run ``function`` in ``context`` and settle it."""
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(value)  # type: ignore[arg-type]  # no error: there is a value
        else:
            done.set_exception(error)

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(function)
        except StopIteration as stopped:  # cannot go through a future, which is awaited by iterating it
            error = RuntimeError(f"{label(function)} raised StopIteration")
            error.__cause__ = stopped
        except BaseException as raised:  # noqa: BLE001 - SystemExit in a thread is the caller's to see as well
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    return done, run


_waiting_thread: contextvars.ContextVar[ThreadCall | None] = contextvars.ContextVar("hitl_waiting_thread", default=None)


class ThreadCall:
    """A thread that waits for a coroutine on the turn's loop, and meanwhile runs what that coroutine hands it."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._value: Any = None
        self.over = False

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Called in the thread: block until the coroutine is done; its value or error is ours."""
        context = contextvars.copy_context()
        context.run(_waiting_thread.set, self)
        try:
            self._turn.loop.call_soon_threadsafe(self._start, make, context)
        except RuntimeError as closed:
            raise RuntimeError("a hitl call was made after its turn had ended") from closed
        while (run := self._jobs.get()) is not None:
            run()
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def _start(self, make: Callable[[], Coroutine[Any, Any, Any]], context: contextvars.Context) -> None:
        # Not numbered as a child task: the thread does this for the task that it works for.
        task = asyncio.Task(contained(make), loop=self._turn.loop, context=context)
        self._turn.tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[tuple[Any, BaseException | None]]) -> None:
        self._turn.tasks.pop(task, None)
        if task.cancelled():
            self._error = asyncio.CancelledError()
        else:
            self._error = task.exception()
            if self._error is None:
                self._value, self._error = task.result()
        self.over = True
        self._jobs.put(None)

    async def call(self, function: Callable[[], T]) -> T:
        """Called on the loop: run a plain function in the waiting thread, in a copy of this context."""
        context = contextvars.copy_context()
        context.run(_waiting_thread.set, None)
        done, run = job(self._turn.loop, context, function)
        self._jobs.put(run)
        return await done


async def call_blocking(turn: Turn, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run a plain function off the loop: in the thread that waits for this call, if one does, else in a new one."""
    waiting = _waiting_thread.get()
    if waiting is not None and not waiting.over:
        return await waiting.call(lambda: function(*args, **kwargs))
    return await turn.run_in_thread(function, *args, **kwargs)
