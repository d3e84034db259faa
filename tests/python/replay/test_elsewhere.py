"""A journal that one process wrote is replayed by another, also by another Python.

``HITL_TEST_PYTHONS`` lists further interpreters, separated as in PATH; every pair is compared. They need no packages.
`make test-pythons` gives it what it finds. Without it the pair is the running Python in two fresh processes. The ids of
the tests name the versions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import hitl
from hitl import _core
from hitl.pythons import ALLOW
from tests.python.replay.crashes import Report

_ROOT = Path(__file__).parents[3]
_AGENTS = int(os.environ.get("HITL_REPLAY_AGENTS", "1000")) // 20
_FIRST = 1_000_000  # seeds that the fuzz does not use
_INTERPRETERS = [sys.executable, *filter(None, os.environ.get("HITL_TEST_PYTHONS", "").split(os.pathsep))]


def _run(interpreter: str, *arguments: str, given: str = "") -> str:
    paths = [str(_ROOT), str(Path(hitl.__file__).parents[1])]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [interpreter, *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
        env=environment,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def _recorded(interpreter: str) -> str:
    return _run(interpreter, "-m", "tests.python.replay.elsewhere", "record", str(_FIRST), str(_AGENTS))


@cache
def _version(interpreter: str) -> str:
    return _run(interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


@pytest.mark.slow
@pytest.mark.parametrize("replayer", _INTERPRETERS, ids=lambda path: f"replayed-by-{_version(path)}")
@pytest.mark.parametrize("recorder", _INTERPRETERS, ids=lambda path: f"recorded-by-{_version(path)}")
def test_another_process_goes_the_same_way(recorder: str, replayer: str) -> None:
    report = Report(
        **json.loads(_run(replayer, "-m", "tests.python.replay.elsewhere", "replay", given=_recorded(recorder)))
    )
    assert report.agents == _AGENTS
    assert report.replays > _AGENTS
    assert not report.problems, report.text()


def test_what_is_said_to_agree_is_what_is_compared() -> None:
    compared = {_version(interpreter) for interpreter in _INTERPRETERS}
    said = set(_core.PYTHONS)
    if os.environ.get(ALLOW) != "1":  # somebody tries whether another version could join the list
        assert compared <= said, "these replay too: say so in src/supervisor/runtime.rs, or leave them out"
    if missing := sorted(said - compared):
        pytest.skip(f"not compared here: {', '.join(missing)}; `make test-pythons` finds what the machine has")
