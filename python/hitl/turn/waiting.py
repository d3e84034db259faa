"""What a turn waits for, once nothing of it is left to run. Told from what its unfinished tasks await.

A turn is paused when nothing but people, timers and the turn itself can bring it on. A task waits *inside* where it
waits for a hitl call, a timer, a task of the turn, or for what another task of the turn is to do: put something into a
queue, set an event, free a lock. All else is *outside*: a socket, a thread, a child process, another turn.

Nobody says of a future who will settle it, and an event of asyncio may be set by a socket as well as by a task: that
is how anyio, and so most HTTP clients, read. What a task waits for is therefore told from the function that waits, and,
for a queue, an event or a lock, from whether anything that is open on the loop leads there (``hitl.turn.reach``). Where
it cannot be told it counts as outside: a turn that is parked although it is at work would do that work twice.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hitl.turn.places import AnyTurn
from hitl.turn.reach import Reach
from hitl.turn.schedule import AwaitedFuture, NumberedFuture
from hitl.turn.sharing import is_shared
from hitl.turn.suspended import awaiting_frame, frames

_PRIMITIVES = (asyncio.Queue, asyncio.Event, asyncio.Lock, asyncio.Condition, asyncio.Semaphore)
# Where those keep the futures that wait for them.
_WAITERS = ("_getters", "_putters", "_waiters")


class Wait(NamedTuple):
    """Something outside that a task of the turn waits for."""

    what: str
    """``raw I/O``, ``a child process``, or ``something unknown``."""
    task: str
    """The path of the task that waits."""
    location: str | None
    """``file.py:12`` where the task waits: see ``where``."""

    def __str__(self) -> str:
        return self.what if self.location is None else f"{self.what} at {self.location}"


@dataclass(slots=True)
class Waits:
    """What holds a turn besides its journal, sorted by what may be done about it."""

    in_bodies: list[Wait] = field(default_factory=list)
    """In bodies of steps: work, which must be neither stopped nor repeated."""
    between_steps: list[Wait] = field(default_factory=list)
    """In the agent's own code, which may run again anyway."""
    is_inferred: bool = False
    """Somebody waits for a queue, an event or the like that nothing outside was found to lead to."""

    def __bool__(self) -> bool:
        return bool(self.in_bodies or self.between_steps)

    def is_of(self, task: str) -> bool:
        """Whether the task at that path is one that waits outside."""
        return any(wait.task == task for wait in (*self.in_bodies, *self.between_steps))


def waits_of(turn: AnyTurn) -> Waits:
    """What the ordered tasks of a turn, none of which can go on by itself, wait for outside of it."""
    found = Waits()
    sorting: _Sorting | None = None
    for task, place in turn.tasks.items():
        awaited = getattr(task, "_fut_waiter", None)
        if awaited is None or isinstance(awaited, AwaitedFuture) or not place.is_ordered or task.done():
            continue
        if sorting is None:
            sorting = _Sorting(turn)
        what = sorting.sort(awaited, awaiting_frame(task))
        if what is not None:
            waits = found.between_steps if place.step is None else found.in_bodies
            waits.append(Wait(what, place.path, where(task)))
    if sorting is not None:
        found.is_inferred = sorting.is_inferred
    return found


class _Sorting:
    """One look at a turn."""

    def __init__(self, turn: AnyTurn) -> None:
        self._turn = turn
        self._tasks = turn.tasks
        self._seen: set[int] = set()
        # Of locks and the like, by `id`: many tasks may wait for one, and to look for who else has it takes a while.
        self._shared: dict[int, bool] = {}
        self._reach: Reach | None = None
        self.is_inferred = False

    def sort(self, awaited: Any, frame: FrameType | None) -> str | None:
        """What a future stands for, if that is outside; ``frame`` awaits it, or None where it is one of several."""
        if id(awaited) in self._seen or awaited.done():
            return None
        self._seen.add(id(awaited))
        if isinstance(awaited, AwaitedFuture):
            return None
        if isinstance(awaited, NumberedFuture) and awaited.is_of_thread:
            return None  # the turn counts its threads
        if isinstance(awaited, asyncio.Task):
            return None if awaited in self._tasks else "something unknown"
        members = _members(awaited, frame)
        if members is not None:
            return next((what for member in members if (what := self.sort(member, None)) is not None), None)
        code = None if frame is None else frame.f_code
        if code is _known().sleep:
            return None
        if frame is not None and (code in _known().primitives or _is_waiter(awaited, frame)):
            return self._sort_primitive(awaited, frame)
        if frame is not None and code in _known().threads:
            # While that thread waits in a hitl call, it is a task of the turn that brings it on.
            is_blocked = frame.f_locals.get("worker") in self._turn.blocked.values()
            return None if is_blocked else "something unknown"
        if (raw := _raw(code)) is not None:
            return raw
        return self._sort_bare(awaited)

    def _sort_primitive(self, awaited: Any, frame: FrameType) -> str | None:
        primitive = frame.f_locals.get("self")
        if self._outside.leads_to(awaited, primitive) or self._is_shared(primitive):
            return "something unknown"
        self.is_inferred = True
        return None

    def _is_shared(self, primitive: Any) -> bool:
        known = self._shared.get(id(primitive))
        if known is None:
            known = self._shared[id(primitive)] = is_shared(self._turn, primitive)
        return known

    def _sort_bare(self, awaited: Any) -> str | None:
        """A future of somebody's own making. It is the turn's where a task of it settles it, or nothing else is there
        that could."""
        if any(_hands_on(task, awaited) for task in self._tasks if not task.done()):
            self.is_inferred = True
            return None
        if (
            not isinstance(awaited, NumberedFuture)
            or self._outside.has_sources
            or threading.active_count() > 1
            or self._turn.order.is_at_work
        ):
            return "something unknown"
        self.is_inferred = True
        return None

    @property
    def _outside(self) -> Reach:
        if self._reach is None:
            self._reach = Reach(self._turn)
        return self._reach


