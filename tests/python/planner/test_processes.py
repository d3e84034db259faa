"""Paused in one process, resumed in another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.python.planner import stored_planner


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-W", "error", str(stored_planner.__file__), str(directory), *arguments]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> Any:
    out, error = process.communicate(timeout=200)
    assert (process.returncode, error) == (0, "")
    return json.loads(out)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "written.txt"


def test_approved_in_another_process_the_model_writes(tmp_path: Path, written: Path) -> None:
    pause = told(start(tmp_path, "run"))
    assert pause["payload"] == {"preview": "hello"}
    assert told(start(tmp_path, "resume", pause["token"], "yes")) == {"reason": "answer_complete", "payload": "done"}
    assert written.read_text() == "hello\n"
    assert told(start(tmp_path, "resume", pause["token"], "yes")) == {"error": "KeyError"}
    assert written.read_text() == "hello\n"


def test_rejected_in_another_process_nothing_is_written(tmp_path: Path, written: Path) -> None:
    pause = told(start(tmp_path, "run"))
    again = told(start(tmp_path, "resume", pause["token"], "no"))
    assert again["payload"] == {"preview": "hello"}, "the scripted model insists"
    assert not written.exists()


def test_two_processes_at_once_write_once(tmp_path: Path, written: Path) -> None:
    pause = told(start(tmp_path, "run"))
    both = [start(tmp_path, "resume", pause["token"], "yes") for _ in range(2)]
    answers = [told(each) for each in both]
    assert {"error": "KeyError"} in answers
    assert {"reason": "answer_complete", "payload": "done"} in answers
    assert written.read_text() == "hello\n"
