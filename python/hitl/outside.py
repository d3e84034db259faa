"""What a turn waits for besides its journal: raw I/O, which nobody can see directly. Told from what its tasks await."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hitl.schedule import AwaitedFuture, NumberedFuture

if TYPE_CHECKING:
    from hitl.runtime import Turn


def waits_outside(turn: Turn, task: asyncio.Task[Any]) -> bool:
    """Whether a task may wait for something that neither the journal nor another task of the turn brings about."""
    return _is_outside(turn, getattr(task, "_fut_waiter", None))


def _is_outside(turn: Turn, awaited: Any) -> bool:
    if awaited is None or isinstance(awaited, AwaitedFuture):
        return False
    if isinstance(awaited, NumberedFuture) and awaited.is_of_thread:
        return False
    if isinstance(awaited, asyncio.Task):
        return awaited not in turn.tasks
    children = getattr(awaited, "_children", None)  # a gather's
    if children is not None:
        return any(_is_outside(turn, child) for child in children if not child.done())
    return True


def where(turn: Turn, path: str) -> str | None:
    """``file.py:12`` where the task at ``path`` waits: the innermost line of its own code that is not a library's."""
    from hitl.runtime import location_of

    task = next((task for task, place in turn.tasks.items() if place.path == path), None)
    coroutine: Any = None if task is None else task.get_coro()
    found: str | None = None
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None and "site-packages" not in frame.f_code.co_filename:
            module = str(frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] not in ("asyncio", "hitl"):
                found = location_of(frame)
        coroutine = getattr(coroutine, "cr_await", None)
    return found
