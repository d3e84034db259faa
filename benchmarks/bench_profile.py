"""Where the CPU of a turn goes: the operating system's accounts of every part of a server, for each turn.

    python -m benchmarks.bench_profile [--seconds 5]

A part is a thread of the server, by its job, or a process: the zygote, a pool's worker, or all workers of one turn each
together, which are in the zygote's accounts once they have ended. Faults are pages that a process touched first or had
to copy (`minflt`, proc(5)): after a fork that is what a process a turn pays for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.bench_server import SESSIONS, ask, turns_at_once
from benchmarks.processes import Cost, children, family, of_ended_children, of_threads
from benchmarks.report import Report, Table
from benchmarks.served import Served

TITLE = "Where the CPU of a turn goes"

THREADS = {
    "hitl-store-writ": "store: writer",
    "hitl-store-read": "store: readers",
    "hitl-store-chec": "store: checkpoints",
}
"""Threads by their names, which the system cuts at 15 characters; every other is of the runtime."""
RUNTIME = "HTTP, engine, sockets"


@dataclass(frozen=True)
class Load:
    """What is profiled: `turns` runs turns for so many seconds, and says how many."""

    name: str
    agent: str
    isolation: str
    turns: Callable[[Served, float], int]


def one_by_one(server: Served, seconds: float) -> int:
    """Trivial turns of one session."""
    client = server.connect()
    session_id, until, turns = client.new_session(), time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        client.send(session_id)
        client.settle(session_id, "idle")
        turns += 1
    return turns


def at_once(server: Served, seconds: float) -> int:
    """Trivial turns of many sessions."""
    return len(turns_at_once(server, SESSIONS, seconds, lead=0)[0])


def with_a_question(server: Served, seconds: float) -> int:
    """A step, a question, a step, of one session."""
    client = server.connect()
    session_id, until, turns = client.new_session(), time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        client.resume(session_id, ask(client, session_id))
        client.settle(session_id, "idle")
        turns += 1
    return turns


LOADS = (
    Load("trivial turn, task", "trivial", "task", one_by_one),
    Load(f"trivial turn, task, {SESSIONS} sessions", "trivial", "task", at_once),
    Load("step, question, step, task", "pair", "task", with_a_question),
    Load("trivial turn, process", "trivial", "process", one_by_one),
)


def accounts(server: Served) -> dict[str, Cost]:
    """What every part has cost so far."""
    parts: dict[str, Cost] = {}

    def add(part: str, cost: Cost) -> None:
        parts[part] = parts.get(part, Cost()) + cost

    for name, cost in of_threads(server.pid).items():
        add(THREADS.get(name, RUNTIME), cost)
    for zygote in children(server.pid):
        add("zygote", sum(of_threads(zygote).values(), Cost()))
        add("workers", of_ended_children(zygote))
        for worker in family(zygote)[1:]:
            add("workers", sum(of_threads(worker).values(), of_ended_children(worker)))
    return parts


def profile(load: Load, directory: Path, seconds: float) -> list[list[str | float | None]]:
    """Rows of the table: milliseconds and faults of every part, for each turn."""
    with Served(load.agent, directory / "profile.db", load.isolation) as server:
        load.turns(server, min(1.0, seconds))
        before = accounts(server)
        turns = load.turns(server, seconds)
        after = accounts(server)
    each = {part: (cost - before.get(part, Cost())).divided(turns) for part, cost in sorted(after.items())}
    each["together"] = sum(each.values(), Cost())
    return [[load.name, part, 1e3 * cost.user, 1e3 * cost.system, cost.faults] for part, cost in each.items()]


def measure(seconds: float) -> Table:
    """Every load, on a server of its own."""
    rows: list[list[str | float | None]] = []
    for load in LOADS:
        print(f"{time.strftime('%H:%M:%S')} profile: {load.name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=machine.scratch(), prefix="bench-") as name:
            rows += profile(load, Path(name), seconds)
    head = ["load", "part", "program, ms", "kernel, ms", "pages touched first or copied"]
    return Table(TITLE, head, rows, "For one turn, by the accounts of the operating system.")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each load")
    options = parser.parse_args()
    machine.refuse_debug_build()
    described = machine.describe()
    table = measure(options.seconds)
    machine.end(described)
    print(Report(machine.in_words(described), TITLE, [table]).text())


if __name__ == "__main__":
    main()
