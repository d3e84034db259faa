"""Records a run of a generated agent, cuts its journal anywhere, and runs the agent again from what is left.

The rule that is checked: up to the cut the second run sees what the first one saw, in the same order, entry by entry;
no step that has a result runs again; and it goes on to its end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hitl.errors import InterruptExpired
from hitl.journal.ports import InterruptRequest
from hitl.turn.order import Order
from tests.python.replay.agents import Agent, Trace
from tests.python.replay.programs import Node, children
from tests.python.support.local import Journal, LocalTurn

# A turn needs milliseconds. Only one that hangs comes to these, however busy the machine is.
_SECONDS = 120.0
_PAUSE_SECONDS = 60.0
_DELIVERED = "delivered"
_RETURNED = "returned"


@dataclass
class Run:
    """What came of running a program once."""

    journal: Journal
    trace: Trace
    """What the agent saw; between its notes, ``["delivered", entry]`` where it was told an entry of the journal."""
    bodies: list[str]
    """Paths of the steps whose body ran."""
    replayed: Trace | None = None
    """The trace at the moment in which the journal was at its end; None in a first run."""
    error: BaseException | None = None
    warnings: list[str] = field(default_factory=list)


async def run(program: Node, luck: random.Random, journal: Journal | None = None) -> Run:
    """Run a program on this loop: from its beginning, or again from a journal. ``luck`` draws latencies and answers."""
    agent = Agent(luck)
    turns: list[LocalTurn] = []  # from a journal it asks while it is made

    def waits() -> int:
        return turns[0].port.waits if turns else 0

    local = LocalTurn(lambda request: _answer(request, luck, waits), journal=journal)
    turns.append(local)
    result = Run(local.port.journal, agent.trace, agent.bodies)
    _note_deliveries(local.turn.order, agent.trace)
    replayed = local.port.replayed

    def stands() -> None:
        if journal is not None and result.replayed is None:
            result.replayed = {scope: list(notes) for scope, notes in agent.trace.items()}

    def went_live(warnings: list[str]) -> None:
        stands()
        result.warnings = warnings
        replayed(warnings)

    local.port.replayed = went_live  # type: ignore[method-assign]

    async def main() -> None:
        try:
            await (agent.run_sync_agent if program[0] == "sync tool" else agent.run)(program)
        except asyncio.CancelledError:
            if local.turn.closed:
                raise
            # Before Python 3.13 a TaskGroup that fails inside a task that is being cancelled loses count, and a timeout
            # around it ends in this.
            agent.trace[""].append(["cancelled"])
        agent.trace[""].append([_RETURNED])
        stands()  # what it was told last made it return

    try:
        async with asyncio.timeout(_SECONDS):
            await local.run(main)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test names program and cut with it
        result.error = error
    try:
        await local.end()
    except TimeoutError as hanging:
        result.error = result.error or hanging
    return result


def _answer(request: InterruptRequest, luck: random.Random, waits: Callable[[], int]) -> Any:
    kind, _, number = request["type"].partition(" ")
    if kind == "unknown_outcome":
        return {"outcome": "not_done"} if luck.random() < 0.5 else {"outcome": "done", "result": "as a person says"}
    if kind == "at":
        return number
    if kind == "paused":
        return _answer_in_pause(waits, waits(), number)
    return _late_answer(kind, number, luck.random())


async def _late_answer(kind: str, number: str, luck: float) -> Any:
    await asyncio.sleep({"soon": 0.002, "late": 0.006, "expires": 0.004}[kind] * luck)
    if kind == "expires":
        raise InterruptExpired
    return number


async def _answer_in_pause(waits: Callable[[], int], before: int, number: str) -> Any:
    """Once the turn has said that it waits."""
    for _ in range(int(_PAUSE_SECONDS / 0.002)):
        if waits() > before:
            return number
        await asyncio.sleep(0.002)
    raise AssertionError(f"the turn does not pause at question {number}")


def _note_deliveries(order: Order, trace: Trace) -> None:
    """Note in the trace where the turn was told an entry. One that nobody waits for any more does not count."""
    tell = order.tell

    def told(delivery: Any) -> None:
        path = delivery.tell.args[0]
        if path in order._expected or path in order.timers:
            trace.setdefault(path.rpartition("/")[0], []).append([_DELIVERED, delivery.entry])
        tell(delivery)

    order.tell = told  # type: ignore[method-assign]


def finished(journal: Journal) -> set[str]:
    """Paths of the steps that have a result."""
    return {entry["step"]["path"] for entry in journal if entry["entry"] == "step"}


def difference(first: Run, cut: int, second: Run, *, is_loose: bool = False) -> str | None:
    """What the second run, made from the first one's journal up to ``cut``, did otherwise; None when nothing.

    ``is_loose``: a thread or raw I/O moves the agent too, and may not have done so when its journal ends.
    """
    if second.error is not None:
        return f"{type(second.error).__name__}: {second.error}"
    if second.replayed is None:
        return "the journal was never told to its end"
    over = finished(first.journal[:cut])
    again = [path for path in second.bodies if path in over]
    if again:
        return f"finished steps ran again: {again}"
    paths = [entry["step"]["path"] for entry in second.journal if entry["entry"] == "step"]
    if len(set(paths)) != len(paths):
        return "a step has two results in the journal"
    for scope, notes in second.replayed.items():
        if _is_over(scope, over):
            return f"the body of {scope} has run, which was over, or is inside a step that was"
        recorded = first.trace.get(scope, [])
        if notes != recorded[: len(notes)]:
            return _first_difference(scope, recorded, notes)
    return None if is_loose else _left_out(first, cut, second.replayed[""])


def _left_out(first: Run, cut: int, notes: list[Any]) -> str | None:
    """What comes next in the first run has to follow from a later entry, or nothing comes."""
    following = first.trace[""][len(notes) : len(notes) + 1]
    if not following or _RETURNED in (following[0][0], notes[-1][0]):
        return None
    if following[0][0] == _DELIVERED and following[0][1] >= cut:
        return None
    return f"the replay ended before {following[0]}"


def is_loose(program: Node) -> bool:
    """Whether more than the journal moves this agent itself."""
    return program[0] == "sync tool" or _has_raw_io(program)


def _has_raw_io(node: Node) -> bool:
    return node[0] in ("socket", "executor", "idle", "reader") or any(map(_has_raw_io, children(node)))


def _is_over(scope: str, over: set[str]) -> bool:
    while scope:
        if scope in over:
            return True
        scope = scope.rpartition("/")[0]
    return False


def _first_difference(scope: str, recorded: list[Any], notes: list[Any]) -> str:
    place = next(
        (index for index, (one, other) in enumerate(zip(recorded, notes, strict=False)) if one != other), len(recorded)
    )
    around = slice(max(0, place - 2), place + 3)
    return f"in {scope or 'the turn'}, note {place}: recorded {recorded[around]}, replayed {notes[around]}"


# -- many at once ------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What came of many agents."""

    agents: int = 0
    replays: int = 0
    entries: int = 0
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The first problems, for people."""
        shown = "\n\n".join(self.problems[:5])
        return f"{len(self.problems)} of {self.replays} replays:\n\n{shown}"

    def add(self, other: Report) -> None:
        """Count another's in."""
        self.agents += other.agents
        self.replays += other.replays
        self.entries += other.entries
        self.problems += other.problems


