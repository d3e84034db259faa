"""What a turn costs, seen from outside: SQLite store with FULL sync, release build, server as `hitl serve` starts it.

    python -m benchmarks.bench_server                        # some minutes
    python -m benchmarks.bench_server --runs 1 --turns 50    # a quick look

Every figure is the median over `--runs` runs, each on a fresh server and store, of that run's percentile. Linux only:
CPU time is read from /proc.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import machine
from benchmarks.agents import TIME_TO_CONNECT
from benchmarks.contenders.connections import Requests, drive_all
from benchmarks.report import Cell, Goal, Report, Table, middle, percentiles
from benchmarks.served import ROOT, Http, Served

TITLE = "A server by itself"

WARM_UP = 20
SESSIONS = 32
ISOLATIONS = ("process", "task")
PARTS = ("p50", "p95", "p99")


@dataclass
class Figure:
    """One line of the table; times in milliseconds, one entry for each run."""

    name: str
    times: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})
    cpu: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)

    def add(self, seconds: list[float]) -> None:
        """The times of one run."""
        for part, milliseconds in percentiles([1000 * each for each in seconds]).items():
            self.times[part].append(milliseconds)

    def median(self, what: str) -> float | None:
        """Of the runs: a percentile, `cpu` or `per_second`; None where it was not measured."""
        return middle({"cpu": self.cpu, "per_second": self.per_second, **self.times}[what])

    def row(self) -> list[Cell]:
        """Its line."""
        return [self.name, *(self.median(what) for what in (*PARTS, "cpu", "per_second"))]


class Figures:
    """The table, in the order in which things were measured first."""

    def __init__(self) -> None:
        self._figures: dict[str, Figure] = {}

    def __call__(self, name: str) -> Figure:
        return self._figures.setdefault(name, Figure(name))

    def table(self) -> Table:
        """All of them."""
        head = ["what", "p50, ms", "p95, ms", "p99, ms", "CPU, ms", "per second"]
        rows = [figure.row() for figure in self._figures.values()]
        return Table(TITLE, head, rows, "CPU is of the server and its workers, for one turn.")

    def goals(self) -> list[Goal]:
        """Those of turns and of answers."""
        listed = [
            Goal(f"{name}: {LABELS[what]}", limit, UNITS.get(what, "ms"), self._median(name, what), at_least)
            for name, what, limit, at_least in GOALS
        ]
        answer, disk = self._median("answer -> acknowledged, task", "p50"), self._median("append + fsync", "p50")
        limit = 0.0 if disk is None else 3 * disk + 1
        if answer is not None:
            listed.append(Goal("durable answer, acknowledged: 3 fsyncs and 1 ms", limit, "ms", answer))
        # That is not for a client in Python to measure: benches/http.rs does.
        listed.append(Goal("GET session, of what an empty route answers (make bench-layers)", 60, "%", None, True))
        return listed

    def data(self) -> dict[str, dict[str, list[float]]]:
        """Every run's figures, by name."""
        return {
            name: {**figure.times, "cpu_ms": figure.cpu, "per_second": figure.per_second}
            for name, figure in self._figures.items()
        }

    def _median(self, name: str, what: str) -> float | None:
        figure = self._figures.get(name)
        return None if figure is None else figure.median(what)


LABELS = {"p50": "p50", "p99": "p99", "cpu": "CPU", "per_second": "rate"}
UNITS = {"per_second": "turns/s"}
GOALS = [
    ("trivial turn, process", "p50", 4, False),
    ("trivial turn, process", "p99", 12, False),
    ("trivial turn, task", "p50", 1.5, False),
    ("trivial turn, task", "p99", 6, False),
    ("answer -> idle, warm, process", "p50", 1.5, False),
    ("answer -> idle, warm, process", "p99", 8, False),
    ("answer -> idle, warm, task", "p50", 1.5, False),
    ("answer -> idle, warm, task", "p99", 8, False),
    ("answer -> idle, parked, task", "p50", 3, False),
    ("answer -> idle, parked, task", "p99", 15, False),
    ("answer -> idle, parked, process", "p50", 6, False),
    ("answer -> idle, parked, process", "p99", 25, False),
    (f"trivial turns, {SESSIONS} sessions, process", "per_second", 200, True),
    (f"trivial turns, {SESSIONS} sessions, task", "per_second", 1500, True),
    (f"trivial turns, {SESSIONS} sessions, task, memory store", "per_second", 3000, True),
    ("trivial turn, process", "cpu", 6, False),
    ("trivial turn, task", "cpu", 0.7, False),
]


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure_import(figures: Figures, times: int) -> None:
    code = "import time; t = time.perf_counter(); import hitl; print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT) for _ in range(times)
    ]
    figures("import hitl").add([float(run.stdout) for run in runs])


