"""One run of a test in a turn, from its begin or from the journal of an earlier run."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hitl.turn.runtime import call_blocking
from hitl.worker import loops

# `tests` is the package of the suite that runs here, and not ours.
_LOCAL = Path(__file__).resolve().parents[2] / "python" / "support" / "local.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("inturns_local", _LOCAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["inturns_local"] = module
    spec.loader.exec_module(module)
    return module


local: Any = _load()

Journal = list[dict[str, Any]]

SECONDS = 100.0
"""What a test may take. Each needs milliseconds; only one that hangs comes to this, however busy the machine is."""


def run(
    test: Callable[..., Any], arguments: dict[str, Any], answers: Callable[[Any], Any], journal: Journal | None
) -> Journal:
    """Run a test in a turn. Its journal, whatever came of the test; what that raises is raised."""
    loop = loops.new_loop()
    asyncio.set_event_loop(loop)
    entries: Journal = []
    try:
        loop.run_until_complete(_run(test, arguments, answers, journal, entries))
    finally:
        recorded[:] = entries
        asyncio.set_event_loop(None)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    return entries


def run_alone(test: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Run a test without a turn; what it raises is raised."""
    if inspect.iscoroutinefunction(test):
        asyncio.run(test(**arguments))
    else:
        test(**arguments)


recorded: Journal = []
"""The journal of the last run, also where that has raised."""


async def _run(
    test: Callable[..., Any],
    arguments: dict[str, Any],
    answers: Callable[[Any], Any],
    journal: Journal | None,
    entries: Journal,
) -> None:
    turn = local.LocalTurn(answers, agent="upstream", journal=journal)

    async def main() -> None:
        if inspect.iscoroutinefunction(test):
            await test(**arguments)
        else:
            await call_blocking(turn.turn, lambda: test(**arguments))

    try:
        async with asyncio.timeout(SECONDS):
            await turn.run(main)
    finally:
        entries[:] = turn.port.journal
        await turn.end()


def cuts(journal: Journal, limit: int | None) -> list[int]:
    """Where to cut a journal: at `limit` places spread over it, its end among them, or at all; never between a question
    and the answer that was written with it."""
    possible = [cut for cut in range(1, len(journal) + 1) if not _splits(journal, cut)]
    if limit is None or len(possible) <= limit:
        return possible
    last = len(possible) - 1
    return sorted({possible[round(index * last / (limit - 1))] for index in range(limit)})


def _splits(journal: Journal, cut: int) -> bool:
    before, after = journal[cut - 1], journal[cut] if cut < len(journal) else {}
    return before["entry"] == "ask" and after.get("interrupt_id") == before["interrupt_id"]
