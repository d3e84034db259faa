"""Runs and the life of processes: a normal exit, a fork, a state that goes from one to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXITS = 300 if os.environ.get("HITL_TEST_FULL") else 12
"""A naive bridge to threads of the core crashed in 4 to 14 of 30."""


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.python.runs.programs", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.timeout(1800)
def test_a_script_that_awaits_once_exits_normally() -> None:
    for number in range(EXITS):
        done = program("once")
        assert (done.returncode, done.stdout, done.stderr) == (0, "you said hello\n", ""), f"exit {number}"


@pytest.mark.parametrize("how", ["cancelled", "hard"])
def test_exit_with_a_run_in_flight(how: str) -> None:
    done = program("in_flight", how)
    assert (done.returncode, done.stdout) == (0, "left True\n"), done.stderr


def test_use_after_a_fork_raises_and_the_parent_goes_on() -> None:
    done = program("forks")
    one, child, two = done.stdout.splitlines()
    assert (one, two) == ("you said one", "you said two")
    assert child.startswith("child: hitl was used in process ")
    assert "was forked" in child
    assert "spawn" in child


@pytest.mark.parametrize("edited", ["", "compatibly"])
def test_paused_in_one_process_decided_in_a_second_resumed_in_a_third(tmp_path: Path, edited: str) -> None:
    for step in (("pause",), ("decide",)):
        assert (done := program(*step, str(tmp_path))).returncode == 0, done.stderr
    done = program("resume", str(tmp_path), edited)
    assert done.stdout == "idle None done False ['a']\n", done.stderr
    assert (tmp_path / "deleted").read_text() == "a\n"


def test_code_that_was_changed_incompatibly_is_an_error_that_keeps_the_state(tmp_path: Path) -> None:
    for step in (("pause",), ("decide",)):
        assert (done := program(*step, str(tmp_path))).returncode == 0, done.stderr
    done = program("resume", str(tmp_path), "incompatibly")
    assert done.stdout == "error replay_mismatch None True []\n", done.stderr
    # With the code as it was the run goes on.
    assert program("resume", str(tmp_path)).stdout == "idle None done False ['a']\n"
