"""``hitl.run_sync``: the same for programs without an event loop."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from typing import Any

from hitl.holding import DEFAULT_HOLD
from hitl.runs.results import RunResult
from hitl.runs.running import Input, run
from hitl.runs.stores import Store
from hitl.runs.turns import Formatter

_local = threading.local()


class _Runner:
    """One loop per thread, so that clients which an agent keeps open work in the next call too.

    Closed when its thread or the program ends: at the program's exit, where code still runs as it should, and not when
    the interpreter takes its objects apart.
    """

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.loop = self.runner.get_loop()
        self.loop.shutdown_default_executor = _leave_executor  # type: ignore[method-assign]  # a runner always waits
        weakref.finalize(self, _close, self.runner, self.loop)


async def _leave_executor(timeout: float | None = None) -> None:
    """Closing the loop tells the threads of its executor to end. To wait for that as well takes one more thread, and an
    interpreter that exits starts none."""


def _close(runner: asyncio.Runner, loop: asyncio.AbstractEventLoop) -> None:
    # One that runs is a daemon thread's, which ends with the program wherever it is.
    if not loop.is_running():
        runner.close()


def run_sync(
    agent: Any,
    input: Input,
    *,
    context: Any = None,
    store: Store | str | os.PathLike[str] | None = None,
    session: str | None = None,
    tool_error_formatter: Formatter | None = None,
    hold: float = DEFAULT_HOLD,
    replay_timeout: float = 0.0,
) -> RunResult:
    """``hitl.run`` that blocks. RuntimeError where an event loop runs: ``await hitl.run(...)`` there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("hitl.run_sync() would block the event loop; use: await hitl.run(...)")
    coroutine = run(
        agent,
        input,
        context=context,
        store=store,
        session=session,
        tool_error_formatter=tool_error_formatter,
        hold=hold,
        replay_timeout=replay_timeout,
    )
    result: RunResult = blocking_loop().run(coroutine)
    return result


def blocking_loop() -> asyncio.Runner:
    """The runner of this thread's loop, which stays open between calls."""
    kept: _Runner | None = getattr(_local, "runner", None)
    if kept is None or kept.loop.is_closed():
        kept = _local.runner = _Runner()
    return kept.runner
