"""The minimal client against `hitl serve`, and as the program a reader would run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hitl.examples.client_loop import run_turn
from tests.python.support.served import ROOT, Served, clean_environment


@pytest.fixture
def served(files: Path) -> Iterator[Served]:
    with Served("hitl.examples.file_agent:agent", environment={"HITL_FILES": str(files)}) as server:
        yield server


def answer(interrupt: dict[str, Any]) -> Any:
    if interrupt["type"] == "user_input":
        return {"answers": {interrupt["payload"]["questions"][0]["question"]: "By size"}}
    return {"approved": True}


def test_the_loop_answers_whatever_is_asked(served: Served, files: Path) -> None:
    with httpx2.Client(base_url=served.url, timeout=100, trust_env=False) as http:
        session_id = http.post("/sessions").json()["session_id"]

        assert "is gone" in run_turn(http, session_id, "delete the old logs file", answer)
        assert "moved 1 file" in run_turn(http, session_id, "help me organize my downloads", answer)

    assert not (files / "old_logs.txt").exists()
    assert (files / "downloads/large/measurements.csv").exists()


@pytest.mark.parametrize(("typed", "survives"), [("y", False), ("I want to keep it", True)])
def test_the_program_asks_on_the_terminal(served: Served, files: Path, typed: str, survives: bool) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "hitl.examples.client_loop", served.url, "delete the old logs file"],
        check=False,
        cwd=ROOT,
        env=clean_environment(),
        input=f"{typed}\n",
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert finished.returncode == 0, finished.stderr
    assert '"path": "old_logs.txt"' in finished.stdout
    assert (files / "old_logs.txt").exists() is survives
    assert ("User rejected delete_file: I want to keep it" in finished.stdout) is survives
