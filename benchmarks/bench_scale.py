"""Many people asked at once: what waiting costs, and that nobody is lost.

    python -m benchmarks.bench_scale                      # 10,000 sessions, then 1,000,000 parked ones (some minutes)
    python -m benchmarks.bench_scale --pause 500 --park 20000     # a quick look

The sessions of the first part are told to pause through HTTP, by clients that honour 503 and Retry-After, under the
default flags. The store of the second part is made by the first one's server and then multiplied in SQL, because a
million sessions over HTTP would take an hour; the server under measurement does not know the difference. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sqlite3
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.bench_server import timed
from benchmarks.served import Busy, Http, Served

CLIENTS = 16
SAMPLES = 200
MEBIBYTE = 1024 * 1024


class Report:
    """Prints one line for each figure, with its goal."""

    def __init__(self) -> None:
        print("| what | figure | goal |")
        print("|---|---|---|")

    def __call__(self, what: str, figure: float, unit: str, goal: float | None = None) -> None:
        told = "" if goal is None else f"{goal:g} {unit}"
        print(f"| {what} | {figure:,.4g} {unit} | {told} |", flush=True)


def p50_ms(work: Callable[[], object], times: int) -> float:
    return 1000 * statistics.median(timed(work) for _ in range(times))


def in_threads(count: int, work: Callable[[Iterator[int]], None], amount: int) -> None:
    """`count` threads that share the numbers below `amount`; what one raises is raised."""
    numbers = iter(range(amount))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def shared() -> Iterator[int]:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None or failures:
                return
            yield number

    def run() -> None:
        try:
            work(shared())
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def patiently(work: Callable[[], object]) -> int:
    """Do it, again after `Retry-After` as long as the server is full: how often it was."""
    refusals = 0
    while True:
        try:
            work()
        except Busy as busy:
            refusals += 1
            time.sleep(busy.retry_after)
        else:
            return refusals


def pause_many(server: Served, count: int) -> tuple[float, int]:
    """Seconds until `count` sessions are interrupted, and how often a client was told to come back."""
    refused = [0]

    def clients(numbers: Iterator[int]) -> None:
        client = server.connect()
        for _ in numbers:
            session_id = client.new_session()
            refused[0] += patiently(lambda session_id=session_id: client.send(session_id))

    started = time.perf_counter()
    in_threads(CLIENTS, clients, count)
    client = server.connect()
    while client.count("interrupted") < count:
        time.sleep(0.2)
    return time.perf_counter() - started, refused[0]


def trivial_turn_p50(client: Http) -> float:
    session_id = client.new_session()

    def turn() -> None:
        client.call("POST", f"/sessions/{session_id}/messages", {"content": "trivial"})
        client.settle(session_id, "idle")

    for _ in range(20):
        turn()
    return p50_ms(turn, SAMPLES)


def answer_p50(client: Http, interrupts: list[tuple[str, str]]) -> float:
    def answer() -> None:
        session_id, interrupt_id = interrupts.pop()
        client.resume(session_id, interrupt_id)
        client.settle(session_id, "idle")

    return p50_ms(answer, min(SAMPLES, len(interrupts)))


def part_paused(report: Report, directory: Path, count: int) -> Path:
    """Ten thousand people asked at once."""
    store = directory / "paused.db"
    with Served("question_or_trivial", store, "process") as server:
        usual = trivial_turn_p50(server.connect())
        report("trivial turn, nobody asked: p50", usual, "ms")
        seconds, refused = pause_many(server, count)
        report(f"{count:,} sessions told to pause -> all interrupted", seconds, "s")
        report("  of their messages refused with 503 and sent again", refused, "times")
        report("trivial turn, all of them paused: p50", trivial_turn_p50(server.connect()), "ms", 2 * usual)
        started = time.perf_counter()
        while server.processes() > server.idle_processes + 1:
            time.sleep(0.5)
        report("  later, until all are parked", time.perf_counter() - started, "s")
        report("server, zygote and idle workers, all parked: resident", server.memory() / MEBIBYTE, "MiB", 150)
        report("trivial turn, all of them parked: p50", trivial_turn_p50(server.connect()), "ms", 2 * usual)
        server.kill()
    with Served("question_or_trivial", store, "process") as server:
        report(f"SIGKILL with {count:,} paused -> ready", server.seconds_to_health, "s", 2)
        client = server.connect()
        report("  sessions lost", count - client.count("interrupted"), "", 0)
        waiting = client.pages("/interrupts?status=pending&limit=1000", 5)
        report(
            "  answer of a random one -> idle: p50",
            answer_p50(
                client,
                [
                    (item["session_id"], item["interrupt_id"])
                    for item in random.sample(waiting, min(SAMPLES, len(waiting) // 2))
                ],
            ),
            "ms",
        )
    return store


def multiply(store: Path, target: int) -> float:
    """Fill the store up to `target` parked sessions, copies of one of its own: bytes of disk that each added."""
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA cache_size = -400000")
        have = connection.execute("SELECT count(*) FROM turns WHERE parked = 1 AND ended_at IS NULL").fetchone()[0]
        template = connection.execute(
            "SELECT s.seq, t.seq, i.seq FROM turns t"
            " JOIN sessions s ON s.turn = t.id JOIN interrupts i ON i.turn = t.id"
            " WHERE t.parked = 1 AND t.ended_at IS NULL LIMIT 1"
        ).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = store.stat().st_size
        copier = Copier(connection, *template)
        connection.execute("BEGIN")
        for number in range(target - have):
            copier.copy(number)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return (store.stat().st_size - before) / max(1, target - have)


class Copier:
    """Copies one parked session with all its rows under new ids."""

    def __init__(self, connection: sqlite3.Connection, session: int, turn: int, interrupt: int) -> None:
        self._connection = connection
        self._rows = {
            "sessions": self._read("sessions", "seq = ?", session),
            "turns": self._read("turns", "seq = ?", turn),
            "journal": self._read("journal", "turn = ?", turn),
            "interrupts": self._read("interrupts", "seq = ?", interrupt),
            "messages": self._read("messages", "session = ?", session),
        }
        session_id = self._rows["sessions"][0]["id"]
        self._rows["events"] = self._read("events", "session = ?", session_id)
        self._old = {"session": session_id, "turn": self._rows["turns"][0]["id"]}
        self._old["interrupt"] = self._rows["interrupts"][0]["id"]
        self._next = {
            table: connection.execute(f"SELECT max({key}) FROM {table}").fetchone()[0] + 1
            for table, key in (("sessions", "seq"), ("turns", "seq"), ("interrupts", "seq"), ("events", "number"))
        }

    def _read(self, table: str, where: str, value: object) -> list[dict[str, object]]:
        cursor = self._connection.execute(f"SELECT * FROM {table} WHERE {where}", (value,))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def copy(self, number: int) -> None:
        new = {kind: uuid.UUID(int=random.getrandbits(128), version=4) for kind in self._old}
        ids = {self._old[kind]: new[kind].bytes for kind in self._old}
        interrupt_text = str(uuid.UUID(bytes=self._old["interrupt"]))
        sequence = {table: self._next[table] + number for table in ("sessions", "turns", "interrupts")}
        for table, rows in self._rows.items():
            for index, row in enumerate(rows):
                copied = {
                    name: ids.get(value, value) if isinstance(value, bytes) else value for name, value in row.items()
                }
                if table in sequence:
                    copied["seq"] = sequence[table]
                if table in ("turns", "interrupts", "messages"):
                    copied["session"] = sequence["sessions"]
                if table == "journal":
                    copied["turn"] = sequence["turns"]
                    copied["entry"] = str(row["entry"]).replace(interrupt_text, str(new["interrupt"]))
                if table == "events":
                    copied["number"] = self._next["events"] + number * len(rows) + index
                marks = ", ".join("?" * len(copied))
                self._connection.execute(
                    f"INSERT INTO {table} ({', '.join(copied)}) VALUES ({marks})", tuple(copied.values())
                )


def part_parked(report: Report, store: Path, count: int) -> None:
    """A million people asked some time ago."""
    per_session = multiply(store, count)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        payload = connection.execute(
            "SELECT length(i.payload) + length(t.message) FROM interrupts i JOIN turns t ON t.id = i.turn"
            " WHERE i.status = 'pending' LIMIT 1"
        ).fetchone()[0]
    report(f"{count:,} parked sessions: disk for each, payload aside", per_session - payload, "B", 1536)
    with Served("question_or_trivial", store, "process") as server:
        report("start -> ready", server.seconds_to_health, "s", 1)
        client = server.connect()
        report("server resident after the start", server.own_memory() / MEBIBYTE, "MiB", 150)
        report(
            "/interrupts, first page of 100: p50", p50_ms(lambda: client.call("GET", "/interrupts"), SAMPLES), "ms", 5
        )
        waiting = client.pages("/interrupts?status=pending&limit=1000", 20)
        chosen = [
            (item["session_id"], item["interrupt_id"])
            for item in random.sample(waiting, min(SAMPLES, len(waiting) // 2))
        ]
        report("answer of a random one -> idle: p50", answer_p50(client, chosen), "ms", 15)
        report("trivial turn: p50", trivial_turn_p50(client), "ms")
        report("server resident after that", server.own_memory() / MEBIBYTE, "MiB", 150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pause", type=int, default=10_000, help="sessions that pause through HTTP")
    parser.add_argument(
        "--park", type=int, default=1_000_000, help="parked sessions of the second part; 0 leaves it out"
    )
    options = parser.parse_args()
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="hitl-scale-") as directory:
        report = Report()
        store = part_paused(report, Path(directory), options.pause)
        if options.park:
            part_parked(report, store, options.park)


if __name__ == "__main__":
    main()
