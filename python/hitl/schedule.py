"""Makes an event loop tell which turn each callback belongs to, so that a turn knows when nothing of it is left to run.

``install(loop)`` replaces some methods of one loop object: of a worker's own loop, or of whichever loop a program runs
(asyncio's, uvloop's, Jupyter's). The loop stays a real one: sockets, threads and clients that know nothing of hitl work
as before. Only callbacks whose context is inside a turn are treated differently:

- ``call_soon`` counts them. A cancelled one is blanked but still runs, so that the count cannot leak.
- Those that come from outside (a socket, a thread, another turn) go to the turn's ``Order``, which decides when.
- ``call_later`` and ``call_at`` make timers of the turn, ``time`` is the turn's clock.
- Tasks and futures hash by their creation number: sets of them, as ``asyncio.wait`` makes, iterate as they did.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from hitl.places import Place, StepScope, place_var

if TYPE_CHECKING:
    from hitl.order import Order

OUTSIDE = Context()
"""An empty context: what runs in a copy of it belongs to no turn. Copies, as loops of two threads cannot be in one."""


class Counted:
    """A callback of a turn, as the loop sees it; also the handle that its caller gets.

    ``free``: it belongs to a free body. It is not counted, unless that body becomes ordered before or while it runs.
    """

    __slots__ = ("_args", "_callback", "_free", "_order", "context")

    def __init__(
        self,
        order: Order,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        *,
        free: StepScope | None = None,
    ) -> None:
        self._order = order
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._free = free
        self.context = context

    def __call__(self) -> None:
        order = self._order
        schedule = order.schedule
        free = self._free
        if free is None or free.ordered:
            schedule.running = order
        else:
            free.pending -= 1
        try:
            if self._callback is not None:
                self._callback(*self._args)
        finally:
            if schedule.running is not None:
                schedule.running = None
                order.ran()

    def cancel(self) -> None:
        """Do nothing when the time comes."""
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._callback is None


class NumberedTask(asyncio.Task[Any]):
    """A task that hashes by its number."""

    def __init__(self, number: int, coro: Any, **kwargs: Any) -> None:
        # Before the base class, which puts the task into a set.
        self._number = number
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self._number


class NumberedFuture(asyncio.Future[Any]):
    """A future that hashes by its number."""

    is_of_thread = False
    """Whether a call in an executor settles it: the turn knows of that thread."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class AwaitedFuture(NumberedFuture):
    """What a hitl call waits for: the turn knows who settles it."""


