"""The program without a server: several processes, one file between them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.python.support.served import clean_environment


@pytest.fixture
def run(tmp_path: Path, files: Path) -> Callable[..., str]:
    def program(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "hitl.examples.without_server", *arguments],
            check=False,
            cwd=tmp_path,
            env={**clean_environment(), "HITL_FILES": str(files)},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return program


def test_a_yes_in_another_process_deletes_the_file(run: Callable[..., str], files: Path) -> None:
    assert "delete_file: {" in run("delete the old logs file")
    assert (files / "old_logs.txt").exists()
    assert "still waits" in run("something else")
    assert "is gone" in run("--yes")
    assert not (files / "old_logs.txt").exists()
    assert run("--yes") == "nothing waits\n"


def test_a_no_tells_the_model_why(run: Callable[..., str], files: Path) -> None:
    run("delete the old logs file")
    assert "User rejected delete_file: the auditor wants it" in run("--no", "the auditor wants it")
    assert (files / "old_logs.txt").exists()


def test_a_run_may_wait_more_than_once(run: Callable[..., str], files: Path) -> None:
    assert "user_input: {" in run("help me organize my downloads")
    assert "move_files: {" in run("--yes")
    assert "moved" in run("--yes")
