"""Between a turn's event loop and its threads: sync agents and tools run in threads, and call hitl from there."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from hitl.turn.forked import end_in_fork, this_process
from hitl.turn.places import AnyTurn, Place, StepScope, place_var
from hitl.turn.schedule import OUTSIDE, AwaitedFuture, counted, is_counted, lending_its_place

T = TypeVar("T")


async def contained(
    body: Callable[[], Awaitable[T]], at_end: Callable[[], None]
) -> tuple[T | None, BaseException | None]:
    """Value or exit of a body. Asyncio lets a task's SystemExit fly out of the loop, which may be somebody else's.

    ``at_end`` is called before the last callback of the body's task ends: after it, the turn would seem to rest.
    """
    owner = this_process()
    try:
        value = await body()
        end_in_fork(owner)
        return value, None
    except (SystemExit, KeyboardInterrupt) as leaving:
        end_in_fork(owner, leaving)
        return None, leaving
    except BaseException as error:
        end_in_fork(owner, error)
        raise
    finally:
        at_end()


def label(function: Callable[..., Any]) -> str:
    """A function's name, for threads and messages."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__name__


def job(
    turn: AnyTurn, place: Place, context: contextvars.Context, function: Callable[[], T]
) -> tuple[asyncio.Future[T], Callable[[], None]]:
    """A future for the task at ``place``, and what to call in some thread to run ``function`` in ``context`` and settle
    it. The thread counts as work of the turn, or of the step, until it has done so."""
    done: asyncio.Future[T] = AwaitedFuture(place.next_number(), turn.loop)
    unsettled = [done]
    """Empty once it is settled: an error has ``run`` in its traceback, which is not to lead to what holds the error."""
    holder = place.holder
    holder.threads += 1

    def complete(value: T | None, error: BaseException | None) -> None:
        done = unsettled.pop()
        if done.done():
            return
        if error is None:
            done.set_result(value)  # type: ignore[arg-type]  # no error: there is a value
        else:
            done.set_exception(error)

    def finished(value: T | None, error: BaseException | None) -> None:
        holder.threads -= 1
        if place.is_ordered and not turn.closed:
            turn.order.arrive(complete, (value, error), OUTSIDE.copy())
        else:
            complete(value, error)

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(counted(function))
        except StopIteration as stopped:  # cannot go through a future, which is awaited by iterating it
            error = RuntimeError(f"{label(function)} raised StopIteration")
            error.__cause__ = stopped
        except BaseException as raised:  # noqa: BLE001 - SystemExit in a thread is the caller's to see as well
            error = raised
        end_in_fork(turn.pid, error)
        if not turn.loop.is_closed():
            turn.order.schedule.call_soon_threadsafe(finished, value, error, context=OUTSIDE.copy())
        error = None  # a ring, as in ``bodies.opened``

    return done, run


_waiting_thread: contextvars.ContextVar[ThreadCall | None] = contextvars.ContextVar("hitl_waiting_thread", default=None)


class ThreadCall:
    """A thread that waits for a coroutine on the turn's loop, and meanwhile runs what that coroutine hands it."""

    def __init__(self, turn: AnyTurn) -> None:
        self._turn = turn
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._value: Any = None
        self._is_counted = is_counted()
        self._thread = threading.current_thread()
        self._holder: AnyTurn | StepScope | None = None
        """Whose thread it is, while it waits."""
        self._scope: StepScope | None = None
        self.over = False

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Called in the thread: block until the coroutine is done; its value or error is ours."""
        context = contextvars.copy_context()
        context.run(_waiting_thread.set, self)
        try:
            self._turn.order.schedule.call_soon_threadsafe(self._arrive, make, context, context=OUTSIDE.copy())
        except RuntimeError as closed:
            raise RuntimeError("a hitl call was made after its turn had ended") from closed
        with lending_its_place():
            while (run := self._jobs.get()) is not None:
                run()
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # a ring, as in ``bodies.opened``
        value: T = self._value
        return value

    def _arrive(self, make: Callable[[], Coroutine[Any, Any, Any]], context: contextvars.Context) -> None:
        place = context[place_var]
        assert place is not None
        if self._is_counted:
            self._holder = place.holder
            self._holder.threads -= 1
        self._turn.blocked[self] = self._thread
        if place.is_ordered and not self._turn.closed:
            self._turn.order.arrive(self._start, (make, context, place), OUTSIDE.copy())
        else:
            self._start(make, context, place)

    def _start(self, make: Callable[[], Coroutine[Any, Any, Any]], context: contextvars.Context, place: Place) -> None:
        # Not numbered as a child task: the thread does this for the task that it works for.
        task = asyncio.Task(contained(make, self._go_on), loop=self._turn.loop, context=context)
        self._turn.adopt(task, place)
        self._scope = place.step
        if self._scope is not None:
            self._scope.calls[task] = None
        task.add_done_callback(self._done, context=OUTSIDE.copy())

    def _go_on(self) -> None:
        """The thread works again."""
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.threads += 1
        self._turn.blocked.pop(self, None)

    def _done(self, task: asyncio.Task[tuple[Any, BaseException | None]]) -> None:
        if self._scope is not None:
            self._scope.calls.pop(task, None)
        if task.cancelled():
            self._error = asyncio.CancelledError()
        else:
            self._error = task.exception()
            if self._error is None:
                self._value, self._error = task.result()
        self.over = True
        self._go_on()  # where it was cancelled before it began
        self._jobs.put(None)

    async def call(self, function: Callable[[], T]) -> T:
        """Called on the loop: run a plain function in the waiting thread, in a copy of this context."""
        context = contextvars.copy_context()
        context.run(_waiting_thread.set, None)
        place = place_var.get()
        assert place is not None
        done, run = job(self._turn, place, context, function)
        self._jobs.put(run)
        try:
            return await done
        finally:
            del done  # a ring, as in ``bodies.opened``


async def call_blocking(turn: AnyTurn, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Run a plain function off the loop: in the thread that waits for this call, if one does, else in a new one."""
    waiting = _waiting_thread.get()
    if waiting is not None and not waiting.over:
        return await waiting.call(partial(function, *args, **kwargs))
    return await turn.run_in_thread(function, *args, **kwargs)
