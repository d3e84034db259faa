"""The body of a forked worker process."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, Literal, NoReturn

from hitl.driver import output
from hitl.driver.shapes import as_agent
from hitl.worker import isolation, loops
from hitl.worker.protocol import Worker

_EXIT_OK = 0
_EXIT_BROKEN = 70
"""EX_SOFTWARE of sysexits.h: the worker itself failed, or the server broke the protocol."""


def run_child(
    channel_fd: int,
    agent: Any,
    mode: Literal["turn", "pool"] | str,
    version: str = "",
    loop: loops.WorkerLoop | None = None,
    mark_open: Callable[[bool], None] | None = None,
) -> NoReturn:
    """Serve turns over ``channel_fd`` and exit; never returns.

    ``mode`` is ``"turn"`` (one turn, then exit) or ``"pool"`` (many, as tasks, until the server says shutdown).
    ``agent`` is what ``load_agent`` returned, or any accepted agent; ``version`` is its code version. ``loop`` is an
    unopened one, where it was made before the fork. ``mark_open``: see ``hitl.worker.open_marks``. Standard output and
    error are the caller's to arrange; in a pool, what turns print goes to the server with the turn's id.

    The process ends by ``os._exit``: a thread that an agent left blocked, and exit handlers that belong to the process
    this one was forked from, have no say.
    """
    try:
        # A terminal sends Ctrl-C to every process in the foreground; the server decides what it means for a turn. A
        # handler, not SIG_IGN, because programs that a tool starts would inherit that.
        isolation.handle_signal(signal.SIGINT, lambda _signal, _frame: None)
        if mode not in ("turn", "pool"):
            raise ValueError(f"mode must be 'turn' or 'pool', got {mode!r}")
        if mode == "pool":
            output.install()
        if loop is None:
            loop = loops.WorkerLoop()
        loop.open()
        loops.run(loop, _serve(channel_fd, agent, version, mark_open, single=mode == "turn"))
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on in its parent's code
        traceback.print_exc()
    finally:
        _exit(_EXIT_BROKEN)


async def _serve(
    channel_fd: int, agent: Any, version: str, mark_open: Callable[[bool], None] | None, *, single: bool
) -> NoReturn:
    worker = Worker(as_agent(agent), single=single, code=version, on_lost=_lost, mark_open=mark_open)
    await worker.serve(channel_fd)
    _exit(_EXIT_OK)  # from here: what ends a loop in good order would be for nobody


def _lost(error: Exception | None) -> None:
    """The server is gone, or has given our turns to somebody else: not one more side effect."""
    try:
        # A server that goes while something is unread resets the channel; one that could not start says why itself.
        if error is not None and not isinstance(error, ConnectionError):
            sys.stderr.write(f"hitl worker: {type(error).__name__}: {error}\n")
    finally:  # who read that may be gone as well
        _exit(_EXIT_OK if error is None else _EXIT_BROKEN)


def _exit(code: int) -> NoReturn:
    isolation.flush_output()
    os._exit(code)
