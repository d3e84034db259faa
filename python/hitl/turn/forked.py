"""What a process that was forked leaves alone: it has copies of its parent's event loops, and none of its threads."""

from __future__ import annotations

import asyncio

_left: list[asyncio.AbstractEventLoop] = []
"""Loops of the parent. What hangs on them is never collected here: that would run the `finally` of its tasks."""


def leave_to_parent(loop: asyncio.AbstractEventLoop) -> None:
    """Let nobody close a loop of the process that this one was forked from.

    That would cancel its tasks, whose cleanup ends the parent's connections; and it would take the parent's descriptors
    out of the epoll that both share, so that nothing wakes the parent's loop any more.
    """
    loop.close = _keep  # type: ignore[method-assign]
    loop.is_closed = _claim_closed  # type: ignore[method-assign]  # else a loop closes itself when it is collected
    _left.append(loop)


def _keep() -> None:
    pass


def _claim_closed() -> bool:
    return True
