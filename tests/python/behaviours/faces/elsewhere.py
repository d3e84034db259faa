"""A conversation that goes on in another process: each request to it is a process of its own."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from hitl import Decision
from tests.python.behaviours.faces.face import Conversation, Face, Waiting
from tests.python.behaviours.scenes import Scene
from tests.python.support.served import ROOT, clean_environment

PROGRAM = "tests.python.behaviours.another_process"


class Elsewhere(Conversation):
    """Nothing of it is in this process but what the last process said; the next one must find the same waiting."""

    def __init__(self, face: Face, scene: Scene, kept: dict[str, Any], left: list[Waiting]) -> None:
        where = {"module": type(face).__module__, "class": type(face).__name__, "folder": str(face.folder)}
        self._request = where | {"scene": scene.to_json(), "kept": kept, "imports": face.imports()}
        self._said: dict[str, Any] = {"waiting": [one.to_json() for one in left]}

    def say(self, text: str) -> None:
        raise NotImplementedError("no test begins a turn elsewhere")

    def waiting(self) -> list[Waiting]:
        return [Waiting(**one) for one in self._said["waiting"]]

    def answer(self, answers: Sequence[tuple[str, Any]]) -> None:
        self._ask({"answer": [[id, _to_json(value)] for id, value in answers]})

    def decide(self, *decisions: Decision) -> None:
        self._ask({"decide": [_to_json(decision) for decision in decisions]})

    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self._said["messages"]
        return messages

    def told(self) -> list[str]:
        told: list[str] = self._said["told"]
        return told

    def in_another_process(self) -> Conversation:
        return self

    def _ask(self, request: dict[str, Any]) -> None:
        request["left"] = self._said["waiting"]
        self._said = json.loads(program().ask(json.dumps(self._request | request)))
        assert "failed" not in self._said, self._said["failed"]
        self._request["kept"] = self._said["kept"]
        self.output = self._said["output"]


class Program:
    """The program that has a process for each request."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=clean_environment(),
        )

    def ask(self, request: str) -> str:
        """What it says to a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, "the program ended, and its last words are above"
        return said

    def end(self) -> None:
        """Let it end."""
        self._process.communicate()


@functools.cache
def program() -> Program:
    """The one of this process: `end_program` ends it."""
    return Program()


def end_program() -> None:
    """Let it end, where one was started."""
    if program.cache_info().currsize:
        program().end()
        program.cache_clear()


def _to_json(value: Any) -> Any:
    return {"decision": value.to_json()} if isinstance(value, Decision) else {"value": value}
