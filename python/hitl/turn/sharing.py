"""Whether somebody outside of a turn may bring about what a task of it waits for: a lock that another turn holds.

A lock, a queue or an event that was made at the import is everybody's who runs on the loop, and keeps no list of who
holds it. But whoever has entered it by ``async with`` stands in it, and whoever is to set an event or to fill a queue
has it at hand. So the other tasks of the loop are looked at: what they have entered, and what their variables lead to.
What a turn has made for itself, as most are, is told before that: nothing leads there that was there before the turn.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

from hitl.turn.places import AnyTurn
from hitl.turn.reach import is_ours, referents
from hitl.turn.suspended import awaiting_frame, entered, suspended

# Where what is entered keeps the lock that is waited for: a condition, and what anyio makes where no loop runs yet.
_INNER = ("_lock", "_internal_lock", "_internal_semaphore")
# What leads on from a variable, and by how many steps: `self.pool.lock` has two, and a dictionary between any two.
_MOST_STEPS = 4
_MOST_OBJECTS = 5_000
_MOST_MEMBERS = 100
_LEAVES = (
    *(type, ModuleType, CodeType, FrameType, str, bytes, int, float),
    *(asyncio.Future, asyncio.AbstractEventLoop),
)
# A task that waits in one of these for a run of its own knows the agent, and does nothing until that is over.
_RUNS = "hitl.runs."
_CALLERS = (_RUNS, "hitl.driver.", "hitl.worker.")

_last_holder: WeakValueDictionary[int, asyncio.Task[Any]] = WeakValueDictionary()
"""Who was found to hold a lock, by its ``id``: the first to look at when it is looked for again."""


def is_shared(turn: AnyTurn, primitive: Any) -> bool:
    """Whether a task that is none of the turn's may free, set or fill what one of the turn waits for."""
    own = turn.tasks
    owner = getattr(primitive, "_owner_task", None)  # anyio's locks know
    if owner is not None:
        return owner not in own
    is_lock = hasattr(primitive, "release")
    has_own_holder = is_lock and any(_has_entered(task, primitive) for task in own if not task.done())
    if has_own_holder and isinstance(primitive, asyncio.Lock):
        return False
    if not _lead_to(_older_than(turn), primitive):
        return False
    others = [task for task in asyncio.all_tasks(turn.loop) if task not in own]
    if is_lock and _is_entered_by(others, primitive):
        return True
    # Who holds a semaphore here will free it; of what nobody has entered, whoever knows it may have been in it.
    roots = (found for task in others for found in _variables(task, primitive))
    return not has_own_holder and _lead_to(roots, primitive)


def _is_entered_by(others: list[asyncio.Task[Any]], primitive: Any) -> bool:
    before = _last_holder.get(id(primitive))
    for task in others if before not in others else (before, *others):
        if _has_entered(task, primitive):
            _last_holder[id(primitive)] = task
            return True
    return False


def _has_entered(task: asyncio.Task[Any], primitive: Any) -> bool:
    """Whether it has entered a lock: one that only waits for it stands in it alike."""
    return any(_is(found, primitive) for found in entered(task)) and not _waits_for(task, primitive)


def _is(found: object, primitive: Any) -> bool:
    return found is primitive or any(getattr(found, name, None) is primitive for name in _INNER)


def _waits_for(task: asyncio.Task[Any], primitive: Any) -> bool:
    awaited = getattr(task, "_fut_waiter", None)
    if awaited is None or awaited.done():
        return False
    frame = awaiting_frame(task)
    return frame is not None and _is(frame.f_locals.get("self"), primitive)


def _older_than(turn: AnyTurn) -> Iterator[object]:
    """What was there before the turn: what its code finds in modules, the agent, its tools, its context and its
    resources."""
    yield turn.context
    source = turn.resources
    if source is not None and source.is_open:
        yield source.value
    for task, place in turn.tasks.items():
        is_agents = "." in place.path.rpartition("/")[2]  # made by code of the agent, or of what runs in a step
        for inner, frame in suspended(task):
            yield from _named(frame)
            if not is_agents or place.step is not None:  # a tool, which may be far down in its framework
                is_agents = is_agents or not _module(frame).startswith("hitl.")
                held = gc.get_referents(inner)
                yield from (found for found in held if not is_agents or isinstance(found, (FunctionType, MethodType)))
                yield frame.f_locals.get("self")


def _variables(task: asyncio.Task[Any], primitive: Any) -> Iterator[object]:
    """What a task may use of its own accord: its coroutines, which hold their variables, and what their code names."""
    chain = list(suspended(task))
    modules = [_module(frame) for _, frame in chain]
    if not chain or modules[0].startswith(_CALLERS) or any(module.startswith(_RUNS) for module in modules):
        return
    if not _waits_for(task, primitive):
        for inner, frame in chain:
            yield inner
            yield from _named(frame)


def _named(frame: FrameType) -> Iterator[object]:
    return (frame.f_globals.get(name) for name in frame.f_code.co_names)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _lead_to(roots: Iterable[object], primitive: Any) -> bool:
    """Whether it can be had from one of them: what that closes over or contains, and attributes of it. The nearest
    first, and not for ever: beside a thousand turns what is far away goes unseen."""
    seen: dict[int, object] = {}  # by reference, so that no object is freed and its id given to another one meanwhile
    following: Iterable[object] = roots
    for _ in range(1 + _MOST_STEPS):
        further: list[object] = []
        for found in following:
            if found is primitive:
                return True
            if id(found) in seen or _is_leaf(found):
                continue
            if len(seen) == _MOST_OBJECTS:
                return False
            seen[id(found)] = found
            further.append(found)
        following = (found for end in further if not _is_large(end) for found in referents(end))
    return False


def _is_leaf(found: object) -> bool:
    return found is None or isinstance(found, _LEAVES) or is_ours(found)


def _is_large(found: object) -> bool:
    """Whether it is data, where nobody looks for a lock."""
    return isinstance(found, (list, tuple, dict, set, frozenset)) and len(found) > _MOST_MEMBERS
