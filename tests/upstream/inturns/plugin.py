"""The pytest plugin: each test runs in a turn, and then again from prefixes of the journal of that."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from inturns import turns, world


@dataclass
class Result:
    """What came of a test."""

    test: str
    outcome: str = "passed"
    error: str = ""
    entries: int = 0
    steps: int = 0
    questions: int = 0
    replays: int = 0
    second: int = 0
    """How often it ran from what a run after a crash had written by then."""


@dataclass
class _Runs:
    framework: Any
    limit: int | None
    alone: set[str]
    """Tests that run without a turn."""
    prefix: turns.Prefix | None = None
    results: list[Result] = field(default_factory=list)


_runs: _Runs


def pytest_configure(config: pytest.Config) -> None:
    global _runs
    limit = None if os.environ.get("HITL_TEST_FULL") else int(os.environ.get("HITL_UPSTREAM_PREFIXES", "5"))
    alone = set(json.loads(os.environ.get("HITL_UPSTREAM_ALONE", "[]")))
    _runs = _Runs(importlib.import_module(f"inturns.{os.environ['HITL_UPSTREAM_FRAMEWORK']}"), limit, alone)
    config.addinivalue_line("markers", "asyncio: as the suites mark what is async")
    world.install(_runs.framework)
    _runs.framework.install()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is named, by the names of tests."""
    named = set(json.loads(os.environ.get("HITL_UPSTREAM_LEFT_OUT", "[]")))
    left = [item for item in items if item.nodeid in named]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    if pyfuncitem.nodeid in _runs.alone:
        turns.run_alone(pyfuncitem.obj, arguments)
        return True
    world.forget()
    with _runs.framework.person() as answers:
        turns.run(pyfuncitem.obj, arguments, answers, _runs.prefix)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    assert isinstance(item, pytest.Function)
    result = Result(item.nodeid)
    _runs.results.append(result)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _runs.prefix, turns.recorded[:] = None, []
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    journal = list(turns.recorded)
    result.entries = len(journal)
    result.steps = sum(entry["entry"] == "step" for entry in journal)
    result.questions = sum(entry["entry"] == "ask" for entry in journal)
    if _note(result, reports, "in a turn"):
        for cut in turns.cuts(journal, _runs.limit) if result.entries > 1 else ():
            result.replays += 1
            again = _crash(item, nextitem, result, reports, journal, cut)
            later = [each for each in turns.cuts(again or [], None) if each > cut]
            if later and _runs.limit is None:
                result.second += 1
                whose = f", which a run from {cut} has written"
                again = _crash(item, nextitem, result, reports, again, later[len(later) // 2], whose)
            if again is None:
                break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _crash(
    item: pytest.Function,
    nextitem: Any,
    result: Result,
    reports: list[Any],
    journal: turns.Journal,
    cut: int,
    whose: str = "",
) -> turns.Journal | None:
    """Run a test from a prefix: its journal, or None where something is wrong. ``reports`` are that run's then."""
    item._initrequest()  # fixtures anew, as after a crash
    _runs.prefix = turns.prefix_of(journal, cut)
    reports[:] = runtestprotocol(item, log=False, nextitem=nextitem)
    when = f"replayed from {cut} of {len(journal)} entries{whose}"
    if not _note(result, reports, when):
        return None
    if (wrong := _wrong(journal, cut)) is not None:
        result.outcome, result.error = "failed", f"{when}: {wrong}"
        return None
    return list(turns.recorded)


def _note(result: Result, reports: list[Any], when: str) -> bool:
    for report in reports:
        if report.outcome != "passed":
            result.outcome = report.outcome
            text = str(report.longrepr)
            result.error = f"{when}: {text[-1500:]}"
            return False
    return True


def _wrong(journal: list[dict[str, Any]], cut: int) -> str | None:
    """What a replay did that it must not, although its test has passed."""
    again = turns.recorded
    paths = [entry["step"]["path"] for entry in again if entry["entry"] == "step"]
    if len(paths) != len(set(paths)):
        return "a step has two results"
    if again[:cut] != journal[:cut]:
        return "it changed what was recorded"
    finished = {entry["step"]["path"] for entry in journal[:cut] if entry["entry"] == "step"}
    if repeated := sorted(finished.intersection(world.ran)):
        return f"finished steps ran again: {', '.join(repeated)}"
    before, now = _did(journal), _did(again)
    if before != now:
        return f"it did not do {sorted((before - now).elements())}, and did {sorted((now - before).elements())} besides"
    return "; ".join(world.unlike) or None


def _did(journal: list[dict[str, Any]]) -> Counter[str]:
    """How many steps and questions there are of each name; not of each path, for some have ids that a model makes anew.
    Where a prefix ends in the middle of a `once` step, one more asks what came of that."""
    own = [entry for entry in journal if entry["entry"] in ("step", "ask")]
    names = [f"{entry['entry']} {entry['step']['kind']} {entry['step']['name']}" for entry in own]
    return Counter(name for name in names if not name.endswith("unknown_outcome"))


def pytest_sessionfinish() -> None:
    if (path := os.environ.get("HITL_UPSTREAM_RESULTS")) is not None:
        Path(path).write_text(json.dumps([asdict(each) for each in _runs.results], indent=1))
