"""A state that one process writes, a second decides on, and a third resumes, by the same code or by another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.python.behaviours.ledger import Ledger
from tests.python.support.served import ROOT, clean_environment

# A test starts five processes, which on a busy machine takes longer than what they do.
pytestmark = pytest.mark.timeout(600)

PROGRAM = "tests.python.behaviours.three_processes"


def process(step: str, folder: Path, edition: str = "same") -> dict[str, Any]:
    """What a new process makes of a step."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", PROGRAM, step, str(folder), edition],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=clean_environment(),
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


TOLD = ["paid 1", '{"error": "User rejected pay: twice"}']
PAID = {"status": "idle", "error": None, "error_code": None, "told": TOLD}


def test_the_decisions_travel_with_the_state_through_code_that_was_edited_compatibly(tmp_path: Path) -> None:
    assert process("ask", tmp_path) == {"asked": [{"cents": 1}, {"cents": 2}]}
    assert process("decide", tmp_path) == {"open": 0}
    assert Ledger(tmp_path).lines == []
    assert process("resume", tmp_path, "compatible") == PAID
    assert Ledger(tmp_path).lines == ["pay 1"]


def test_code_that_does_something_else_runs_nothing_and_loses_nothing(tmp_path: Path) -> None:
    process("ask", tmp_path)
    process("decide", tmp_path)
    stopped = process("resume", tmp_path, "incompatible")
    assert (stopped["status"], stopped["error_code"]) == ("error", "replay_mismatch")
    assert "tool_approval" in stopped["error"]
    assert Ledger(tmp_path).lines == []
    assert process("resume", tmp_path) == PAID
    assert Ledger(tmp_path).lines == ["pay 1"]
