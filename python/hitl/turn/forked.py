"""What a process that was forked leaves alone: it has copies of its parent's event loops and turns, and none of its
threads.

Code of an agent forks inside of a turn (``multiprocessing``, ``os.fork``). The child may compute, print and start
programs. It is no part of the turn: a hitl call there is refused, and where it comes back to what is left of the turn
in it, it ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import NoReturn

from hitl.turn.reporting import report, report_error

_pid = os.getpid()
_left: list[asyncio.AbstractEventLoop] = []
"""Loops of the parent. What hangs on them is never collected here: that would run the `finally` of its tasks."""


def _note() -> None:
    global _pid
    _pid = os.getpid()


os.register_at_fork(after_in_child=_note)


def this_process() -> int:
    """The id of this process, without asking the system: every hitl call wants to know. Not yet right while Python
    itself still tidies up after the fork."""
    return _pid


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


def refuse_in_fork(caller: str, owner: int) -> None:
    """RuntimeError in a process that was forked inside the turn of process ``owner``: nobody would answer there."""
    if _pid != owner:
        raise RuntimeError(
            f"{caller} called in process {_pid}, which was forked inside a turn of process {owner} and is no part of "
            "it\n\nhint: call hitl before the fork or after it, and let the other process return what it found out"
        )


def end_in_fork(owner: int, error: BaseException | None = None) -> None:
    """End a process that was forked inside the turn of process ``owner`` and is through with what it did there, by
    ``error`` or without one: in the parent's code it would go on with the turn, as a second one that is at work on it.
    """
    if _pid == owner:
        return
    try:
        if error is not None and not isinstance(error, SystemExit):
            report_error(error)
        elif error is None:
            _report_return()
    finally:
        _exit(error.code if isinstance(error, SystemExit) else 1)


def end_on_loop() -> NoReturn:
    """The same for one that was forked on an event loop and comes back to that."""
    try:
        _report_return()
    finally:
        _exit(1)


def _report_return() -> None:
    report(
        f"hitl: process {_pid} was forked inside a turn and came back to it; it is ended, and the turn goes on in the "
        "other\n\nhint: end such a process where its work ends: os._exit(0)\n"
    )


def _exit(code: object) -> NoReturn:
    """As ``sys.exit`` would, without what runs at an exit: that is the parent's."""
    try:
        if code is not None and not isinstance(code, int):
            report(f"{code}\n")
            code = 1
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError, AttributeError):  # the reader is gone, or the agent has closed or replaced it
        pass
    finally:
        os._exit(code if isinstance(code, int) else 0)
