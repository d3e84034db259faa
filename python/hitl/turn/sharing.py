"""Whether somebody outside of a turn may bring about what a task of it waits for: a lock that another turn holds.

A lock, a queue or an event that was made at the import is everybody's who runs on the loop, and keeps no list of who
holds it. But whoever has entered it by ``async with`` stands in it, and whoever is to set an event or to fill a queue
has it at hand. So the other tasks of the loop are looked at: what they have entered, and what their variables lead to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import CellType, CodeType, FrameType, MethodType, ModuleType
from typing import Any

from hitl.turn.places import AnyTurn
from hitl.turn.reach import referents
from hitl.turn.suspended import awaiting_frame, entered, suspended

# Where what is entered keeps the lock that is waited for: a condition, and what anyio makes where no loop runs yet.
_INNER = ("_lock", "_internal_lock", "_internal_semaphore")
# What leads on from a variable, and by how many steps: `self.pool.lock` has two, and a dictionary between any two.
_MOST_STEPS = 4
_MOST_OBJECTS = 500
_LEAVES = (type, ModuleType, CodeType, FrameType, str, bytes, int, float, asyncio.Future, asyncio.AbstractEventLoop)
# A task that waits in one of these for a run of its own knows the agent, and does nothing until that is over.
_CALLERS = ("hitl.runs.", "hitl.driver.", "hitl.worker.")


def is_shared(turn: AnyTurn, primitive: Any) -> bool:
    """Whether a task that is none of the turn's may free, set or fill what one of the turn waits for."""
    owner = getattr(primitive, "_owner_task", None)  # anyio's locks know
    if owner is not None:
        return owner not in turn.tasks
    is_lock = hasattr(primitive, "release")
    has_own_holder = is_lock and any(_holds(task, primitive) for task in turn.tasks if not task.done())
    if has_own_holder and isinstance(primitive, asyncio.Lock):
        return False
    others = [task for task in asyncio.all_tasks(turn.loop) if task not in turn.tasks]
    if any(_holds(task, primitive) for task in others):
        return True
    # Who holds a semaphore here will free it; of what nobody has entered, whoever knows it may have been in it.
    return not has_own_holder and any(_knows(task, primitive) for task in others)


def _holds(task: asyncio.Task[Any], primitive: Any) -> bool:
    """Whether it has entered a lock: one that only waits for it stands in it alike."""
    return any(_is(found, primitive) for found in entered(task)) and not _waits_for(task, primitive)


def _is(found: object, primitive: Any) -> bool:
    return found is primitive or any(getattr(found, name, None) is primitive for name in _INNER)


def _waits_for(task: asyncio.Task[Any], primitive: Any) -> bool:
    awaited = getattr(task, "_fut_waiter", None)
    if awaited is None or awaited.done():
        return False
    frame = awaiting_frame(task)
    return frame is not None and frame.f_locals.get("self") is primitive


def _knows(task: asyncio.Task[Any], primitive: Any) -> bool:
    """Whether the variables of a task lead there."""
    chain = list(suspended(task))
    if not chain or _waits_for(task, primitive):
        return False
    modules = [str(frame.f_globals.get("__name__", "")) for _, frame in chain]
    if modules[0].startswith(_CALLERS) or any(module.startswith("hitl.runs.") for module in modules):
        return False
    for inner, frame in chain:
        named = (frame.f_globals.get(name) for name in frame.f_code.co_names)
        if any(found is primitive for root in (inner, *named) for found in _led_to(root)):
            return True
    return False


def _led_to(root: Any) -> Iterator[object]:
    """What can be had from there: a variable, what it closes over or contains, and attributes of that."""
    yield root
    if _is_leaf(root):
        return
    seen, ends = {id(root)}, [root]
    for _ in range(_MOST_STEPS):
        following = []
        for end in ends:
            for found in referents(end):
                if id(found) not in seen and not _is_leaf(found) and len(seen) < _MOST_OBJECTS:
                    seen.add(id(found))
                    following.append(found)
                    yield found
        ends = following


def _is_leaf(found: Any) -> bool:
    if found is None or isinstance(found, _LEAVES):
        return True
    module = type(found).__module__
    return module.startswith("hitl.") and not isinstance(found, (MethodType, CellType))
