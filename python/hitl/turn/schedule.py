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
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from hitl.turn.places import AnyOrder, AnyTurn, Place, StepScope, place_var

P = ParamSpec("P")
T = TypeVar("T")

OUTSIDE = Context()
"""An empty context: what runs in a copy of it belongs to no turn. Copies, as loops of two threads cannot be in one."""


class Counted:
    """A callback of a turn, as the loop sees it; also the handle that its caller gets.

    ``free``: it belongs to a free body. It is not counted, unless that body becomes ordered before or while it runs.
    A loop of asyncio takes it for a handle of its own, by the two members that it looks at: see ``Schedule.push``.
    """

    __slots__ = ("_args", "_callback", "_free", "_order", "context")

    _cancelled = False
    """The loop would skip it; ours is blanked, and still runs."""

    def __init__(
        self,
        order: AnyOrder,
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
        # Not None where a loop is run inside a callback of it, as notebooks do.
        outer, outer_moment = schedule.running, schedule.moment
        if free is None or free.ordered:
            schedule.running = order
        else:
            schedule.running = None
            schedule.moment = schedule.time()
            free.pending -= 1
        try:
            if self._callback is not None:
                self._callback(*self._args)
        finally:
            is_of_turn = schedule.running is not None
            schedule.running, schedule.moment = outer, outer_moment
            if is_of_turn:
                order.ran()
            # As asyncio does: from Python 3.12 on a task's error leads here by its traceback, and this to the task.
            del self, order, free

    def _run(self) -> None:
        try:
            self.context.run(self)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as in asyncio: the loop's handler is told of it
            self._order.schedule.loop.call_exception_handler(
                {"message": f"Exception in callback {self._callback!r}", "exception": error, "handle": self}
            )
        finally:
            del self

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
        self.running: AnyOrder | None = None
        """The turn whose callback runs at this moment."""
        self.moment: float | None = None
        """The time for a callback of a free body: it stands still, as in an ordered one, or a timer that is set by it
        might be over already, and whether it is would be told by no journal."""
        self.call_soon = loop.call_soon
        self._ready = _ready_of(loop)
        self.call_soon_threadsafe = loop.call_soon_threadsafe
        self._base_call_at = loop.call_at
        self._base_call_later = loop.call_later
        self._is_passing = False
        self.time = loop.time
        self.create_future = loop.create_future
        self.run_in_executor = loop.run_in_executor
        self._task_factory: Any = loop.get_task_factory()

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
        loop.run_until_complete = partial(self._run_until_complete, vars(loop).get("run_until_complete"))
        loop.set_task_factory(self._make_task)
        # A generator that the garbage collector finds is closed at no particular point of any turn.
        close = getattr(loop, "_asyncgen_finalizer_hook", None)
        if close is not None:
            loop._asyncgen_finalizer_hook = lambda agen: OUTSIDE.copy().run(close, agen)
            hooks = sys.get_asyncgen_hooks()
            if hooks.finalizer == close:  # the loop runs already
                sys.set_asyncgen_hooks(finalizer=loop._asyncgen_finalizer_hook)

    def keep(self) -> None:
        """Take the place of a task factory that somebody has set since: it goes on making the tasks of no turn."""
        factory: Any = self.loop.get_task_factory()
        if factory != self._make_task:
            self._task_factory = factory
            self.loop.set_task_factory(self._make_task)

    # -- callbacks ------------------------------------------------------------------------------------------------

    def push(self, counted: Counted) -> None:
        """Let the loop run it. A loop of asyncio would make a handle around it, and check what cannot be wrong: half
        of what a callback costs, and an agent of a framework makes dozens of them for each thing that it does."""
        loop: Any = self.loop
        if self._ready is None or loop._debug or loop._closed:
            self.call_soon(counted, context=counted.context)
        else:
            self._ready.append(counted)

    def _call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if context is None:
            context = contextvars.copy_context()
        place: Place | None = context.get(place_var)
        if place is None or place.turn.closed or place.turn.loop is not self.loop:
            if place is not None and place.turn.stands_still and _is_step(callback, place.turn):
                return Counted(place.turn.order, callback, args, context)  # which nobody calls
            return self.call_soon(callback, *args, context=context)
        order = place.turn.order
        scope = place.step
        if scope is not None and not scope.ordered:
            scope.pending += 1
            free = Counted(order, callback, args, context, free=scope)
            self.push(free)
            return free
        counted = Counted(order, callback, args, context)
        if self.running is order:
            order.count += 1
            self.push(counted)
        else:
            order.wake(counted)
        return counted

    def _call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if context is None:
            context = contextvars.copy_context()
        order = order_of(context)
        if order is None or order.turn.loop is not self.loop:
            return self.call_soon_threadsafe(callback, *args, context=context)
        counted = Counted(order, callback, args, context)
        self.call_soon_threadsafe(order.wake, counted, context=OUTSIDE.copy())
        return counted

    def _run_until_complete(self, given: Callable[[Any], Any] | None, future: Any) -> Any:
        """The loop's own ``run_until_complete``: that of its class, which may have changed, unless one was ``given``.

        Inside a callback of a turn, where something lets a loop run there too (nest_asyncio), that callback is not what
        runs meanwhile: its time stands still, and nothing that the loop waits for would ever be due.
        """
        loop: Any = self.loop
        run = given or partial(type(loop).run_until_complete, loop)
        if self.running is None and self.moment is None:
            return run(future)
        made = asyncio.ensure_future(future, loop=loop)  # here, where it is known whose it is
        outer, outer_moment = self.running, self.moment
        self.running = self.moment = None
        try:
            return run(made)
        except BaseException:
            if made is not future:
                made.cancel()  # a loop that cannot run has not taken it
            raise
        finally:
            self.running, self.moment = outer, outer_moment

    # -- time -----------------------------------------------------------------------------------------------------

    def _time(self) -> float:
        # A loop that counts from now, as uvloop does, has to count from its own now.
        if self._is_passing:
            return self.time()
        if self.running is not None:
            return self.now_in(self.running)
        return self.time() if self.moment is None else self.moment

    def now_in(self, order: AnyOrder) -> float:
        """How late it is for the code of a turn that runs at this moment."""
        place = place_var.get()
        scope = place.step if place is not None and place.turn is order.turn else None
        return order.now if scope is None else max(order.now, scope.clock)

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
        if context is None:
            context = contextvars.copy_context()
        place = self._place_in(context)
        is_of_running = place is not None and not place.turn.closed and place.turn.order is self.running
        is_of_free = self.moment is not None and place is not None and not place.is_ordered
        # The running turn's clock may be far behind: another's timer, or one of no turn, counts from now.
        now = self._time() if is_of_running or is_of_free else self.time()
        return self._call_at(now + delay, callback, *args, context=context)

    def _call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if self._is_passing:
            return self._base_call_at(when, callback, *args, context=context)
        if when is None:
            raise TypeError("when cannot be None")
        if context is None:
            context = contextvars.copy_context()
        place = self._place_in(context)
        if place is None or place.turn.closed:
            return self.call_at(when, callback, *args, context=context)
        return place.turn.order.set_timer(place, when, callback, args, context)

    def _place_in(self, context: Context | None) -> Place | None:
        """Where code in a context runs, or in the one of this moment; None where that is a turn of another loop, which
        a thread of a turn carries to a loop that it runs: nothing of that is the turn's, and this is not its thread."""
        place: Place | None = place_var.get() if context is None else context.get(place_var)
        return None if place is None or place.turn.loop is not self.loop else place

    # -- tasks and futures ----------------------------------------------------------------------------------------

    def _create_future(self) -> asyncio.Future[Any]:
        place = self._place_in(None)
        if place is None:
            return self.create_future()
        return NumberedFuture(place.next_number(), self.loop)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        context: Context | None = kwargs.pop("context", None)
        place = self._place_in(context)
        if place is None:
            factory, self._task_factory = self._task_factory, None
            if factory is None:
                return asyncio.Task(coro, loop=loop, context=context, **kwargs)
            if context is not None:
                kwargs["context"] = context
            try:  # it may have been given ours to call: then asyncio's own is meant
                made: asyncio.Task[Any] = factory(loop, coro, **kwargs)
                return made
            finally:
                self._task_factory = factory
        # A callback of a socket that makes a task does so at no particular point of the turn: it gets no place in it.
        # Of a parked turn nothing is recorded: its tasks have one, to be told so.
        is_placed = not place.is_ordered or self.running is place.turn.order or place.turn.is_parked
        child = place.next_task() if is_placed else None
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
        place = self._place_in(None)
        if place is None or place.turn.closed:
            return self.run_in_executor(executor, func, *args)
        if executor is None:
            func = counted(func, self)
        elif isinstance(executor, ThreadPoolExecutor):  # others may send it to another process
            func = counted(func)
        future = self.run_in_executor(executor, func, *args)
        # A thread of the turn or of the step, as those of ours: while it waits in a hitl call it does not count.
        holder, order = place.holder, place.turn.order
        holder.threads += 1

        def over(_: object) -> None:
            holder.threads -= 1
            order.eased()

        future.add_done_callback(over, context=OUTSIDE.copy())
        if isinstance(future, NumberedFuture):
            future.is_of_thread = True
        return future


def _ready_of(loop: asyncio.AbstractEventLoop) -> deque[Any] | None:
    """Where a loop of asyncio has the callbacks that are to run, in order; None of any other, and of one whose
    ``call_soon`` is somebody else's."""
    kind: Any = type(loop)
    is_plain = "call_soon" not in vars(loop) and getattr(kind, "call_soon", None) is asyncio.BaseEventLoop.call_soon
    ready = getattr(loop, "_ready", None) if is_plain else None
    return ready if isinstance(ready, deque) else None


def _is_step(callback: Callable[..., object], turn: AnyTurn) -> bool:
    """Whether a callback lets a task of the turn go on: a step or a wake-up of it."""
    task = getattr(callback, "__self__", None)
    return isinstance(task, asyncio.Task) and task in turn.tasks


class _Thread(threading.local):
    """What is known of the thread that asks."""

    is_counted = False
    of: Schedule | None = None
    """Whose loop has it in its own pool."""


_thread = _Thread()


def counted(function: Callable[P, T], pool_of: Schedule | None = None) -> Callable[P, T]:
    """A function that runs in a thread which the turn, or a step of it, counts as its own: see ``is_counted``.
    ``pool_of``: where it is one of the loop's own pool."""

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        before, of, _thread.is_counted, _thread.of = _thread.is_counted, _thread.of, True, pool_of
        try:
            return function(*args, **kwargs)
        finally:
            _thread.is_counted, _thread.of = before, of

    return run


@contextmanager
def lending_its_place() -> Iterator[None]:
    """In this block the thread that asks waits for its turn. A loop's pool has few threads, and where all of them wait,
    nobody would ever do there what they wait for: so it may have one more meanwhile."""
    pool: Any = None if _thread.of is None else getattr(_thread.of.loop, "_default_executor", None)
    if not isinstance(pool, ThreadPoolExecutor):  # of a loop that does not show it, as uvloop
        yield
        return
    with pool._shutdown_lock:  # as in its `submit`
        pool._max_workers += 1
    try:
        with pool._shutdown_lock:
            _begin_thread(pool)
        yield
    finally:
        with pool._shutdown_lock:
            pool._max_workers -= 1


def _begin_thread(pool: Any) -> None:
    """Have a pool begin one more thread for what waits in it, or for what comes next."""
    # Up to 3.11 each thread that took something which had waited is noted as idle, and none is begun in its place.
    while pool._idle_semaphore.acquire(timeout=0):
        pass
    if pool._work_queue.qsize() and not pool._shutdown:
        with suppress(RuntimeError):  # there can be no more threads: it waits as it would have
            pool._adjust_thread_count()


def is_counted() -> bool:
    """Whether a turn counts the thread that asks. One that merely carries a turn's context, as a library's may, is
    nothing that the turn knows of."""
    return _thread.is_counted


def install(loop: asyncio.AbstractEventLoop) -> Schedule:
    """The loop's schedule; put on it at the first call."""
    schedule: Schedule | None = getattr(loop, "_hitl_schedule", None)
    if schedule is None:
        schedule = Schedule(loop)
        loop._hitl_schedule = schedule  # type: ignore[attr-defined]  # lives and dies with the loop
        schedule.put_on()
    else:
        schedule.keep()
    return schedule


def order_of(context: Context) -> AnyOrder | None:
    """The order that a callback in this context has to keep; None outside of turns and in free bodies."""
    place: Place | None = context.get(place_var)
    if place is None or not place.is_ordered or place.turn.closed:
        return None
    return place.turn.order
