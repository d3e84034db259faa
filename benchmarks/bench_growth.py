"""How hitl's costs grow: with what waits, with what works at once, with the journal and with the payload.

    python -m benchmarks.bench_growth --short    # a minute or two
    python -m benchmarks.bench_growth            # up to 1,000,000 paused sessions: some minutes, 3 GB of disk

The sessions that wait are made by a server and then multiplied in SQL, because a million over HTTP would take an hour;
the server under measurement does not know the difference. Task isolation, unless a series says otherwise: what the
store costs shows best where the turn costs least. Linux only.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.bench_scale import multiply, p50_ms
from benchmarks.bench_server import ask, timed, turns_at_once
from benchmarks.plot import Curve
from benchmarks.report import Cell, Goal, Report, Table
from benchmarks.served import Http, Served

TITLE = "Growth"

AGENT = "question_or_trivial"
WARM_UP = 10
SMALL = 1_000
"""Where the growth that has a goal begins, if it was measured."""
GROWTH = 1.5
STARTED = 2.0
"""Seconds in which a server has done what it does at a start."""


@dataclass(frozen=True)
class Size:
    """Which points, and how much is measured at each."""

    paused: tuple[int, ...]
    sessions: tuple[int, ...]
    steps: tuple[int, ...]
    payload: tuple[int, ...]
    samples: int
    seconds: float
    idle_seconds: float


FULL = Size(
    paused=(10, SMALL, 100_000, 1_000_000),
    sessions=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    steps=(10, 30, 100, 300, 1_000, 2_000),
    payload=(100, 400, 1_600, 6_400, 16_384),
    samples=200,
    seconds=5,
    idle_seconds=20,
)
SHORT = Size(
    paused=(10, SMALL, 20_000),
    sessions=(1, 8, 64),
    steps=(10, 100, 500),
    payload=(100, 1_600, 16_384),
    samples=50,
    seconds=2,
    idle_seconds=5,
)
SMOKE = Size(
    paused=(10, 50), sessions=(1, 2), steps=(2, 4), payload=(100, 200), samples=3, seconds=0.2, idle_seconds=0.1
)


@dataclass
class Paused:
    """What was measured with that many paused sessions; times in milliseconds."""

    count: int
    start: float
    turn: float
    answer: float
    answer_cpu: float
    page: float
    idle: float
    """Share of a core."""
    memory: int
    """Bytes, the server with its workers."""

    def row(self) -> list[Cell]:
        """One line of the table."""
        times = (self.start, self.turn, self.answer, self.answer_cpu, self.page)
        return [f"{self.count:,}", *times, 100 * self.idle, self.memory / 2**20]


def measure_paused(directory: Path, count: int, size: Size) -> Paused:
    """On a store with that many parked sessions."""
    store = directory / f"paused-{count}.db"
    with Served(AGENT, store, "task") as server:
        ask(server.connect(), server.connect().new_session())
    multiply(store, count)  # a server that stops parks what waits, and only that is multiplied
    with Served(AGENT, store, "task") as server:
        time.sleep(STARTED)
        before = server.cpu_seconds()
        time.sleep(size.idle_seconds)
        idle = (server.cpu_seconds() - before) / size.idle_seconds
        client = server.connect()
        samples = min(size.samples, max(count - WARM_UP, count // 2))
        page = p50_ms(lambda: client.call("GET", "/interrupts?status=pending&limit=100"), size.samples)
        waiting = client.pages("/interrupts?status=pending&limit=1000", 20)
        chosen = random.sample(waiting, min(samples + WARM_UP, len(waiting)))
        for item in chosen[samples:]:
            _answer(client, item["session_id"], item["interrupt_id"])
        before = server.cpu_seconds()
        answers = [
            timed(lambda item=item: _answer(client, item["session_id"], item["interrupt_id"]))
            for item in chosen[:samples]
        ]
        answer_cpu = (server.cpu_seconds() - before) / samples
        return Paused(
            count,
            1000 * server.seconds_to_health,
            _trivial_turn(client, size.samples),
            1000 * statistics.median(answers),
            1000 * answer_cpu,
            page,
            idle,
            server.memory(),
        )


def _answer(client: Http, session_id: str, interrupt_id: str) -> None:
    client.resume(session_id, interrupt_id)
    client.settle(session_id, "idle")


def _trivial_turn(client: Http, samples: int) -> float:
    session_id = client.new_session()

    def turn() -> None:
        client.send(session_id, "trivial")
        client.settle(session_id, "idle")

    for _ in range(WARM_UP):
        turn()
    return p50_ms(turn, samples)


def measure_sessions(directory: Path, size: Size) -> dict[str, list[tuple[float, float]]]:
    """Trivial turns in a second, by sessions at once."""
    series: dict[str, list[tuple[float, float]]] = {}
    for name, isolation, in_memory in (
        ("process", "process", False),
        ("task", "task", False),
        ("task, memory store", "task", True),
    ):
        store = directory / f"{name}.db"
        with Served("trivial", store, isolation, address="memory" if in_memory else None) as server:
            turns_at_once(server, 4, 0.5)
            series[name] = [(float(count), turns_at_once(server, count, size.seconds)[1]) for count in size.sessions]
    return series


def measure_steps(directory: Path, size: Size) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of a turn of so many steps to its question, and from the answer to its end, by a replay."""
    runs, replays = [], []
    with Served("long_journal", directory / "steps.db", "task", "--park-after", "0") as server:
        client = server.connect()
        session_id = client.new_session()
        for count in (size.steps[0], *size.steps):  # the first is a warm-up
            asked, answered = [], []
            for _ in range(max(3, min(20, 2_000 // count))):
                started = time.perf_counter()
                client.send(session_id, str(count))
                interrupt_id = client.settle(session_id, "interrupted")["interrupts"][0]["interrupt_id"]
                asked.append(time.perf_counter() - started)
                server.wait_until_parked(60)
                answered.append(timed(lambda held=interrupt_id: _answer(client, session_id, held)))
            runs.append((float(count), 1000 * statistics.median(asked)))
            replays.append((float(count), 1000 * statistics.median(answered)))
    return {"message -> question": runs[1:], "answer -> idle, parked": replays[1:]}


def measure_payload(directory: Path, size: Size) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds from the message to the question, and of reading it, by the bytes of its payload."""
    asks, reads = [], []
    with Served("large_payload", directory / "payload.db", "task") as server:
        client = server.connect()
        session_id = client.new_session()
        for count in (size.payload[0], *size.payload):  # the first is a warm-up
            asked, read = [], []
            for _ in range(max(5, size.samples // 4)):
                started = time.perf_counter()
                client.send(session_id, str(count))
                interrupt_id = client.settle(session_id, "interrupted")["interrupts"][0]["interrupt_id"]
                asked.append(time.perf_counter() - started)
                read.append(timed(lambda held=interrupt_id: client.call("GET", f"/interrupts/{held}")))
                _answer(client, session_id, interrupt_id)
            asks.append((float(count), 1000 * statistics.median(asked)))
            reads.append((float(count), 1000 * statistics.median(read)))
    return {"message -> question": asks[1:], "GET /interrupts/ID": reads[1:]}


def measure(size: Size) -> tuple[list[Paused], list[Curve]]:
    """Everything here."""
    random.seed(1)
    paused: list[Paused] = []
    for count in size.paused:
        _say(f"growth: {count:,} paused sessions")
        with tempfile.TemporaryDirectory(dir=machine.scratch(), prefix="growth-") as name:
            paused.append(measure_paused(Path(name), count, size))
    points = {
        "trivial turn": [(float(each.count), each.turn) for each in paused],
        "answer -> idle": [(float(each.count), each.answer) for each in paused],
        "CPU of an answer": [(float(each.count), each.answer_cpu) for each in paused],
        "page of 100": [(float(each.count), each.page) for each in paused],
        "start": [(float(each.count), each.start) for each in paused],
    }
    with tempfile.TemporaryDirectory(dir=machine.scratch(), prefix="growth-") as name:
        directory = Path(name)
        _say("growth: sessions at once, steps, payload")
        return paused, [
            Curve("paused", "With paused sessions: p50", "paused sessions", "ms", points),
            Curve("sessions", "Sessions at once", "sessions", "turns/s", measure_sessions(directory, size)),
            Curve("steps", "Length of the journal: p50", "steps", "ms", measure_steps(directory, size)),
            Curve("payload", "Size of the payload: p50", "bytes", "ms", measure_payload(directory, size)),
        ]


def table(paused: list[Paused]) -> Table:
    """The first curve in figures."""
    head = ["paused sessions", "start, ms", "trivial turn p50, ms", "answer -> idle p50, ms", "CPU of it, ms"]
    head += ["page of 100 p50, ms", "idle, % of a core", "memory, MiB"]
    notes = "Parked, task isolation; memory is PSS of the server with its workers."
    return Table("Growth with what waits", head, [each.row() for each in paused], notes)


def tables_of(curves: list[Curve]) -> list[Table]:
    """The others."""
    listed = []
    for curve in curves:
        if curve.name == "paused":
            continue
        across = sorted({x for series in curve.series.values() for x, _ in series})
        rows: list[list[Cell]] = [
            [f"{x:,.0f}", *(dict(series).get(x) for series in curve.series.values())] for x in across
        ]
        listed.append(Table(curve.title, [curve.x, *(f"{name}, {curve.y}" for name in curve.series)], rows))
    return listed


def goals(paused: list[Paused]) -> list[Goal]:
    """What must not grow."""
    small = next((each for each in paused if each.count == SMALL), paused[0])
    large = paused[-1]
    grown = f"{small.count:,} to {large.count:,} paused"
    return [
        Goal(f"{grown}: answer -> idle p50 grows", GROWTH, "times", large.answer / small.answer),
        Goal(f"{grown}: CPU of an answer grows", GROWTH, "times", large.answer_cpu / max(small.answer_cpu, 1e-9)),
        Goal(f"{grown}: a page grows", GROWTH, "times", large.page / small.page),
        Goal(f"idle with {large.count:,} paused", 1, "% of a core", 100 * large.idle),
    ]


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="fewer points, up to 20,000 paused sessions")
    options = parser.parse_args()
    machine.refuse_debug_build()
    described = machine.describe()
    paused, curves = measure(SHORT if options.short else FULL)
    machine.end(described)
    print(Report(machine.in_words(described), TITLE, [table(paused), *tables_of(curves)], goals(paused)).text())


if __name__ == "__main__":
    main()