def measure_start(figures: Figures, directory: Path, times: int) -> None:
    def start(number: int) -> float:
        with Served("trivial", directory / f"start-{number}.db", "process") as server:
            return server.seconds_to_health

    figures("start -> /health").add([start(number) for number in range(times)])


def measure_trivial_turns(figures: Figures, directory: Path, isolation: str, turns: int) -> None:
    with Served("trivial", directory / "trivial.db", isolation) as server:
        client = server.connect()
        session_id = client.new_session()

        def turn() -> None:
            client.send(session_id)
            client.settle(session_id, "idle")

        for _ in range(WARM_UP):
            turn()
        before = server.cpu_seconds()
        seconds = [timed(turn) for _ in range(turns)]
        figure = figures(f"trivial turn, {isolation}")
        figure.add(seconds)
        figure.cpu.append(1000 * (server.cpu_seconds() - before) / turns)
        figure.per_second.append(turns / sum(seconds))


def ask(client: Http, session_id: str) -> str:
    """A message, until its question is there: the interrupt's id."""
    client.send(session_id)
    interrupts = client.settle(session_id, "interrupted")["interrupts"]
    interrupt_id: str = interrupts[0]["interrupt_id"]
    return interrupt_id


def measure_answers(figures: Figures, directory: Path, isolation: str, turns: int) -> None:
    """A step, a question, a step, while the turn is in memory."""
    with Served("pair", directory / "warm.db", isolation) as server:
        client = server.connect()
        session_id = client.new_session()
        asked, acknowledged, ended, before = [], [], [], 0.0
        for number in range(WARM_UP + turns):
            if number == WARM_UP:
                before = server.cpu_seconds()
            started = time.perf_counter()
            interrupt_id = ask(client, session_id)
            waiting = time.perf_counter()
            client.resume(session_id, interrupt_id)
            told = time.perf_counter()
            client.settle(session_id, "idle")
            asked.append(waiting - started)
            acknowledged.append(told - waiting)
            ended.append(time.perf_counter() - waiting)
        figures(f"message -> interrupted, {isolation}").add(asked[WARM_UP:])
        figures(f"answer -> acknowledged, {isolation}").add(acknowledged[WARM_UP:])
        figure = figures(f"answer -> idle, warm, {isolation}")
        figure.add(ended[WARM_UP:])
        figure.cpu.append(1000 * (server.cpu_seconds() - before) / turns)


def measure_parked_answers(figures: Figures, directory: Path, isolation: str, turns: int) -> None:
    """The same, after the turn has left memory (`--park-after 0`): the answer goes through a replay."""
    with Served("pair", directory / "parked.db", isolation, "--park-after", "0") as server:
        client = server.connect()
        sessions = [client.new_session() for _ in range(WARM_UP + turns)]
        asked = [(session_id, ask(client, session_id)) for session_id in sessions]
        server.wait_until_parked(60)
        before = server.cpu_seconds()
        ended = []
        for session_id, interrupt_id in asked:
            started = time.perf_counter()
            client.resume(session_id, interrupt_id)
            client.settle(session_id, "idle")
            ended.append(time.perf_counter() - started)
        figure = figures(f"answer -> idle, parked, {isolation}")
        figure.add(ended[WARM_UP:])
        figure.cpu.append(1000 * (server.cpu_seconds() - before) / len(asked))


def turns_at_once(
    server: Served, sessions: int, seconds: float, lead: float | None = None
) -> tuple[list[float], float]:
    """Trivial turns of that many sessions at once: seconds of each, and turns in a second. Counted are those that begin
    after `lead` seconds, a quarter of `seconds` unless told, and at most one."""
    took: list[float] = []

    def client(count_from: float, until: float) -> Requests[None]:
        session_id = (yield "POST", "/sessions", {})["session_id"]
        # Until one counts, at least: on a busy machine a short measurement may be over before.
        while (started := time.perf_counter()) < until or not took:
            yield "POST", f"/sessions/{session_id}/messages", {"content": "trivial"}
            ended = yield "GET", f"/sessions/{session_id}?wait=true", None
            if ended["status"] != "idle":
                raise RuntimeError(f"the session is {ended['status']}: {ended['error']}")
            if started >= count_from:
                took.append(time.perf_counter() - started)

    count_from = time.perf_counter() + (min(1.0, seconds / 4) if lead is None else lead)
    drive_all(server.url, [client(count_from, count_from + seconds) for _ in range(sessions)])
    return took, len(took) / (time.perf_counter() - count_from)


