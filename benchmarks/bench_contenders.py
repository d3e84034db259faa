"""The same job by everybody, side by side.

    python -m benchmarks.bench_contenders                          # all of them, some minutes
    python -m benchmarks.bench_contenders --only "hitl; forkserver"   # those whose name or module contains one of these

The job: a message, one journaled step, a question, the wait for a person, the answer, one more step, done. Each round
starts every contender fresh, in turn, and every other round in the opposite order: A B C, C B A. Ratios are taken
within a round, so that what else the machine does hits both sides alike. A measurement during which the host or other
processes took more than a tenth of the CPU is left out and made again; where that does not help either, there are no
figures. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks import machine
from benchmarks.contenders.table import CONTENDERS, DBOS_ON_POSTGRES, ON_POSTGRES, REFERENCE, Entry
from benchmarks.environments import interpreter
from benchmarks.processes import children, family, family_cpu, family_memory, kill_left, own_cpu, started_at
from benchmarks.report import Cell, Goal, Report, Table, middle, percentiles

TITLE = "The common job"

SETTLED = 0.02
"""How much memory may still change within a second to count as at rest."""
TO_SETTLE = 15
"""Seconds after which it is taken as it is."""

TO_END = 30.0
"""Seconds a contender has to end by itself; what is left then is killed."""


@dataclass(frozen=True)
class Size:
    """How much is measured. Seconds are of each load of each contender in a round."""

    rounds: int
    pairs: int
    seconds_one: float
    seconds_many: float
    clients: int = 32
    paused: float = 1.0
    """Of the sessions that the table says."""
    noise: float = 0.1
    """The part of the CPU that others may take during a measurement that counts, 0 to 1."""


SHORT = Size(rounds=2, pairs=150, seconds_one=4, seconds_many=4, paused=0.5)
FULL = Size(rounds=7, pairs=300, seconds_one=4, seconds_many=4)
SMOKE = Size(rounds=1, pairs=3, seconds_one=0.2, seconds_many=0.2, clients=4, paused=0, noise=1.0)
TRIES = 4
"""How often one contender is measured in a round, until others leave it the machine."""


class TooNoisyError(Exception):
    """Others took too much of the machine for a figure."""


ANSWER_HEAD = ("answer -> done p50, ms", "p95", "p99", "CPU a pair, ms", "client's, ms")
ONE_HEAD = ("contender", "message -> paused p50, ms", *ANSWER_HEAD)
MANY_HEAD = ("contender", "pairs/s", *ANSWER_HEAD, "memory a paused session, KiB", "disk, KiB")


class Running:
    """A contender at work, until the end of the `with` block."""

    def __init__(self, entry: Entry, environments: Path, directory: Path, arguments: Sequence[str]) -> None:
        command = [interpreter(entry.environment, environments), "-m", f"benchmarks.contenders.{entry.module}"]
        self.directory = directory
        self._name = entry.name
        self._log = (directory.parent / f"{directory.name}.log").open("w+")
        # Sockets are made there, whose paths must be short.
        self._temporary = tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [*command, str(directory), *arguments],
            cwd=machine.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "TMPDIR": self._temporary.name},
        )
        self.told = self._reply()

    def do(self, what: str, **members: Any) -> dict[str, Any]:
        """Let it do that: its reply, with the `cpu` seconds that the contender took for it, and its `client_cpu`."""
        before, client_before = self._cpu()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **members}) + "\n")
        self._process.stdin.flush()
        reply = self._reply()
        after, client_after = self._cpu()
        return {**reply, "cpu": after - before, "client_cpu": client_after - client_before}

    def memory(self) -> int:
        """Bytes that it holds (PSS, all its processes, not its client's), once that has come to rest."""
        now = self._memory()
        for _ in range(TO_SETTLE):
            time.sleep(1)
            before, now = now, self._memory()
            if abs(now - before) <= SETTLED * before:
                break
        return now

    def disk(self) -> int:
        """Bytes of its files."""
        held = 0
        for folder, _, names in os.walk(self.directory):
            for name in names:
                try:
                    held += Path(folder, name).stat().st_size
                except FileNotFoundError:
                    continue  # a journal or a log that has gone since it was listed
        return held

    def _memory(self) -> int:
        everybody = family_memory(self._process.pid)
        return everybody if self.told["in_process"] else sum(map(family_memory, children(self._process.pid)))

    def _cpu(self) -> tuple[float, float]:
        everybody = family_cpu(self._process.pid)
        client = 0.0 if self.told["in_process"] else own_cpu(self._process.pid)
        return everybody - client, client

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"{self._name} failed:\n{self._log.read()[-4000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        everybody = {pid: started_at(pid) for pid in family(self._process.pid)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        kill_left(everybody)
        self._temporary.cleanup()
        self._process.stdout.close()
        self._log.close()


def measure_round(entry: Entry, environments: Path, directory: Path, size: Size) -> dict[str, Any]:
    """One contender in one round: the job by one client, then by many."""
    with Running(entry, environments, directory, entry.arguments) as running:
        before = machine.ticks()
        warm_one = running.do("one", pairs=max(3, size.pairs // 10), seconds=size.seconds_one / 4)
        one = running.do("one", pairs=size.pairs, seconds=size.seconds_one)
        warm_many = running.do("many", clients=size.clients, seconds=size.seconds_many / 8)
        many = running.do("many", clients=size.clients, seconds=size.seconds_many)
        own = sum(load["cpu"] + load["client_cpu"] for load in (warm_one, one, warm_many, many))
        taken = machine.taken_by_others(before, machine.ticks(), own)
        return {**running.told, "one": _summary(one), "many": _summary(many), "taken_by_others": taken}


def measure_quietly(
    entry: Entry, environments: Path, scratch: Path, size: Size, left_out: list[float]
) -> dict[str, Any]:
    """`measure_round`, when others leave it the machine. What they took of it otherwise is added to `left_out`.

    Raises:
        TooNoisyError: They did not, after so many tries.
    """
    for _ in range(TRIES):
        with _fresh(scratch) as directory:
            measured = measure_round(entry, environments, directory, size)
        if measured["taken_by_others"] <= size.noise:
            return measured
        left_out.append(measured["taken_by_others"])
        _say(f"left out: others took {100 * left_out[-1]:.0f} % of the CPU")
    raise TooNoisyError(
        f"no figures: while {entry.title} was measured, others took more than {100 * size.noise:g} % of the CPU "
        f"{TRIES} times one after the other; hint: end what else runs, or wait for a quieter hour of the host"
    )


def _summary(load: dict[str, Any]) -> dict[str, Any]:
    pairs = len(load["answer"])
    return {
        "pairs": pairs,
        "ask_ms": percentiles(load["ask"]),
        "answer_ms": percentiles(load["answer"]),
        "pairs_per_second": pairs / load["seconds"],
        "cpu_ms": 1e3 * load["cpu"] / pairs,
        "client_cpu_ms": 1e3 * load["client_cpu"] / pairs,
    }


def measure_paused(entry: Entry, environments: Path, directory: Path, size: Size) -> dict[str, Any]:
    """What each session that waits for a person holds."""
    sessions, clients = max(4, int(entry.paused * size.paused)), entry.clients_paused
    arguments = entry.arguments if entry.arguments_paused is None else entry.arguments_paused
    with Running(entry, environments, directory, arguments) as running:
        # As many are paused before: caches and arenas fill up once, and would count as the sessions'.
        running.do("pause", sessions=sessions, clients=clients)
        running.do("settle")
        memory, disk = running.memory(), running.disk()
        running.do("pause", sessions=sessions, clients=clients)
        running.do("settle")
        return {
            "settings": running.told["settings"],
            "sessions": sessions,
            "memory_each": max(0, running.memory() - memory) / sessions,
            "memory_without": memory,
            "disk_each": max(0, running.disk() - disk) / sessions,
        }


def compare(entries: Sequence[Entry], environments: Path, scratch: Path, size: Size) -> dict[str, Any]:
    """Everything that was measured, by the title of the entry: `rounds`, in order, `left_out` and `paused`.

    Raises:
        TooNoisyError: Others took too much of the machine.
    """
    for entry in entries:
        interpreter(entry.environment, environments)
    measured: dict[str, Any] = {
        entry.title: {"name": entry.name, "form": entry.form, "rounds": [], "left_out": [], "paused": None}
        for entry in entries
    }
    for number in range(size.rounds):
        for entry in entries if number % 2 == 0 else reversed(entries):
            _say(f"round {number + 1} of {size.rounds}: {entry.title}")
            contender = measured[entry.title]
            contender["rounds"].append(measure_quietly(entry, environments, scratch, size, contender["left_out"]))
    for entry in entries:
        if entry.paused:
            _say(f"paused sessions: {entry.title}")
            with _fresh(scratch) as directory:
                measured[entry.title]["paused"] = measure_paused(entry, environments, directory, size)
    return measured


@contextmanager
def _fresh(scratch: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as name:
        directory = Path(name) / "kept"
        directory.mkdir()
        yield directory


def best(measured: dict[str, Any], load: str) -> dict[str, Any]:
    """Each contender by its name, in the form that is the best under that load: the quickest answer to one client, the
    most pairs a second of many. What a paused session holds is of the form that it was counted in."""
    chosen: dict[str, Any] = {}
    for contender in measured.values():
        name = contender["name"]
        if name not in chosen or _rank(contender, load) > _rank(chosen[name], load):
            chosen[name] = contender
    counted = {each["name"]: each["paused"] for each in measured.values() if each["paused"] is not None}
    return {name: {**contender, "paused": counted[name]} for name, contender in chosen.items()}


def _rank(contender: dict[str, Any], load: str) -> float:
    if load == "one":
        return -(figure(contender, load, "answer_ms", "p50") or 0.0)
    return figure(contender, load, "pairs_per_second") or 0.0


def figure(contender: dict[str, Any], load: str, *keys: str) -> float | None:
    """The median over the rounds."""
    return middle(_at(each[load], keys) for each in contender["rounds"])


def ratios(theirs: dict[str, Any], ours: dict[str, Any], load: str, *keys: str) -> list[float]:
    """A contender's figure by ours, in each round."""
    both = zip(theirs["rounds"], ours["rounds"], strict=True)
    return [_at(their[load], keys) / _at(our[load], keys) for their, our in both if _at(our[load], keys) > 0]


def _at(members: dict[str, Any], keys: Sequence[str]) -> float:
    found: Any = members
    for key in keys:
        found = found[key]
    return float(found)


def is_ours(name: str) -> bool:
    """Whether it is one of hitl's own ways."""
    return name.startswith("hitl")


def tables(measured: dict[str, Any], size: Size) -> list[Table]:
    """For people."""
    alone, together = best(measured, "one"), best(measured, "many")
    one: list[list[Cell]] = []
    many: list[list[Cell]] = []
    for name, contender in alone.items():
        row: list[Cell] = [_titled(contender)]
        row += [figure(contender, "one", "ask_ms", "p50")]
        row += [figure(contender, "one", "answer_ms", part) for part in ("p50", "p95", "p99")]
        one.append([*row, figure(contender, "one", "cpu_ms"), figure(contender, "one", "client_cpu_ms")])
        loaded = together[name]
        paused = loaded["paused"]
        row = [_titled(loaded), figure(loaded, "many", "pairs_per_second")]
        row += [figure(loaded, "many", "answer_ms", part) for part in ("p50", "p95", "p99")]
        row += [figure(loaded, "many", "cpu_ms"), figure(loaded, "many", "client_cpu_ms")]
        many.append([*row, paused["memory_each"] / 1024, paused["disk_each"] / 1024])
    settings = "; ".join(
        f"{title}: {contender['rounds'][0]['settings']}"
        + (f" (paused sessions: {contender['paused']['settings']})" if _differs(contender) else "")
        for title, contender in measured.items()
    )
    cpu_is = "CPU is of the contender's processes; its client's is beside it, and in process both are one."
    listed = [
        Table("The common job, one client", [*ONE_HEAD], one, f"{cpu_is} {_noise(measured, size)}"),
        Table(f"The common job, {size.clients} clients", [*MANY_HEAD], many, f"Settings. {settings}."),
    ]
    if len(alone) < len(measured):
        listed.append(_forms(measured))
    listed += _beside(REFERENCE, alone, together, [name for name in alone if name != REFERENCE])
    return listed + _beside(ON_POSTGRES, alone, together, [name for name in alone if name == DBOS_ON_POSTGRES])


def _beside(reference: str, alone: dict[str, Any], together: dict[str, Any], names: Sequence[str]) -> list[Table]:
    """Those contenders' figures by the reference's; nothing where either is missing."""
    if reference not in alone or not names:
        return []
    rows: list[list[Cell]] = []
    for name in names:
        answers = ratios(alone[name], alone[reference], "one", "answer_ms", "p50")
        pairs = ratios(together[name], together[reference], "many", "pairs_per_second")
        cpu = ratios(together[name], together[reference], "many", "cpu_ms")
        rows.append([name, *map(_spread, (answers, pairs, cpu))])
    notes = f"The contender's figure by that of {reference}: median of the rounds, least and greatest in brackets."
    return [Table(f"Beside {reference}", ["contender", "answer -> done p50", "pairs/s", "CPU a pair"], rows, notes)]


def _titled(contender: dict[str, Any]) -> str:
    return f"{contender['name']}, {contender['form']}" if contender["form"] else str(contender["name"])


def _forms(measured: dict[str, Any]) -> Table:
    """Every form of the contenders that have several."""
    names = [contender["name"] for contender in measured.values()]
    rows: list[list[Cell]] = [
        [
            title,
            figure(contender, "one", "answer_ms", "p50"),
            figure(contender, "one", "cpu_ms"),
            figure(contender, "many", "pairs_per_second"),
            figure(contender, "many", "cpu_ms"),
        ]
        for title, contender in measured.items()
        if names.count(contender["name"]) > 1
    ]
    head = ["form", "one client: answer -> done p50, ms", "CPU a pair, ms", "many: pairs/s", "CPU a pair, ms"]
    return Table("Forms", head, rows, "The tables above have, of each contender, the form that is the best there.")


def _noise(measured: dict[str, Any], size: Size) -> str:
    rounds = [each["taken_by_others"] for contender in measured.values() for each in contender["rounds"]]
    left_out = sum(len(contender["left_out"]) for contender in measured.values())
    return (
        f"Rounds: {size.rounds}. Others, the host among them, took {100 * max(rounds):.1f} % of the CPU during a "
        f"measurement that counts at the most, {100 * (middle(rounds) or 0):.1f} % in the median; {left_out} of "
        f"{len(rounds) + left_out} measurements were left out and made again, for more than {100 * size.noise:g} %."
    )


def _differs(contender: dict[str, Any]) -> bool:
    paused = contender["paused"]
    return paused is not None and bool(paused["settings"] != contender["rounds"][0]["settings"])


def _spread(values: list[float]) -> str:
    found = middle(values)
    return "" if found is None else f"{found:.2f} ({min(values):.2f} to {max(values):.2f})"


def goals(measured: dict[str, Any]) -> list[Goal]:
    """Those of the common job."""
    listed = []
    alone, together = best(measured, "one"), best(measured, "many")
    for isolation, limit in (("process", 150), ("task", 700)):
        contender = together.get(f"hitl, {isolation}", {"rounds": []})
        found = figure(contender, "many", "pairs_per_second")
        listed.append(Goal(f"pause + resume, 32 clients, {isolation}", limit, "pairs/s", found, at_least=True))
    listed += _goals_on_postgres(alone, together)
    if REFERENCE not in alone:
        return listed
    ours = together[REFERENCE]
    for name, contender in together.items():
        if is_ours(name):
            continue
        slower = middle(ratios(alone[name], alone[REFERENCE], "one", "answer_ms", "p50"))
        fewer = middle(1 / ratio for ratio in ratios(contender, ours, "many", "pairs_per_second"))
        costlier = middle(ratios(contender, ours, "many", "cpu_ms"))
        listed += [
            Goal(f"{name}: answer -> done p50, times ours", 5, "", slower, at_least=True),
            Goal(f"{name}: our pairs/s, times theirs", 5, "", fewer, at_least=True),
            Goal(f"{name}: CPU a pair, times ours", 5, "", costlier, at_least=True),
            Goal(
                f"{name}: our memory a paused session, below theirs",
                contender["paused"]["memory_each"] / 1024,
                "KiB",
                ours["paused"]["memory_each"] / 1024,
            ),
        ]
    return listed


def _goals_on_postgres(alone: dict[str, Any], together: dict[str, Any]) -> list[Goal]:
    """By itself, and beside the other one that writes to PostgreSQL."""
    if ON_POSTGRES not in alone:
        return []
    one, many = alone[ON_POSTGRES], together[ON_POSTGRES]
    listed = [
        Goal(f"{ON_POSTGRES}: answer -> done p50", 3.5, "ms", figure(one, "one", "answer_ms", "p50")),
        Goal(f"{ON_POSTGRES}: CPU a pair, one client", 5.5, "ms", figure(one, "one", "cpu_ms")),
        Goal(f"{ON_POSTGRES}: pairs/s, 32 clients", 250, "", figure(many, "many", "pairs_per_second"), at_least=True),
    ]
    if DBOS_ON_POSTGRES in alone:
        theirs, loaded, beside = alone[DBOS_ON_POSTGRES], together[DBOS_ON_POSTGRES], f"of {DBOS_ON_POSTGRES}"
        answers = middle(ratios(one, theirs, "one", "answer_ms", "p50"))
        pairs = middle(ratios(many, loaded, "many", "pairs_per_second"))
        cpu = middle(ratios(many, loaded, "many", "cpu_ms"))
        listed += [
            Goal(f"{ON_POSTGRES}: answer -> done p50, {beside}", 0.5, "times", answers),
            Goal(f"{ON_POSTGRES}: pairs/s, 32 clients, {beside}", 3, "times", pairs, at_least=True),
            Goal(f"{ON_POSTGRES}: CPU a pair, 32 clients, {beside}", 0.4, "times", cpu),
        ]
    return listed


def chosen(only: str | None) -> list[Entry]:
    """The contenders whose name or module contains one of the words; SystemExit where a word fits none."""
    words = [] if only is None else [word.strip().lower() for word in only.split(";")]
    for word in words:
        if not any(word in f"{entry.title} {entry.module}".lower() for entry in CONTENDERS):
            raise SystemExit(f"no contender is called {word!r}; there are: {'; '.join(e.name for e in CONTENDERS)}")
    return [
        entry
        for entry in CONTENDERS
        if not words or any(word in f"{entry.title} {entry.module}".lower() for word in words)
    ]


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="more rounds, longer ones")
    parser.add_argument("--only", help="contenders, by parts of their names, with semicolons between")
    parser.add_argument("--environments", type=Path, default=machine.ROOT / ".contenders", help="where they live")
    options = parser.parse_args()
    size = FULL if options.full else SHORT
    machine.refuse_debug_build()
    described = machine.describe()
    with tempfile.TemporaryDirectory(dir=machine.scratch()) as name:
        try:
            measured = compare(chosen(options.only), options.environments, Path(name), size)
        except TooNoisyError as noisy:
            raise SystemExit(str(noisy)) from noisy
    machine.end(described)
    print(Report(machine.in_words(described), TITLE, tables(measured, size), goals(measured)).text())


if __name__ == "__main__":
    main()
