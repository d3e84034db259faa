"""A server of the agent that needs a pool, and what that has noted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.python.support.api import Api, ok
from tests.python.support.served import Served

AGENT = "tests.python.support.pooled_agent:agent"


class Pooled:
    """A server of the agent, and what the agent has noted."""

    def __init__(self, folder: Path, *, agent: str = AGENT, **options: Any) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._read = len(self._lines())
        store = options.pop("store", f"sqlite:{folder / 'hitl.db'}")
        self.served = Served(agent, store=store, environment={"FOLDER": str(folder)}, **options)

    @property
    def api(self) -> Api:
        return self.served.api

    def _lines(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def forget(self) -> None:
        """Look only at what is noted from now on."""
        self._read = len(self._lines())

    def noted(self, *others: str) -> list[str]:
        """What was done with the pool, without the processes in which it was."""
        lines = [line.rpartition(" ")[0] for line in self._lines()[self._read :]]
        return [line for line in lines if line not in ("context_from", "closing") or line in others]

    def pids(self, what: str) -> list[str]:
        """In which processes."""
        lines = [line.rpartition(" ") for line in self._lines()[self._read :]]
        return [pid for line, _, pid in lines if line == what]

    def call(self, *calls: tuple[str, dict[str, Any]], session_id: str | None = None, **body: Any) -> dict[str, Any]:
        """Let the model call tools, one after the other; the session when it rests."""
        session_id = session_id or self.api.create()
        rounds = [[{"name": name, "args": args}] for name, args in calls]
        assert self.api.send(session_id, json.dumps(rounds), **body).status_code == 202
        return self.api.wait(session_id)

    def answer(self, session: dict[str, Any], value: Any) -> dict[str, Any]:
        ok(self.api.resume(session["session_id"], session["interrupts"][0]["interrupt_id"], value))
        return self.api.wait(session["session_id"])

    def retry(self, session: dict[str, Any]) -> dict[str, Any]:
        assert self.api.post(f"/sessions/{session['session_id']}/retry").status_code == 202
        return self.api.wait(session["session_id"])
