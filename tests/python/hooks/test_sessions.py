"""A conversation in a store: every call of the agent may be another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.python.hooks import stored_agent


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim.txt"
    file.write_text("x")
    return file


class Processes:
    """Calls the agent, each time in a process of its own."""

    def __init__(self, tmp_path: Path, victim: Path) -> None:
        self.store = f"sqlite:{tmp_path / 'hitl.db'}"
        self.victim = str(victim)

    def __call__(self, prompt: Any, session: str = "ada's") -> dict[str, Any]:
        arguments = [self.store, session, json.dumps(prompt), self.victim]
        program = [sys.executable, "-W", "error", str(stored_agent.__file__), *arguments]
        done = subprocess.run(program, capture_output=True, text=True, timeout=50, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        told: dict[str, Any] = json.loads(done.stdout)
        return told


@pytest.fixture
def call(tmp_path: Path, victim: Path) -> Processes:
    return Processes(tmp_path, victim)


def response(id: str, value: Any) -> list[Any]:
    return [{"interruptResponse": {"interruptId": id, "response": value}}]


def test_sessions_do_not_know_of_each_other(call: Processes, victim: Path) -> None:
    (asked,) = call("delete it", "one")["interrupts"]
    assert call(response(asked["id"], True), "two") == {"error": "NothingPending"}
    assert call([], "one")["interrupts"] == [asked]
    assert victim.exists()
