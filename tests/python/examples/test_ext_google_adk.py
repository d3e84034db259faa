"""The recipe for an agent of Google ADK: asked, killed, answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.python.support.api import ok
from tests.python.support.served import Served

AGENT = "examples.recipe_google_adk:agent"


def test_a_server_that_is_killed_while_it_waits_deletes_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DELETED_FILES", str(tmp_path / "deleted"))
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served(AGENT, store=store) as first:
        session_id = first.api.create()
        asked = first.api.settled(session_id, "clean up", 1)["interrupts"][0]
        first.kill()
    edit = {"type": "edit", "args": {"path": "older.log"}}
    with Served(AGENT, store=store) as second:
        ok(second.api.resume(session_id, asked["interrupt_id"], edit))
        session = second.api.wait(session_id)
    assert session["response"]["content"] == "Deleted older.log."
    assert (tmp_path / "deleted").read_text() == "older.log\n"
