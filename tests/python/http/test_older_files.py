"""Store files of earlier releases are opened, brought up to date, and gone on with."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.support.api import Api, Json, ok
from tests.python.support.served import Served

OLDER = [2, 3]
"""Versions of the schema, each with a file of it and its agent in `older`."""
MIGRATIONS = Path(__file__).parents[3] / "src" / "store" / "sqlite" / "migrations"
NEWEST = max(int(path.name.partition("_")[0]) for path in MIGRATIONS.glob("*.sql"))


@pytest.fixture(params=OLDER, ids=lambda number: f"schema {number}")
def older(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def store(tmp_path: Path, older: int) -> Path:
    path = tmp_path / "hitl.db"
    packed = Path(__file__).parent / "older" / f"schema_{older}.db.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    assert version(path) == older
    return path


@pytest.fixture
def opened(store: Path, older: int) -> Iterator[Api]:
    with Served(f"tests.python.http.older.schema_{older}:agent", store=f"sqlite:{store}") as served:
        yield served.api


def version(store: Path) -> int:
    connection = sqlite3.connect(store)
    try:
        number: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return number
    finally:
        connection.close()


def asked(api: Api, path: str) -> Json:
    (interrupt,) = (
        interrupt
        for interrupt in ok(api.get("/interrupts", status="pending", tool="delete_file"))
        if interrupt["payload"]["tool_args"] == {"path": path}
    )
    record: Json = interrupt
    return record


def said(api: Api, session_id: str) -> str:
    text: str = api.wait(session_id)["response"]["content"]
    return text


def test_every_session_is_still_there(store: Path, opened: Api) -> None:
    sessions = ok(opened.get("/sessions"))[:6]
    statuses = [session["status"] for session in sessions]
    assert statuses == ["interrupted", "interrupted", "interrupted", "idle", "error", "idle"]
    assert said(opened, sessions[3]["session_id"]) == "hello"
    assert opened.session(sessions[4]["session_id"])["error"] == "ValueError: on purpose"
    assert all(ok(opened.get(f"/sessions/{session['session_id']}/grants")) == [] for session in sessions)
    assert version(store) == NEWEST


@pytest.mark.parametrize("older", [3], indirect=True)
def test_what_was_granted_still_holds(opened: Api) -> None:
    session_id = ok(opened.get("/sessions"))[6]["session_id"]
    (grant,) = ok(opened.get(f"/sessions/{session_id}/grants"))
    assert (grant["tool"], grant["decision"]) == ("delete_file", "approve")
    opened.send(session_id, "delete /tmp/e")
    assert said(opened, session_id) == "deleted /tmp/e"


def test_what_was_asked_can_be_answered(opened: Api, older: int) -> None:
    first, second = asked(opened, "/tmp/a"), asked(opened, "/tmp/b")
    # Version 2 kept no schema that edited arguments could be checked with.
    assert first["allowed_decisions"] == (["approve", "reject"] if older == 2 else ["approve", "edit", "reject"])
    ok(opened.resume(first["session_id"], first["interrupt_id"], {"approved": True, "always": True}))
    assert said(opened, first["session_id"]) == "deleted /tmp/a"
    (grant,) = ok(opened.get(f"/sessions/{first['session_id']}/grants"))
    assert (grant["tool"], grant["decision"]) == ("delete_file", "approve")
    ok(opened.resume(second["session_id"], second["interrupt_id"], {"type": "reject", "reason": "mine"}))
    assert said(opened, second["session_id"]) == "User rejected delete_file: mine"


def test_a_question_keeps_what_was_stored_with_it(opened: Api) -> None:
    (question,) = ok(opened.get("/interrupts", type="free"))
    assert question["metadata"] == {"ticket": 7}
    assert question["expires_at"] is not None
    ok(opened.resume(question["session_id"], question["interrupt_id"], "nothing"))
    assert said(opened, question["session_id"]) == "nothing"


def test_what_was_answered_before_stays_answered(opened: Api) -> None:
    answered = min(ok(opened.get("/interrupts", status="resolved")), key=lambda record: record["created_at"])
    assert answered["value"] == {"approved": True}
    again = ok(opened.resume(answered["session_id"], answered["interrupt_id"], {"type": "approve"}))
    assert again["replayed"] is True