class _Known(NamedTuple):
    """Functions of asyncio and anyio, by their code."""

    sleep: CodeType
    wait: CodeType
    groups: frozenset[CodeType]
    primitives: frozenset[CodeType]
    threads: frozenset[CodeType] = frozenset()
    """What runs a function in the thread ``worker``, of which the turn does not know."""


@cache
def _asyncio() -> _Known:
    def code(function: Any) -> CodeType:
        found: CodeType = function.__code__
        return found

    group = asyncio.TaskGroup
    return _Known(
        sleep=code(asyncio.sleep),
        wait=code(asyncio.tasks._wait),  # type: ignore[attr-defined]
        # Newer Pythons await in a function of their own.
        groups=frozenset(code(getattr(group, name)) for name in ("__aexit__", "_aexit") if hasattr(group, name)),
        primitives=frozenset(
            code(function)
            for function in (
                asyncio.Queue.get,
                asyncio.Queue.put,
                asyncio.Event.wait,
                asyncio.Lock.acquire,
                asyncio.Condition.wait,
                asyncio.Semaphore.acquire,
            )
        ),
    )


@cache
def _with_anyio(anyio: Any) -> _Known:
    known = _asyncio()
    return known._replace(
        groups=known.groups | {anyio.TaskGroup.__aexit__.__code__},
        primitives=known.primitives | {anyio.Lock.acquire.__code__, anyio.Semaphore.acquire.__code__},
        threads=frozenset({anyio.AsyncIOBackend.run_sync_in_worker_thread.__code__}),
    )


def _known() -> _Known:
    anyio = sys.modules.get("anyio._backends._asyncio")
    return _asyncio() if anyio is None else _with_anyio(anyio)


# Where the waiter for a child's end is awaited; the second on uvloop, whose own part of it shows no frame.
_CHILDREN = ("asyncio/base_subprocess.py", "asyncio/subprocess.py")
_STREAMS = ("asyncio/streams.py", "asyncio/selector_events.py", "asyncio/sslproto.py", "asyncio/unix_events.py")


def _raw(code: CodeType | None) -> str | None:
    """What a future is for that asyncio made to do I/O."""
    if code is None:
        return None
    file = code.co_filename.replace("\\", "/")
    if file.endswith(_STREAMS):
        return "raw I/O"
    return "a child process" if file.endswith(_CHILDREN) else None


def _members(awaited: Any, frame: FrameType | None) -> list[Any] | None:
    """The futures that this one stands for: those of a gather, a shield, a wait, or the tasks of a group."""
    children = getattr(awaited, "_children", None)
    if children is not None:
        return list(children)
    if frame is not None:
        code = frame.f_code
        if code is _known().wait:
            return list(frame.f_locals["fs"])
        if code in _known().groups:
            return list(frame.f_locals["self"]._tasks)
    inner = _shielded(awaited)
    return None if inner is None else [inner]


def _shielded(awaited: Any) -> Any:
    """What ``asyncio.shield`` keeps alive behind this future."""
    return next(_kept_by(awaited, "_outer_done_callback", "inner"), None)


def _hands_on(task: asyncio.Task[Any], following: Any) -> bool:
    """Whether a future gets what becomes of a task, as ``asyncio.wrap_future`` chains two."""
    return any(found is following for found in _kept_by(task, "_call_set_state", "destination"))


def _kept_by(future: Any, function: str, variable: str) -> Iterator[Any]:
    """What a function that is called once a future is done has kept under a name."""
    for callback, _ in getattr(future, "_callbacks", None) or ():
        code = getattr(callback, "__code__", None)
        if code is not None and code.co_name == function and variable in code.co_freevars:
            yield callback.__closure__[code.co_freevars.index(variable)].cell_contents


def _is_waiter(awaited: Any, frame: FrameType) -> bool:
    """Whether a method of somebody's own queue, event or lock waits as those of asyncio do: among its waiters."""
    primitive = frame.f_locals.get("self")
    if not isinstance(primitive, _PRIMITIVES):
        return False
    return any(awaited in (getattr(primitive, waiters, None) or ()) for waiters in _WAITERS)


def where(task: asyncio.Task[Any]) -> str | None:
    """``file.py:12`` where a task waits: the innermost line of its own code that is not a library's."""
    found: FrameType | None = None
    for frame in frames(task):
        if "site-packages" not in frame.f_code.co_filename:
            module = str(frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] not in ("asyncio", "hitl"):
                found = frame
    return location_of(found)


def location_of(frame: FrameType | None) -> str | None:
    """``file.py:12`` of a frame. No directories: they differ between machines that continue one journal."""
    if frame is None:
        return None
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
