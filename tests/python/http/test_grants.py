"""Decisions with `always`: they hold for one tool of one agent in one session, are listed, and can be revoked."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.python.http.conftest import Serve
from tests.python.support.api import Api, Json, ok, problem, tool_results
from tests.python.support.event_stream import listen


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def charge(ledger: Path, cents: int) -> Json:
    return {"name": "charge", "args": {"ledger": str(ledger), "cents": cents}}


def asks(api: Api, session_id: str, *calls: Json, questions: int = 1) -> Json:
    """The session after a turn in which the model makes these calls at once."""
    return api.settled(session_id, json.dumps([list(calls)]), questions)


def decide(api: Api, session: Json, value: Any, place: int = 0) -> Json:
    ok(api.resume(session["session_id"], session["interrupts"][place]["interrupt_id"], value))
    return api.wait(session["session_id"])


def grants(api: Api, session_id: str) -> list[Json]:
    listed: list[Json] = ok(api.get(f"/sessions/{session_id}/grants"))
    return listed


def revoke(api: Api, session_id: str, grant_id: str) -> Any:
    return api.http.delete(f"/sessions/{session_id}/grants/{grant_id}")


def effects(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


@pytest.mark.parametrize("value", [{"approved": True, "always": True}, {"type": "approve", "always": True}])
def test_later_calls_run_without_asking(puppet: Api, ledger: Path, value: Json) -> None:
    session_id = puppet.create()
    decide(puppet, asks(puppet, session_id, charge(ledger, 1)), value)
    later = asks(puppet, session_id, charge(ledger, 2), charge(ledger, 3), questions=0)
    assert later["status"] == "idle"
    assert len(effects(ledger)) == 3
    (grant,) = grants(puppet, session_id)
    assert grant.keys() == {
        "grant_id",
        "agent",
        "tool",
        "decision",
        "reason",
        "message",
        "created_at",
        "created_by",
    }
    assert (grant["agent"], grant["tool"], grant["decision"]) == ("puppet", "charge", "approve")
    records = ok(puppet.get("/interrupts", session_id=session_id))
    assert [record["rule"] for record in records] == [f"grant:{grant['grant_id']}"] * 2 + [None]
    assert all(record["status"] == "resolved" for record in records)
    assert records[0]["value"] == {"type": "approve"}


@pytest.mark.parametrize(
    "value",
    [
        {"approved": False, "always": True, "reason": "no money"},
        {"type": "reject", "always": True, "reason": "no money"},
    ],
)
def test_later_calls_are_rejected_without_asking(puppet: Api, ledger: Path, value: Json) -> None:
    session_id = puppet.create()
    decide(puppet, asks(puppet, session_id, charge(ledger, 1)), value)
    later = asks(puppet, session_id, charge(ledger, 2), questions=0)
    assert tool_results(later) == [{"error": "User rejected charge: no money"}]
    assert effects(ledger) == []
    (grant,) = grants(puppet, session_id)
    assert (grant["decision"], grant["reason"]) == ("reject", "no money")


def test_an_automatic_decision_interrupts_nobody(puppet: Api, ledger: Path) -> None:
    session_id = puppet.create()
    decide(puppet, asks(puppet, session_id, charge(ledger, 1)), {"approved": True, "always": True})
    with listen(puppet, f"/sessions/{session_id}/events") as stream:
        assert puppet.send(session_id, json.dumps([[charge(ledger, 2)]])).status_code == 202
        seen = stream.until("session.idle")
    steps = ("message.completed", "tool.started", "tool.finished")
    running, resolved, idle = [event for event in seen if event.event not in steps]
    assert [running.event, resolved.event, idle.event] == ["session.running", "interrupt.resolved", "session.idle"]
    assert resolved.data["rule"].startswith("grant:")


def test_a_grant_never_reaches_another_tool_or_session(puppet: Api, ledger: Path, tmp_path: Path) -> None:
    session_id = puppet.create()
    decide(puppet, asks(puppet, session_id, charge(ledger, 1)), {"approved": True, "always": True})
    other_tool = asks(puppet, session_id, {"name": "delete_file", "args": {"path": str(tmp_path / "x")}})
    assert other_tool["status"] == "interrupted"
    other_session = asks(puppet, puppet.create(), charge(ledger, 2))
    assert other_session["status"] == "interrupted"
    assert len(effects(ledger)) == 1


def test_what_is_asked_already_is_decided_too_except_what_was_decided_by_itself(puppet: Api, ledger: Path) -> None:
    session = asks(puppet, puppet.create(), *(charge(ledger, cents) for cents in (1, 2, 3)), questions=3)
    ids = [interrupt["interrupt_id"] for interrupt in session["interrupts"]]
    answers = {ids[0]: {"approved": True, "always": True}, ids[2]: {"approved": False}}
    assert ok(puppet.resume_all(session["session_id"], answers))["status"] == "running"
    results = tool_results(puppet.wait(session["session_id"]))
    assert results[2] == {"error": "User rejected charge"}
    assert len(effects(ledger)) == 2


def test_a_revoked_grant_asks_again(puppet: Api, ledger: Path) -> None:
    session_id = puppet.create()
    decide(puppet, asks(puppet, session_id, charge(ledger, 1)), {"approved": True, "always": True})
    (grant,) = grants(puppet, session_id)
    response = revoke(puppet, session_id, grant["grant_id"])
    assert (response.status_code, response.content) == (204, b"")
    assert grants(puppet, session_id) == []
    assert asks(puppet, session_id, charge(ledger, 2))["status"] == "interrupted"
    assert len(effects(ledger)) == 1


def test_what_is_not_there_cannot_be_revoked(puppet: Api, ledger: Path) -> None:
    session_id, elsewhere, unknown = puppet.create(), puppet.create(), str(uuid.uuid4())
    decide(puppet, asks(puppet, session_id, charge(ledger, 1)), {"approved": True, "always": True})
    (grant,) = grants(puppet, session_id)
    for session, grant_id in [(session_id, unknown), (session_id, "nonsense"), (elsewhere, grant["grant_id"])]:
        assert problem(revoke(puppet, session, grant_id), 404)["code"] == "unknown_grant"
    assert problem(revoke(puppet, unknown, grant["grant_id"]), 404)["code"] == "session_not_found"
    assert problem(puppet.get(f"/sessions/{unknown}/grants"), 404)["code"] == "session_not_found"
    assert grants(puppet, session_id) == [grant]


def test_a_grant_survives_the_death_of_the_server(serve: Serve, store: str, ledger: Path) -> None:
    server = serve("puppet", store=store)
    session_id = server.api.create()
    decide(server.api, asks(server.api, session_id, charge(ledger, 1)), {"approved": True, "always": True})
    before = grants(server.api, session_id)
    server.kill()
    api = serve("puppet", store=store).api
    assert grants(api, session_id) == before
    assert asks(api, session_id, charge(ledger, 2), questions=0)["status"] == "idle"
    assert len(effects(ledger)) == 2


def test_who_gave_a_grant_is_kept(serve: Serve, ledger: Path) -> None:
    api = serve("puppet", api_key="a key of at least sixteen").api
    session_id = api.create()
    decide(api, asks(api, session_id, charge(ledger, 1)), {"approved": True, "always": True})
    (grant,) = grants(api, session_id)
    assert grant["created_by"] == "api-key"
    asks(api, session_id, charge(ledger, 2), questions=0)
    assert ok(api.get("/interrupts", session_id=session_id))[0]["resolved_by"] == "api-key"


@pytest.mark.parametrize(
    "value",
    [
        {"approved": True, "always": "true"},
        {"approved": True, "always": 1},
        {"approved": True, "always": None},
        {"always": True},
        {"type": "approve", "always": "yes"},
    ],
)
def test_an_always_that_is_no_boolean_changes_nothing(puppet: Api, ledger: Path, value: Json) -> None:
    session = asks(puppet, puppet.create(), charge(ledger, 1))
    interrupt = session["interrupts"][0]["interrupt_id"]
    problem(puppet.resume(session["session_id"], interrupt, value), 422)
    assert grants(puppet, session["session_id"]) == []
    assert puppet.session(session["session_id"])["interrupts"] == session["interrupts"]