async def record_and_replay(seed: int, program: Node) -> Report:
    """Record a program, then crash it after each entry; all those replays run on this loop at once."""
    first = await run(program, random.Random(f"{seed} first"))
    report = Report(agents=1, entries=len(first.journal))
    if first.error is not None:
        report.problems.append(f"seed {seed} cannot be recorded: {type(first.error).__name__}: {first.error}")
        return report
    report.add(await replay(seed, program, first, range(2, len(first.journal) + 1)))
    # A run that went on from a crash crashes again: its journal was written by two runs.
    cut = random.Random(f"{seed} cut").randint(1, len(first.journal))
    second = await run(program, random.Random(f"{seed} second"), first.journal[:cut])
    if second.error is None:
        cuts = {len(second.journal), random.Random(f"{seed} again").randint(cut, len(second.journal))}
        report.add(await replay(seed, program, second, cuts - {1}, "second crash, "))
    return report


async def replay(seed: int, program: Node, first: Run, cuts: Iterable[int], which: str = "") -> Report:
    """Run a program again from its journal, cut off at each of ``cuts``; at once."""

    async def one(cut: int) -> str | None:
        second = await run(program, random.Random(f"{seed} {cut}"), first.journal[:cut])
        return difference(first, cut, second, is_loose=is_loose(program))

    cuts = list(cuts)
    found = await asyncio.gather(*map(one, cuts))
    problems = [
        f"seed {seed}, {which}cut at {cut} of {len(first.journal)}: {problem}"
        for cut, problem in zip(cuts, found, strict=True)
        if problem is not None
    ]
    return Report(replays=len(cuts), problems=problems)


async def together(work: Iterable[Awaitable[Report]], at_once: int = 8) -> Report:
    """Do the work, so much of it at a time."""
    report = Report()
    gate = asyncio.Semaphore(at_once)

    async def one(item: Awaitable[Report]) -> None:
        async with gate:
            report.add(await item)

    await asyncio.gather(*map(one, work))
    return report
