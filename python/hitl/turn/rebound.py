"""Functions of asyncio that a turn cannot use as they are, because they iterate a set of coroutines.

``rebind()`` puts ours in their place: before an agent is imported where a worker imports it, else also in the modules
that have imported them by name. Outside of turns they are asyncio's own.
"""

from __future__ import annotations

import asyncio
import asyncio.tasks
import sys
from collections.abc import Awaitable, Iterable
from typing import Any

from hitl.turn.places import place_var

_as_completed: Any = asyncio.as_completed
_wait_for: Any = asyncio.wait_for


def rebind() -> None:
    """Replace ``asyncio.as_completed``, and on Python 3.11 ``asyncio.wait_for``; harmless when called again."""
    _replace("as_completed", _as_completed, as_completed)
    if sys.version_info < (3, 12):
        _replace("wait_for", _wait_for, wait_for)


def _replace(name: str, theirs: Any, ours: Any) -> None:
    if getattr(asyncio, name) is ours:
        return
    for module in list(sys.modules.values()):
        members = getattr(module, "__dict__", {})  # not every entry is a module
        if members.get(name) is theirs and members is not globals():
            members[name] = ours


def as_completed(fs: Iterable[Any], *, timeout: float | None = None) -> Any:
    """``asyncio.as_completed``, where bare coroutines become tasks in the order in which they were given.

    asyncio makes the tasks in the order of a set of coroutines, which is the order of their addresses in memory.
    """
    if place_var.get() is None or asyncio.isfuture(fs) or asyncio.iscoroutine(fs):
        return _as_completed(fs, timeout=timeout)
    return _as_completed([asyncio.ensure_future(item) for item in dict.fromkeys(fs)], timeout=timeout)


async def wait_for(fut: Awaitable[Any], timeout: float | None) -> Any:
    """``asyncio.wait_for`` as Python 3.12 does it: in the caller's own task, under ``asyncio.timeout``.

    The older one runs a coroutine in a task of its own and cancels that; two Pythons would number tasks differently.
    """
    if place_var.get() is None:
        return await _wait_for(fut, timeout)
    if timeout is not None and timeout <= 0:
        task = asyncio.ensure_future(fut)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        try:
            return task.result()
        except asyncio.CancelledError as cancelled:
            raise TimeoutError from cancelled
    async with asyncio.timeout(timeout):
        return await fut
