"""``hitl.run_sync``: the same for programs without an event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from hitl.holding import DEFAULT_HOLD
from hitl.runs.results import RunResult
from hitl.runs.running import Input, run
from hitl.runs.stores import Store
from hitl.runs.turns import Formatter

_local = threading.local()


class _Runner:
    """One loop per thread, so that clients which an agent keeps open work in the next call too."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __del__(self) -> None:
        self.runner.close()


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
    if kept is None or kept.runner.get_loop().is_closed():
        kept = _local.runner = _Runner()
    return kept.runner
