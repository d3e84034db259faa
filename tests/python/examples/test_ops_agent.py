"""The operator: rules and groups decide, and what nobody answers escalates, then is a no."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitl import _core
from tests.python.support.api import Api, ok, problem
from tests.python.support.event_stream import listen
from tests.python.support.served import ROOT, Served

YES = {"approved": True}


class Ops:
    """A server with the rules of the example, and a key for each of three people."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._services = folder / "services.json"
        store = f"sqlite:{folder / 'hitl.db'}"
        rights = ["read", "send", "answer"]
        keys = {
            name: _core.create_key(store, name, rights, groups)[1]
            for name, groups in {"ada": ["oncall"], "lena": ["leads"], "bob": []}.items()
        }
        environment = {"OPS_SERVICES": str(self._services), "OPS_PATIENCE": options.pop("patience", "600")}
        self.server = Served(
            "examples.ops_agent:agent",
            store=store,
            policy=str(ROOT / "examples/ops_policy.toml"),
            environment=environment,
            **options,
        )
        self.ada, self.lena, self.bob = (Api(self.server.url, api_key=key) for key in keys.values())

    @property
    def has_changed(self) -> bool:
        """Whether anything was changed: nobody writes the file before."""
        return self._services.exists()

    @property
    def services(self) -> dict[str, dict[str, int]]:
        """What runs."""
        services: dict[str, dict[str, int]] = json.loads(self._services.read_text())
        return services

    def ask(self, content: str) -> tuple[str, dict[str, Any]]:
        """Let bob say something, in a session of its own; that session once it does not run any more."""
        session_id = self.bob.create()
        assert self.bob.send(session_id, content).status_code == 202
        return session_id, self.bob.wait(session_id)

    def ask_nobody(self, content: str) -> tuple[str, dict[str, Any]]:
        """The same, where nobody answers what is asked: the session once its turn is over."""
        session_id = self.bob.create()
        with listen(self.bob, f"/sessions/{session_id}/events") as stream:
            assert self.bob.send(session_id, content).status_code == 202
            stream.until(lambda event: event.event in ("session.idle", "session.error"))
        return session_id, self.bob.session(session_id)

    def close(self) -> None:
        for api in (self.ada, self.lena, self.bob):
            api.close()
        self.server.stop()


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ops]:
    ops = Ops(tmp_path_factory.mktemp("patient"))
    yield ops
    ops.close()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ops]:
    ops = Ops(tmp_path_factory.mktemp("hasty"), patience="0.2", interrupt_ttl=0.2)
    yield ops
    ops.close()


def said(session: dict[str, Any]) -> str:
    assert session["status"] == "idle", session
    text: str = session["response"]["content"]
    return text


def test_staging_asks_nobody(patient: Ops) -> None:
    assert said(patient.ask("restart staging-web")[1]) == "Done: staging-web was restarted."
    assert patient.services["staging-web"]["restarts"] == 1


def test_production_is_for_those_on_call(patient: Ops) -> None:
    session_id, session = patient.ask("scale web to 5")
    (asked,) = session["interrupts"]
    assert (asked["rule"], asked["approvers"]) == ("policy:production-is-on-call", ["group:oncall"])
    for other in (patient.bob, patient.lena):
        refused = problem(other.resume(session_id, asked["interrupt_id"], YES), 403)
        assert refused["code"] == "not_an_approver"
    ok(
        patient.ada.resume(
            session_id, asked["interrupt_id"], {"approved": True, "args": {"service": "web", "replicas": 4}}
        )
    )
    assert "web runs 4 times" in said(patient.bob.wait(session_id))
    assert patient.services["web"]["replicas"] == 4


def test_an_edit_meets_the_rules_as_well(patient: Ops) -> None:
    session_id, session = patient.ask("scale web to 6")
    (asked,) = session["interrupts"]
    many = {"approved": True, "args": {"service": "web", "replicas": 21}}
    refused = problem(patient.ada.resume(session_id, asked["interrupt_id"], many), 422)
    assert refused["errors"][0]["type"] == "denied"
    ok(patient.ada.resume(session_id, asked["interrupt_id"], {"approved": False, "reason": "not today"}))
    assert said(patient.bob.wait(session_id)) == "I was told: User rejected scale: not today"


def test_what_is_denied_is_told_to_the_model(patient: Ops) -> None:
    told = said(patient.ask("scale staging-web to 30")[1])
    assert told == "I was told: Policy rejected scale: more than 20 replicas are not paid for"


def test_nobody_is_asked_about_what_is_not_there(patient: Ops) -> None:
    assert "there is no service 'shop'" in said(patient.ask("delete shop")[1])


def test_a_yes_of_those_on_call_deletes(patient: Ops) -> None:
    session_id, session = patient.ask("delete web")
    (asked,) = session["interrupts"]
    assert asked["approvers"] == ["group:oncall"]
    ok(patient.ada.resume(session_id, asked["interrupt_id"], YES))
    assert said(patient.bob.wait(session_id)) == "Done: web is gone."
    assert "web" not in patient.services


def test_what_nobody_answers_escalates_and_then_stays(hasty: Ops) -> None:
    session_id, session = hasty.ask_nobody("delete web")
    assert said(session) == "I was told: nobody answered, so web stays"
    expired = ok(hasty.bob.get("/interrupts", status="expired"))
    asked = [one["approvers"] for one in expired if one["session_id"] == session_id]
    assert sorted(asked) == [["group:leads"], ["group:oncall"]]


def test_a_question_of_a_rule_expires_and_nothing_runs(hasty: Ops) -> None:
    assert said(hasty.ask_nobody("restart web")[1]) == "I was told: nobody answered in time"
    assert not hasty.has_changed
