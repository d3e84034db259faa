"""The agent that deletes files, which is written for another framework: asked, killed, answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from hitl.testing import HitlServer, Human
from tests.python.support.api import ok
from tests.python.support.served import Served

AGENT = "examples.ext_strands:agent"


@pytest.fixture
def deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was deleted; no real model is asked."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DELETED_FILES", str(tmp_path / "deleted"))
    return tmp_path / "deleted"


def test_a_person_who_says_no_is_believed(hitl_server: HitlServer, human: Human, deleted: Path) -> None:
    human.on_type("hook_interrupt").answer("n")
    assert hitl_server(AGENT).send("clean up").content == "User denied permission to delete files"
    assert not deleted.exists()
    (asked,) = human.seen
    assert asked.payload["reason"] == {"paths": ["logs/old.log", "logs/older.log"]}


def test_a_server_that_is_killed_while_it_waits_deletes_once(deleted: Path, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served(AGENT, store=store) as first:
        session_id = first.api.create()
        asked = first.api.settled(session_id, "clean up", 1)["interrupts"][0]
        first.kill()
    with Served(AGENT, store=store) as second:
        ok(second.api.resume(session_id, asked["interrupt_id"], "y"))
        session = second.api.wait(session_id)
    assert session["response"]["content"] == "Deleted logs/old.log, logs/older.log."
    assert deleted.read_text() == "logs/old.log\nlogs/older.log\n"
