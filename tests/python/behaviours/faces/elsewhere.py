"""A conversation that goes on in another process: each request to it is a process of its own."""

from __future__ import annotations

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
        self._request = where | {"scene": scene.to_json(), "kept": kept}
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
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", PROGRAM],
            input=json.dumps(self._request | request),
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=clean_environment(),
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self._said = json.loads(done.stdout)
        self._request["kept"] = self._said["kept"]
        self.output = self._said["output"]


def _to_json(value: Any) -> Any:
    return {"decision": value.to_json()} if isinstance(value, Decision) else {"value": value}
