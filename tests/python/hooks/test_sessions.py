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

    def __call__(self, prompt: Any, session: str = "ada's", exit_code: int = 0) -> dict[str, Any]:
        arguments = [self.store, session, json.dumps(prompt), self.victim]
        program = [sys.executable, "-W", "error", str(stored_agent.__file__), *arguments]
        done = subprocess.run(program, capture_output=True, text=True, timeout=200, check=False)
        assert (done.returncode, done.stderr) == (exit_code, "")
        told: dict[str, Any] = json.loads(done.stdout or "{}")
        return told


@pytest.fixture
def call(tmp_path: Path, victim: Path) -> Processes:
    return Processes(tmp_path, victim)


def response(id: str, value: Any) -> list[Any]:
    return [{"interruptResponse": {"interruptId": id, "response": value}}]


@pytest.mark.parametrize(("decision", "is_there"), [(True, False), (None, True)])
def test_asked_in_one_process_answered_in_another(
    call: Processes, victim: Path, decision: bool | None, is_there: bool
) -> None:
    paused = call("delete it")
    assert paused["stop_reason"] == "interrupt"
    (asked,) = paused["interrupts"]
    assert asked["reason"] == {"user": "ada"}
    assert victim.exists()

    assert call("hello?") == {"error": "TypeError"}
    assert call(response("wrong", True)) == {"error": "UnknownInterrupt"}
    assert call([])["interrupts"] == [asked]

    assert call(response(asked["id"], decision)) == {"stop_reason": "end_turn", "text": "done", "interrupts": []}
    assert victim.exists() is is_there
    assert call(response(asked["id"], decision)) == {"error": "NothingPending"}


def test_a_crash_in_the_middle_of_an_approved_call_is_a_question(call: Processes, victim: Path) -> None:
    (asked,) = call("delete it")["interrupts"]
    victim.with_suffix(".txt.accident").touch()
    call(response(asked["id"], True), exit_code=9)
    assert victim.exists()
    assert call("hello?") == {"error": "RunInterrupted"}

    (unknown,) = call([])["interrupts"]
    assert unknown["name"] == "unknown_outcome"
    assert unknown["reason"]["tool_args"] == {"path": str(victim)}
    assert victim.exists(), "it did not run again by itself"
    assert call(response(unknown["id"], {"outcome": "not_done"}))["stop_reason"] == "end_turn"
    assert not victim.exists()


def test_sessions_do_not_know_of_each_other(call: Processes, victim: Path) -> None:
    (asked,) = call("delete it", "one")["interrupts"]
    assert call(response(asked["id"], True), "two") == {"error": "NothingPending"}
    assert call([], "one")["interrupts"] == [asked]
    assert victim.exists()
