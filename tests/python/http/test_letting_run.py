"""Whoever asks for something does not allow it, whichever code puts the question: a hook, middleware, a policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hitl import _core
from tests.python.support.api import Api, Json, ok, problem
from tests.python.support.gated_agents import FOR_BOB, GATED, OTHERS, YES
from tests.python.support.served import Served

AGENT = "tests.python.support.gated_agents:agent"


@dataclass
class Office:
    """A server on which nobody approves what they asked for themselves, and its people."""

    server: Served
    ada: Api
    bob: Api
    root: Api
    folder: Path

    def ask(self, gate: str) -> tuple[str, Json]:
        """A session of ada's whose agent waits before it pays."""
        session = self.ada.create()
        assert self.ada.send(session, gate).status_code == 202
        (asked,) = self.ada.wait(session)["interrupts"]
        return session, asked

    @property
    def done(self) -> list[str]:
        file = self.folder / "done"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(scope="module")
def shared_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    store = f"sqlite:{folder / 'hitl.db'}"
    scopes = {"ada": ["read", "send", "answer"], "bob": ["read", "send", "answer"], "root": ["admin"]}
    keys = {name: _core.create_key(store, name, has, [])[1] for name, has in scopes.items()}
    environment = {"FOLDER": str(folder)}
    with Served(AGENT, store=store, prevent_self_approval=True, environment=environment) as server:
        people = {name: Api(server.url, api_key=key) for name, key in keys.items()}
        yield Office(server, **people, folder=folder)
        for person in people.values():
            person.close()


@pytest.fixture
def office(shared_office: Office) -> Office:
    """The office of all tests here, in which nothing has been done yet and no worker is about to die."""
    for name in ("done", "crash"):
        (shared_office.folder / name).unlink(missing_ok=True)
    return shared_office


@pytest.mark.parametrize("gate", GATED)
def test_whoever_sent_the_message_does_not_answer(office: Office, gate: str) -> None:
    session, asked = office.ask(gate)
    assert (asked["lets_run"], asked["sent_by"]) == (True, "ada")
    id = asked["interrupt_id"]
    ways = [
        office.ada.resume(session, id, YES),
        office.ada.resume_all(session, {id: YES}),
        office.ada.post(f"/interrupts/{id}/resume", {"value": YES}),
        office.ada.post(f"/interrupts/{id}/claim", {}),
        office.ada.post(f"/interrupts/{id}/snooze", {"seconds": 60}),
    ]
    assert [problem(way, 403)["code"] for way in ways] == ["self_approval"] * len(ways)
    assert office.done == []
    ok(office.bob.post(f"/interrupts/{id}/claim", {}))
    ok(office.bob.resume(session, id, YES))
    assert office.ada.wait(session)["response"]["content"] == "done"
    assert office.done == ["paid 5"]


@pytest.mark.parametrize("gate", GATED)
def test_what_was_let_run_does_not_run_again_after_a_crash(office: Office, gate: str) -> None:
    (office.folder / "crash").touch()
    session, asked = office.ask(gate)
    ok(office.bob.resume(session, asked["interrupt_id"], YES))
    (unknown,) = office.ada.wait(session)["interrupts"]
    assert (unknown["type"], unknown["payload"]["tool_name"]) == ("unknown_outcome", "pay")
    assert office.done == ["paid 5"]
    done = {"outcome": "done", "result": "paid 5"}
    refused = problem(office.ada.resume(session, unknown["interrupt_id"], done), 403)
    assert refused["code"] == "self_approval"
    ok(office.bob.resume(session, unknown["interrupt_id"], done))
    assert office.ada.wait(session)["response"]["content"] == "done"
    assert office.done == ["paid 5"]


@pytest.mark.parametrize("gate", FOR_BOB)
def test_approvers_alone_answer_also_what_came_of_it(office: Office, gate: str) -> None:
    (office.folder / "crash").touch()
    session, asked = office.ask(gate)
    assert asked["approvers"] == ["bob"]
    assert problem(office.root.resume(session, asked["interrupt_id"], YES), 403)["code"] == "not_an_approver"
    ok(office.bob.resume(session, asked["interrupt_id"], YES))
    (unknown,) = office.ada.wait(session)["interrupts"]
    assert (unknown["type"], unknown["approvers"]) == ("unknown_outcome", ["bob"])


@pytest.mark.parametrize("gate", OTHERS)
def test_what_a_tool_asks_itself_is_for_whoever_may_answer(office: Office, gate: str) -> None:
    session, asked = office.ask(gate)
    assert "lets_run" not in asked
    ok(office.ada.resume(session, asked["interrupt_id"], "#fff"))
    assert office.ada.wait(session)["response"]["content"] == "done"


def test_the_audit_says_what_an_answer_let_run(office: Office) -> None:
    session, asked = office.ask("callback")
    ok(office.bob.resume(session, asked["interrupt_id"], YES))
    office.ada.wait(session)
    rows: list[dict[str, Any]] = ok(office.root.get("/audit", interrupt_id=asked["interrupt_id"]))
    (decided,) = [row for row in rows if row["action"] == "decided"]
    told = {name: decided["details"].get(name) for name in ("lets_run", "tool", "args", "sent_by", "value")}
    assert told == {"lets_run": True, "tool": "pay", "args": {"cents": 5}, "sent_by": "ada", "value": YES}
    assert decided["actor"] == "bob"
