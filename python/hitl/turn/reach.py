"""Whether what is open on an event loop leads to something: what may a socket set, when data comes?

Asked of what a task of a turn waits for. The search begins at the callbacks of all that the loop watches, whoever
opened it, and goes from object to object as the garbage collector does. It ends at tasks of the turn itself, which are
looked at by themselves, and at our own objects; an agent's journal is not reached through a socket of ours.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping
from contextvars import Context
from socket import socket
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from hitl.turn.places import AnyTurn

# Objects that one search looks at. Beyond it, it counts as found: it errs towards work.
_MOST_OBJECTS = 20_000

_ENDS = (type, ModuleType, FrameType, CodeType, Context, asyncio.AbstractEventLoop, str, bytes, bytearray, int, float)
# Rooms whose objects know of every turn. A module's name, not its classes: most of them import this one.
_OURS = frozenset(
    f"hitl.{module}"
    for module in (
        *("turn.runtime", "turn.order", "turn.replaying", "turn.places"),
        *("turn.schedule", "turn.timers", "turn.threads"),
        *("driver.code_version", "driver.frames", "driver.output", "driver.port", "driver.running"),
    )
)
_OURS_BELOW = ("hitl.worker.", "hitl.runs.")


class Reach:
    """What is open on the loop of a turn, at one moment."""

    def __init__(self, turn: AnyTurn) -> None:
        self._tasks = turn.tasks
        self._roots = list(_sources(turn.loop))
        self._reached: dict[int, Any] | None = None
        self._is_exhausted = False

    @property
    def has_sources(self) -> bool:
        """Whether anything is open that is not ours."""
        return bool(self._roots)

    def leads_to(self, *targets: Any) -> bool:
        """Whether any of ``targets`` can be reached, or the search was given up."""
        if self._reached is None:
            self._reached = self._search()
        return self._is_exhausted or any(id(target) in self._reached for target in targets if target is not None)

    def _search(self) -> dict[int, Any]:
        # Kept by reference, so that no object is freed and its id given to another one meanwhile.
        reached: dict[int, Any] = {id(root): root for root in self._roots}
        open_ends = deque(self._roots)
        while open_ends:
            for found in referents(open_ends.popleft()):
                if id(found) in reached or self._is_end(found):
                    continue
                if len(reached) == _MOST_OBJECTS:
                    self._is_exhausted = True
                    return reached
                reached[id(found)] = found
                open_ends.append(found)
        return reached

    def _is_end(self, found: Any) -> bool:
        if found is None or isinstance(found, _ENDS):
            return True
        return found in self._tasks if isinstance(found, asyncio.Task) else is_ours(found)


def referents(holder: Any) -> Iterable[Any]:
    """What an object leads to."""
    if isinstance(holder, FunctionType):  # not its globals: everything leads to those
        return (*(holder.__closure__ or ()), *(holder.__defaults__ or ()), *(holder.__kwdefaults__ or {}).values())
    if isinstance(holder, weakref.ref):
        return (holder(),)
    return gc.get_referents(holder)


def is_ours(found: Any) -> bool:
    """Whether an object belongs to what runs turns, and so knows of them."""
    module = type(found).__module__
    return module in _OURS or module.startswith(_OURS_BELOW)


def _sources(loop: Any) -> Iterator[Any]:
    """What the loop calls, or tells of data, when something comes from outside. Ours are left out."""
    selector = getattr(loop, "_selector", None)
    if selector is not None and selector.get_map() is not None:
        for key in selector.get_map().values():
            for handle in key.data if isinstance(key.data, tuple) else ():
                if handle is not None and not _is_of(loop, handle):
                    yield from (handle._callback, *(handle._args or ()))
        return
    # A loop that is not asyncio's own, such as uvloop: its tables of transports, of watched descriptors, of processes.
    for table in gc.get_referents(loop):
        if isinstance(table, MutableMapping):
            yield from (source for source in list(table.values()) if _leads_on(source))
        elif type(table) is set:
            yield from (source for source in table if _leads_on(source))


def _is_of(loop: Any, handle: Any) -> bool:
    """Whether a handle is the loop's own, or ours."""
    holder = getattr(handle._callback, "__self__", None)
    return is_ours(holder) or (holder is loop and handle._callback.__name__ == "_read_from_self")


def _leads_on(source: Any) -> bool:
    """Whether somebody else than the loop and us is told by it."""
    if isinstance(source, socket) or is_ours(source) or hasattr(source, "when"):  # that is a timer: nothing comes in
        return False
    callbacks = [found for found in gc.get_referents(source) if not (_is_nothing(found) or _is_loops_own(found))]
    told = [found for handle in callbacks for found in (handle, *gc.get_referents(handle)) if not _is_nothing(found)]
    return bool(told) and not any(is_ours(getattr(found, "__self__", found)) for found in told)


def _is_loops_own(callback: Any) -> bool:
    """Whether it tells the loop and nobody else, as what wakes a loop that got a signal."""
    known = gc.get_referents(callback)
    return all(map(_is_nothing, known)) and any(isinstance(found, asyncio.AbstractEventLoop) for found in known)


def _is_nothing(found: Any) -> bool:
    return found is None or isinstance(found, _ENDS)