class Schedule:
    """What ``install`` put on a loop, and the loop's own methods below it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.running: Order | None = None
        """The turn whose callback runs at this moment."""
        self.call_soon = loop.call_soon
        self.call_soon_threadsafe = loop.call_soon_threadsafe
        self._base_call_at = loop.call_at
        self._base_call_later = loop.call_later
        self._is_passing = False
        self.time = loop.time
        self.create_future = loop.create_future
        self.run_in_executor = loop.run_in_executor
        self._task_factory = loop.get_task_factory()
        # Sockets of asyncio's own loops; others, such as uvloop's, are not told apart from timers.
        self._watch = {name: getattr(loop, name) for name in ("_add_reader", "_add_writer") if hasattr(loop, name)}
        self._unwatch = {
            name: getattr(loop, name) for name in ("_remove_reader", "_remove_writer") if hasattr(loop, name)
        }
        self._watched: dict[tuple[str, int], Order] = {}

    def put_on(self) -> None:
        """Replace the loop's methods."""
        loop: Any = self.loop
        loop.call_soon = self._call_soon
        loop.call_soon_threadsafe = self._call_soon_threadsafe
        loop.call_at = self._call_at
        loop.call_later = self._call_later
        loop.time = self._time
        loop.create_future = self._create_future
        loop.run_in_executor = self._run_in_executor
        for name, method in self._watch.items():
            setattr(loop, name, self._watcher(name, method))
        for name, method in self._unwatch.items():
            setattr(loop, name, self._unwatcher(name, method))
        loop.set_task_factory(self._make_task)
        # A generator that the garbage collector finds is closed at no particular point of any turn.
        close = getattr(loop, "_asyncgen_finalizer_hook", None)
        if close is not None:
            loop._asyncgen_finalizer_hook = lambda agen: OUTSIDE.copy().run(close, agen)
            hooks = sys.get_asyncgen_hooks()
            if hooks.finalizer == close:  # the loop runs already
                sys.set_asyncgen_hooks(finalizer=loop._asyncgen_finalizer_hook)

    # -- callbacks ------------------------------------------------------------------------------------------------

    def _call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if context is None:
            context = contextvars.copy_context()
        place: Place | None = context.get(place_var)
        if place is None or place.turn.closed:
            return self.call_soon(callback, *args, context=context)
        order = place.turn.order
        scope = place.step
        if scope is not None and not scope.ordered:
            scope.pending += 1
            free = Counted(order, callback, args, context, free=scope)
            self.call_soon(free, context=context)
            return free
        counted = Counted(order, callback, args, context)
        if self.running is order:
            order.count += 1
            self.call_soon(counted, context=context)
        else:
            order.wake(counted)
        return counted

    def _call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if context is None:
            context = contextvars.copy_context()
        order = order_of(context)
        if order is None:
            return self.call_soon_threadsafe(callback, *args, context=context)
        counted = Counted(order, callback, args, context)
        self.call_soon_threadsafe(order.wake, counted, context=OUTSIDE.copy())
        return counted

    # -- time -----------------------------------------------------------------------------------------------------

    def _time(self) -> float:
        running = self.running
        return self.time() if running is None else running.now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        """The loop's own ``call_at``."""
        # Some loops build one of the two on the other, asyncio and uvloop the opposite ones.
        self._is_passing = True
        try:
            return self._base_call_at(when, callback, *args, context=context)
        finally:
            self._is_passing = False

    def _call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        if self._is_passing:
            return self._base_call_later(delay, callback, *args, context=context)
        if delay is None:
            raise TypeError("delay must not be None")
        return self._call_at(self._time() + delay, callback, *args, context=context)

    def _call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if self._is_passing:
            return self._base_call_at(when, callback, *args, context=context)
        if when is None:
            raise TypeError("when cannot be None")
        if context is None:
            context = contextvars.copy_context()
        place = context.get(place_var)
        if place is None or place.turn.closed:
            return self.call_at(when, callback, *args, context=context)
        return place.turn.order.set_timer(place, when, callback, args, context)

    # -- tasks and futures ----------------------------------------------------------------------------------------

    def _create_future(self) -> asyncio.Future[Any]:
        place = place_var.get()
        if place is None:
            return self.create_future()
        return NumberedFuture(place.next_number(), self.loop)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        context: Context | None = kwargs.pop("context", None)
        place = place_var.get() if context is None else context.get(place_var)
        if place is None:
            if self._task_factory is not None:
                if context is not None:
                    kwargs["context"] = context
                return self._task_factory(loop, coro, **kwargs)  # type: ignore[return-value]
            return asyncio.Task(coro, loop=loop, context=context, **kwargs)
        # A callback of a socket that makes a task does so at no particular point of the turn: it gets no place in it.
        child = None if place.is_ordered and self.running is not place.turn.order else place.next_task()
        if context is None:
            context = contextvars.copy_context()
            context.run(place_var.set, child)
        else:
            try:
                context.run(place_var.set, child)
            except (
                RuntimeError
            ):  # the context that runs right now: setting the child's place there would move its parent
                context = context.copy()
                context.run(place_var.set, child)
        kwargs.pop("eager_start", None)  # a task that starts inside its maker would be in its maker's place
        if child is None:
            return asyncio.Task(coro, loop=loop, context=context, **kwargs)
        task = NumberedTask(place.next_number(), coro, loop=loop, context=context, **kwargs)
        place.turn.adopt(task, child)
        return task

    # -- what runs outside of the turn's callbacks ----------------------------------------------------------------

    def _run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.run_in_executor(executor, func, *args)
        place = place_var.get()
        if place is not None and not place.turn.closed:
            # A thread of the turn or of the step, as those of ours: while it waits in a hitl call it does not count.
            holder, order = place.step if place.step is not None else place.turn, place.turn.order
            holder.threads += 1

            def over(_: object) -> None:
                holder.threads -= 1
                order.eased()

            future.add_done_callback(over, context=OUTSIDE.copy())
            if isinstance(future, NumberedFuture):
                future.is_of_thread = True
        return future

    def _watcher(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        kind = name.removeprefix("_add_")

        def watch(fd: Any, callback: Callable[..., object], *args: Any) -> Any:
            order = order_of(contextvars.copy_context())
            if order is not None and isinstance(fd, int):
                self._forget(kind, fd)
                self._watched[kind, fd] = order
                order.sockets += 1
            return method(fd, callback, *args)

        return watch

    def _unwatcher(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        kind = name.removeprefix("_remove_")

        def unwatch(fd: Any) -> Any:
            if isinstance(fd, int):
                self._forget(kind, fd)
            return method(fd)

        return unwatch

    def _forget(self, kind: str, fd: int) -> None:
        order = self._watched.pop((kind, fd), None)
        if order is not None:
            order.sockets -= 1


def install(loop: asyncio.AbstractEventLoop) -> Schedule:
    """The loop's schedule; put on it at the first call."""
    schedule: Schedule | None = getattr(loop, "_hitl_schedule", None)
    if schedule is None:
        schedule = Schedule(loop)
        loop._hitl_schedule = schedule  # type: ignore[attr-defined]  # lives and dies with the loop
        schedule.put_on()
    return schedule


def order_of(context: Context) -> Order | None:
    """The order that a callback in this context has to keep; None outside of turns and in free bodies."""
    place: Place | None = context.get(place_var)
    if place is None or not place.is_ordered or place.turn.closed:
        return None
    return place.turn.order
