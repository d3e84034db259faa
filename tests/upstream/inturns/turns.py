"""One run of a test in a turn, from its begin or from the journal of an earlier run."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Prefix:
    """What stands in a journal up to some place, and what was answered after that."""

    journal: Journal
    answers: dict[str, Any]
    """By id, those to the questions that are open there."""


def prefix_of(journal: Journal, cut: int) -> Prefix:
    """The begin of a journal: that many entries."""
    given = {each["interrupt_id"]: each["value"] for each in journal[cut:] if each["entry"] == "answer"}
    begin = json.loads(json.dumps(journal[:cut]))
    asked = {each["interrupt_id"] for each in begin if each["entry"] == "ask"}
    return Prefix(begin, {id_: value for id_, value in given.items() if id_ in asked})


def run(
    test: Callable[..., Any], arguments: dict[str, Any], answers: Callable[[Any], Any], prefix: Prefix | None
) -> Journal:
    """Run a test in a turn. Its journal, whatever came of the test; what that raises is raised."""
    loop = loops.new_loop()
    asyncio.set_event_loop(loop)
    entries: Journal = []
    at_once.clear()
    try:
        loop.run_until_complete(_run(test, arguments, answers, prefix, entries))
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
at_once: set[str] = set()
"""Questions of the last run, by id, that a rule or code has answered as they were asked: nobody finds these open."""


async def _run(
    test: Callable[..., Any],
    arguments: dict[str, Any],
    answers: Callable[[Any], Any],
    prefix: Prefix | None,
    entries: Journal,
) -> None:
    # Without answers at first: of what is open there the person has yet to say what was said.
    turn = local.LocalTurn(agent="upstream", journal=prefix and prefix.journal)
    port = turn.port
    port.answers, port.decide_at_once = answers, _noting(port)
    if prefix is not None:
        port.on_waiting = lambda: _answer_open(port, prefix.answers)

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


def _noting(port: Any) -> Callable[[Any], Any]:
    """Rules as there are, of which it is noted what they have answered."""

    def decide(request: Any) -> Any:
        value = local.without_rules(request)
        if value is not local.PENDING:
            at_once.add(f"interrupt-{len(port.journal)}")
        return value

    return decide


def _answer_open(port: Any, answers: dict[str, Any]) -> None:
    """Say what was said to what is open, now that the turn waits for that."""
    for asked in port.interrupts:
        if asked.id in answers:
            asked.give(answers[asked.id])


def cuts(journal: Journal, limit: int | None) -> list[int]:
    """Where to cut the journal of the last run: at `limit` places spread over it, its end among them, or at all; never
    between a question and the answer that was written with it."""
    possible = [cut for cut in range(1, len(journal) + 1) if not _splits(journal, cut)]
    if limit is None or len(possible) <= limit:
        return possible
    last = len(possible) - 1
    return sorted({possible[round(index * last / (limit - 1))] for index in range(limit)})


def _splits(journal: Journal, cut: int) -> bool:
    last = journal[cut - 1]
    return last["entry"] == "ask" and last["interrupt_id"] in at_once
