"""What a turn costs, seen from outside: SQLite store with FULL sync, release build, server as `hitl serve` starts it.

    make bench                                    # builds for speed, then measures
    python -m benchmarks --runs 3 --turns 50      # a quick look

Every figure is the median over `--runs` runs, each on a fresh server and store, of that run's percentile. Linux only:
CPU time is read from /proc.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.agents import TIME_TO_CONNECT
from benchmarks.served import ROOT, Http, Served

WARM_UP = 20
CLIENTS = 32
ISOLATIONS = ("process", "task")


@dataclass
class Figure:
    """One line of the table; times in milliseconds, one entry for each run."""

    name: str
    goal: float | None = None
    """The p50 it should not exceed."""
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)

    def add(self, seconds: list[float]) -> None:
        ordered = sorted(seconds)
        self.p50.append(1000 * statistics.median(ordered))
        self.p99.append(1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))])


class Figures:
    """The table, in the order in which things were measured first."""

    def __init__(self) -> None:
        self._figures: dict[str, Figure] = {}

    def __call__(self, name: str, goal: float | None = None) -> Figure:
        return self._figures.setdefault(name, Figure(name, goal))

    def print(self) -> None:
        print("| what | p50, ms | p99, ms | CPU, ms | per second | goal, p50 |")
        print("|---|---|---|---|---|---|")
        for figure in self._figures.values():
            columns = (figure.p50, figure.p99, figure.cpu, figure.per_second)
            cells = [f"{statistics.median(column):.4g}" if column else "" for column in columns]
            goal = "" if figure.goal is None else f"{figure.goal:g}"
            print(f"| {figure.name} | {' | '.join(cells)} | {goal} |")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure_import(figures: Figures, times: int) -> None:
    code = "import time; t = time.perf_counter(); import hitl; print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT) for _ in range(times)
    ]
    figures("import hitl", 100).add([float(run.stdout) for run in runs])


def measure_start(figures: Figures, directory: Path, times: int) -> None:
    def start(number: int) -> float:
        with Served("trivial", directory / f"start-{number}.db", "process") as server:
            return server.seconds_to_health

    figures("start -> /health", 1000).add([start(number) for number in range(times)])


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
        figure = figures(f"trivial turn, {isolation}: POST -> idle", 10 if isolation == "process" else 4)
        figure.add(seconds)
        figure.cpu.append(1000 * (server.cpu_seconds() - before) / turns)
        figure.per_second.append(turns / sum(seconds))


def ask_and_answer(client: Http, session_id: str) -> tuple[float, float]:
    """One turn of `pair`: seconds from the message to the question, and from the answer to the end."""

    def ask() -> None:
        client.send(session_id)
        interrupts.extend(client.settle(session_id, "interrupted")["interrupts"])

    def answer() -> None:
        client.resume(session_id, interrupts[0]["interrupt_id"])
        client.settle(session_id, "idle")

    interrupts: list[dict[str, str]] = []
    return timed(ask), timed(answer)


def measure_pairs(figures: Figures, directory: Path, isolation: str, turns: int) -> None:
    with Served("pair", directory / "pair.db", isolation) as server:
        client = server.connect()
        session_id = client.new_session()
        for _ in range(WARM_UP):
            ask_and_answer(client, session_id)
        before = server.cpu_seconds()
        pairs = [ask_and_answer(client, session_id) for _ in range(turns)]
        cpu = server.cpu_seconds() - before
        figures(f"step, question, step, {isolation}: POST -> interrupted").add([asked for asked, _ in pairs])
        answered = figures(f"step, question, step, {isolation}: answer -> idle", 5)
        answered.add([seconds for _, seconds in pairs])
        answered.cpu.append(1000 * cpu / turns)
        answered.per_second.append(turns / sum(map(sum, pairs)))


def measure_many_clients(figures: Figures, directory: Path, isolation: str, turns: int) -> None:
    """The same job from many clients at once, each with a session of its own."""
    with Served("pair", directory / "many.db", isolation) as server:
        each = max(2, turns // 4)
        results: list[tuple[float, float]] = []
        everybody = threading.Barrier(CLIENTS + 1)

        def be_a_client() -> None:
            client = server.connect()
            session_id = client.new_session()
            ask_and_answer(client, session_id)
            everybody.wait()
            results.extend([ask_and_answer(client, session_id) for _ in range(each)])

        threads = [threading.Thread(target=be_a_client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        everybody.wait()
        before, started = server.cpu_seconds(), time.perf_counter()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - started
        if len(results) != CLIENTS * each:
            raise RuntimeError("a client failed; what it raised is above")
        figure = figures(f"the same, {isolation}, {CLIENTS} clients: answer -> idle")
        figure.add([seconds for _, seconds in results])
        figure.cpu.append(1000 * (server.cpu_seconds() - before) / len(results))
        figure.per_second.append(len(results) / elapsed)


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
        figures(f"poll wake-up, {isolation}: committed -> poll answered", 2).add(waited)


def measure_disk(figures: Figures, directory: Path, times: int = 200) -> None:
    """The floor under every durable answer on this disk."""
    with (directory / "disk").open("wb", buffering=0) as file:

        def append() -> None:
            file.write(b"x" * 512)
            os.fsync(file.fileno())

        figures("append + fsync, nothing else").add([timed(append) for _ in range(times)])


def describe_machine() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    cores = len(os.sched_getaffinity(0))
    return (
        f"{names[0] if names else platform.machine()}, {cores} cores, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; load average {load}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="runs, each on a fresh server and store")
    parser.add_argument("--turns", type=int, default=200, help="turns in each run")
    parser.add_argument("--isolation", choices=ISOLATIONS, action="append", help="only this one")
    parser.add_argument("--debug-build", action="store_true", help="measure a debug build all the same")
    options = parser.parse_args()

    from hitl import _core

    if _core.DEBUG_BUILD and not options.debug_build:
        parser.error("the core is a debug build, several times slower; hint: `make bench` builds for speed")
    print(f"before: {describe_machine()}")
    figures = Figures()
    scratch = ROOT / "target"  # on the disk that the repository is on: /tmp is often none
    scratch.mkdir(exist_ok=True)
    for run in range(options.runs):
        print(f"run {run + 1} of {options.runs}", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="bench-") as name:
            directory = Path(name)
            measure_import(figures, times=10)
            measure_start(figures, directory, times=5)
            for isolation in options.isolation or ISOLATIONS:
                inner = directory / isolation
                inner.mkdir()
                measure_trivial_turns(figures, inner, isolation, options.turns)
                measure_pairs(figures, inner, isolation, options.turns)
                measure_many_clients(figures, inner, isolation, options.turns)
                measure_wake_ups(figures, inner, isolation, max(10, options.turns // 4))
                measure_poll(figures, inner, isolation, max(10, options.turns // 4))
            measure_disk(figures, directory)
    print(f"after:  {describe_machine()}\n")
    figures.print()


if __name__ == "__main__":
    main()