def measure_turns_at_once(figures: Figures, directory: Path, isolation: str, seconds: float, in_memory: bool) -> None:
    name = f"trivial turns, {SESSIONS} sessions, {isolation}" + (", memory store" if in_memory else "")
    with Served("trivial", directory / "many.db", isolation, address="memory" if in_memory else None) as server:
        turns_at_once(server, SESSIONS, min(1.0, seconds))
        before = server.cpu_seconds()
        took, per_second = turns_at_once(server, SESSIONS, seconds)
        figure = figures(name)
        figure.add(took)
        figure.cpu.append(1000 * (server.cpu_seconds() - before) / len(took))
        figure.per_second.append(per_second)


def measure_wake_ups(figures: Figures, directory: Path, isolation: str, turns: int) -> None:
    """From the agent's own word that it asks, or is done, to the end of a long poll that waited for it. The commit
    of the question, or of the turn's end, lies between."""
    with Served("clocked", directory / "wake.db", isolation) as server:
        client = server.connect()
        session_id = client.new_session()
        on_question, on_end = [], []
        for _ in range(turns):
            client.send(session_id)
            interrupt = client.settle(session_id, "interrupted")["interrupts"][0]
            on_question.append((time.monotonic_ns() - interrupt["payload"]["asked_at"]) / 1e9)
            client.resume(session_id, interrupt["interrupt_id"])
            ended = client.settle(session_id, "idle")
            on_end.append((time.monotonic_ns() - int(ended["response"]["content"])) / 1e9)
        figures(f"{isolation}: agent asks -> poll answered").add(on_question)
        figures(f"{isolation}: agent returns -> poll answered").add(on_end)


def measure_poll(figures: Figures, directory: Path, isolation: str, turns: int) -> None:
    """From the acknowledgement of a cancel, before which it is committed, to the end of another client's long poll; 0
    where the poll was answered first."""
    with Served("hanging", directory / "poll.db", isolation) as server:
        waiter, client = server.connect(), server.connect()
        session_id = client.new_session()
        ends: list[float] = []

        def poll() -> None:
            waiter.settle(session_id, "error")
            ends.append(time.perf_counter())

        waited = []
        for _ in range(turns):
            client.send(session_id)
            polling = threading.Thread(target=poll)
            polling.start()
            time.sleep(TIME_TO_CONNECT)
            client.call("POST", f"/sessions/{session_id}/cancel")
            acknowledged = time.perf_counter()
            polling.join()
            waited.append(max(0.0, ends[-1] - acknowledged))
        figures(f"poll wake-up, {isolation}: committed -> poll answered").add(waited)


def measure_disk(figures: Figures, directory: Path) -> None:
    """The floor under every durable answer on this disk."""
    for part, milliseconds in machine.fsync_ms(directory).items():
        figures("append + fsync").times[part].append(milliseconds)


def measure(runs: int, turns: int, seconds: float) -> Figures:
    """Everything here; `seconds` are of each load of many sessions."""
    figures = Figures()
    for run in range(runs):
        print(f"{time.strftime('%H:%M:%S')} a server by itself, run {run + 1} of {runs}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=machine.scratch(), prefix="bench-") as name:
            directory = Path(name)
            measure_disk(figures, directory)
            measure_import(figures, times=max(1, min(5, turns // 20)))
            measure_start(figures, directory, times=max(1, min(3, turns // 30)))
            for isolation in ISOLATIONS:
                inner = directory / isolation
                inner.mkdir()
                measure_trivial_turns(figures, inner, isolation, turns)
                measure_answers(figures, inner, isolation, turns)
                measure_parked_answers(figures, inner, isolation, turns)
                measure_turns_at_once(figures, inner, isolation, seconds, in_memory=False)
                measure_wake_ups(figures, inner, isolation, max(5, turns // 8))
                measure_poll(figures, inner, isolation, max(5, turns // 8))
            measure_turns_at_once(figures, directory, "task", seconds, in_memory=True)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="runs, each on a fresh server and store")
    parser.add_argument("--turns", type=int, default=200, help="turns in each run")
    parser.add_argument("--seconds", type=float, default=5, help="of each load of many sessions")
    options = parser.parse_args()
    machine.refuse_debug_build()
    described = machine.describe()
    figures = measure(options.runs, options.turns, options.seconds)
    machine.end(described)
    print(Report(machine.in_words(described), TITLE, [figures.table()], figures.goals()).text())


if __name__ == "__main__":
    main()
