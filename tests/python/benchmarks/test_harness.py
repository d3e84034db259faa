"""That the benchmarks work: what they measure is there and adds up. Never how fast anything is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import bench_adapters
from benchmarks.bench_contenders import Running
from benchmarks.contenders.table import CONTENDERS
from benchmarks.processes import family, started_at
from tests.python.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_INSTALLING = "hitl; forkserver"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.platform != "linux", reason="what processes cost is read from /proc"),
]


def run(out: Path, part: str, *arguments: str) -> dict[str, Any]:
    """The results of a small run of that part, as its JSON has them."""
    command = [sys.executable, "-m", "benchmarks", "--smoke", "--out", str(out), "--part", part, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "load average" in done.stdout
    results: dict[str, Any] = json.loads((out / part / "results.json").read_text())
    return results


def test_every_contender_that_needs_no_installing_does_the_job(tmp_path: Path) -> None:
    results = run(tmp_path, "contenders", "--only", WITHOUT_INSTALLING)

    assert set(results["contenders"]) == {
        "hitl, process",
        "hitl, task",
        "hitl, process, Postgres",
        "hitl, task, Postgres",
        "hitl, task, memory store",
        "hitl, in process",
        "a process a turn (forkserver)",
    }
    for contender in results["contenders"].values():
        (only_round,) = contender["rounds"]
        for load in (only_round["one"], only_round["many"]):
            assert load["pairs"] >= 3
            assert 0 < load["answer_ms"]["p50"] <= load["answer_ms"]["p95"] <= load["answer_ms"]["p99"]
            assert load["pairs_per_second"] > 0
        assert contender["paused"]["sessions"] >= 4
        assert contender["paused"]["memory_without"] > 0
    assert results["machine"]["cores"] > 0
    assert {goal["verdict"] for goal in results["goals"]} <= {"met", "missed"}
    page = (tmp_path / "contenders" / "results.md").read_text()
    assert "| a process a turn (forkserver) |" in page
    assert "durable: SQLite, WAL, synchronous=FULL" in page


def test_a_server_by_itself_has_a_figure_for_every_goal(tmp_path: Path) -> None:
    results = run(tmp_path, "server")

    assert results["goals"]
    assert [goal["what"] for goal in results["goals"] if goal["verdict"] == "not measured"] == [
        "GET session, of what an empty route answers (make bench-layers)"
    ]


def test_a_profile_tells_every_part_of_a_turn_from_the_others(tmp_path: Path) -> None:
    run(tmp_path, "profile")

    page = (tmp_path / "profile" / "results.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| trivial turn, ")]
    parts = {part for _, part, *_ in rows}
    assert {"HTTP, engine, sockets", "store: writer", "workers", "zygote", "together"} <= parts
    faults = {
        load.removeprefix("| "): float(faults.rstrip(" |").replace(",", ""))
        for load, part, _, _, faults in rows
        if part == "together"
    }
    # A process of its own copies pages for its turn, which a task does not.
    assert faults["trivial turn, process"] > faults["trivial turn, task"]


def test_growth_draws_every_curve(tmp_path: Path) -> None:
    results = run(tmp_path, "growth")

    assert [point["count"] for point in results["paused"]] == [10, 50]
    assert set(results["curves"]) == {"paused", "sessions", "steps", "payload"}
    for name in results["curves"]:
        picture = ElementTree.parse(tmp_path / "growth" / f"{name}.svg").getroot()
        assert picture.findall("{*}polyline")


def test_an_adapter_is_measured_beside_its_framework_on_every_way_through_hitl() -> None:
    """In the framework that is imported fastest: the others differ by their agent."""
    measured = bench_adapters.measure("openai_agents", rounds=1, calls=2, times=1)
    assert set(measured) == {"alone", "hitl.run", "served"}
    assert measured["alone"] > 0
    assert [goal.what for goal in bench_adapters.goals({"openai_agents": measured})] == [
        "openai_agents: hitl.run, CPU of a call"
    ]


def test_a_contender_that_nobody_knows_is_refused_before_anything_is_measured() -> None:
    command = [sys.executable, "-m", "benchmarks", "--smoke", "--only", "nobody"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("no contender is called 'nobody'")


@pytest.mark.parametrize("name", ["a process a turn (forkserver)", "hitl, process"])
def test_a_contender_ends_with_all_its_processes(name: str, tmp_path: Path) -> None:
    (entry,) = [entry for entry in CONTENDERS if entry.name == name]
    kept = tmp_path / "kept"
    kept.mkdir()
    others = family(os.getpid())  # what other tests have left for those that come later
    with Running(entry, tmp_path, kept, entry.arguments) as running:
        running.do("pause", sessions=3, clients=1)
        members = {pid: started_at(pid) for pid in family(os.getpid()) if pid not in others}
        assert len(members) >= 5  # itself, a server, and a process for each question at the least

    assert [pid for pid, started in members.items() if started_at(pid) == started] == []


def test_a_contender_ends_when_whoever_measures_it_is_gone(tmp_path: Path) -> None:
    module = "benchmarks.contenders.forkserver"
    host = subprocess.Popen(
        [sys.executable, "-m", module, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert host.stdin is not None
    assert host.stdout is not None
    with host:
        host.stdout.readline()
        host.stdin.write(b'{"do": "pause", "sessions": 3, "clients": 1}\n')
        host.stdin.flush()
        host.stdout.readline()
        members = {pid: started_at(pid) for pid in family(host.pid)}
        host.stdin.close()

    eventually(lambda: [pid for pid, started in members.items() if started_at(pid) == started], [])
