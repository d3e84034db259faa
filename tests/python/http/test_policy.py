"""Standing rules of a server and of a session: they allow, ask and deny, are named, and fail closed."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.python.http.conftest import Serve
from tests.python.support.api import Api, Json, ok, problem, tool_results
from tests.python.support.event_stream import listen
from tests.python.support.served import ROOT, Served, clean_environment

RULES = """
[[rule]]
name = "no-charity"
effect = "deny"
tool = "charge"
when = "args.cents > 1000"
reason = "ask the treasurer"

[[rule]]
name = "small-change"
effect = "allow"
tool = "char*"
when = "args.cents < 10"

[[rule]]
name = "notes-are-read"
effect = "ask"
tool = "note"

[[rule]]
name = "never-delete"
effect = "deny"
tool = "delete_*"
agent = "puppet"
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def ruled(serve: Serve, policy: Path) -> Served:
    return serve("puppet", policy=policy)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def charge(ledger: Path, cents: int) -> Json:
    return {"name": "charge", "args": {"ledger": str(ledger), "cents": cents}}


def asks(api: Api, *calls: Json, questions: int = 0, rules: list[Json] | None = None) -> Json:
    """A new session after a turn in which the model makes these calls at once."""
    response = api.post("/sessions", {} if rules is None else {"rules": rules})
    assert response.status_code == 201, response.text
    return api.settled(response.json()["session_id"], json.dumps([list(calls)]), questions)


def effects(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


def records(api: Api, session: Json) -> list[Json]:
    found: list[Json] = ok(api.get("/interrupts", session_id=session["session_id"]))
    return found


def policy_health(api: Api) -> Json:
    health: Json = ok(api.get("/health"))["policy"]
    return health


def replace(policy: Path, text: str) -> None:
    """As an editor does it: the file is never half written."""
    other = policy.with_suffix(".new")
    other.write_text(text)
    other.replace(policy)


def until(api: Api, holds: Any, timeout: float = 100.0) -> Json:
    deadline = time.monotonic() + timeout
    while not holds(health := policy_health(api)):
        assert time.monotonic() < deadline, health
        time.sleep(0.05)
    return health


class TestServerRules:
    def test_an_allowed_call_runs_without_asking_and_is_recorded(self, ruled: Served, ledger: Path) -> None:
        session = asks(ruled.api, charge(ledger, 5))
        assert session["status"] == "idle"
        assert len(effects(ledger)) == 1
        (record,) = records(ruled.api, session)
        assert (record["status"], record["rule"], record["resolved_by"]) == (
            "resolved",
            "policy:small-change",
            "policy",
        )
        assert record["value"] == {"type": "approve", "by": "policy"}

    def test_a_denied_call_does_not_run_and_the_model_hears_why(self, ruled: Served, ledger: Path) -> None:
        session = asks(ruled.api, charge(ledger, 5000))
        assert tool_results(session) == [{"error": "Policy rejected charge: ask the treasurer"}]
        assert effects(ledger) == []
        (record,) = records(ruled.api, session)
        assert (record["rule"], record["value"]["type"]) == ("policy:no-charity", "reject")

    def test_without_a_reason_the_model_hears_that_it_was_the_policy(self, ruled: Served, tmp_path: Path) -> None:
        victim = tmp_path / "x"
        victim.write_text("x")
        session = asks(ruled.api, {"name": "delete_file", "args": {"path": str(victim)}})
        assert tool_results(session) == [{"error": "Policy rejected delete_file"}]
        assert victim.exists()

    def test_a_call_that_no_rule_is_for_asks_as_ever(self, ruled: Served, ledger: Path) -> None:
        session = asks(ruled.api, charge(ledger, 500), questions=1)
        (interrupt,) = session["interrupts"]
        assert interrupt["rule"] is None

    def test_a_rule_has_a_tool_ask_that_needs_no_approval(self, ruled: Served, ledger: Path) -> None:
        session = asks(ruled.api, {"name": "note", "args": {"ledger": str(ledger), "text": "hi"}}, questions=1)
        (interrupt,) = session["interrupts"]
        assert interrupt["rule"] == "policy:notes-are-read"
        assert effects(ledger) == []
        ok(ruled.api.resume(session["session_id"], interrupt["interrupt_id"], {"approved": True}))
        assert ruled.api.wait(session["session_id"])["status"] == "idle"
        assert len(effects(ledger)) == 1

    def test_a_tool_that_needs_no_approval_and_has_no_rule_leaves_no_record(self, ruled: Served) -> None:
        session = asks(ruled.api, {"name": "environment_of_tool", "args": {}})
        assert session["status"] == "idle"
        assert records(ruled.api, session) == []

    def test_an_edit_into_what_a_rule_denies_is_refused(self, ruled: Served, ledger: Path) -> None:
        session = asks(ruled.api, charge(ledger, 500), questions=1)
        interrupt = session["interrupts"][0]["interrupt_id"]
        edited = {"ledger": str(ledger), "cents": 5000}
        for value in [{"type": "edit", "args": edited}, {"approved": True, "args": edited}]:
            refused = problem(ruled.api.resume(session["session_id"], interrupt, value), 422)
            assert "no-charity" in refused["detail"]
            assert refused["errors"][0]["loc"][-1] == "args"
            assert ruled.api.session(session["session_id"])["interrupts"] == session["interrupts"]
        edited["cents"] = 400
        ok(ruled.api.resume(session["session_id"], interrupt, {"type": "edit", "args": edited}))
        assert ruled.api.wait(session["session_id"])["status"] == "idle"
        assert len(effects(ledger)) == 1

    def test_automatic_decisions_open_no_interrupt(self, ruled: Served, ledger: Path) -> None:
        session_id = ruled.api.create()
        with listen(ruled.api, f"/sessions/{session_id}/events") as stream:
            assert ruled.api.send(session_id, json.dumps([[charge(ledger, 5)]])).status_code == 202
            seen = [event.event for event in stream.until("session.idle")]
        assert seen == ["session.running", "interrupt.resolved", "session.idle"]


class TestHotReload:
    def test_a_changed_file_holds_without_a_restart(self, ruled: Served, policy: Path, ledger: Path) -> None:
        assert policy_health(ruled.api)["rules"] == 4
        replace(policy, '[[rule]]\nname = "all"\neffect = "allow"\ntool = "*"\n')
        until(ruled.api, lambda health: health["rules"] == 1)
        assert asks(ruled.api, charge(ledger, 5000))["status"] == "idle"
        assert len(effects(ledger)) == 1

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ('[[rule]]\nname = "all"\neffect = "allow"\ntool = \n', 4),
            ('[[rule]]\nname = "all"\neffect = "permit"\ntool = "*"\n', 3),
            ('[[rule]]\nname = "all"\neffect = "allow"\ntool = "*"\nwhen = "args.x >"\n', 5),
        ],
    )
    def test_a_broken_file_keeps_the_rules_and_says_so(
        self, ruled: Served, policy: Path, ledger: Path, text: str, line: int
    ) -> None:
        before = policy_health(ruled.api)
        replace(policy, text)
        broken = until(ruled.api, lambda health: health["error"] is not None)
        assert f"line {line}" in broken["error"]
        assert (broken["rules"], broken["loaded_at"]) == (before["rules"], before["loaded_at"])
        ruled.wait_for_line(f"line {line}")
        assert tool_results(asks(ruled.api, charge(ledger, 5000))) == [
            {"error": "Policy rejected charge: ask the treasurer"}
        ]
        replace(policy, RULES)
        assert until(ruled.api, lambda health: health["error"] is None)["rules"] == 4

    def test_a_file_that_is_gone_keeps_the_rules(self, ruled: Served, policy: Path) -> None:
        policy.unlink()
        assert until(ruled.api, lambda health: health["error"] is not None)["rules"] == 4

    def test_what_is_denied_by_now_cannot_be_approved(self, ruled: Served, policy: Path, ledger: Path) -> None:
        session = asks(ruled.api, charge(ledger, 500), questions=1)
        interrupt = session["interrupts"][0]["interrupt_id"]
        replace(policy, '[[rule]]\nname = "closed"\neffect = "deny"\ntool = "*"\n')
        until(ruled.api, lambda health: health["rules"] == 1)
        assert (
            "closed" in problem(ruled.api.resume(session["session_id"], interrupt, {"approved": True}), 422)["detail"]
        )
        ok(ruled.api.resume(session["session_id"], interrupt, {"approved": False}))
        assert tool_results(ruled.api.wait(session["session_id"])) == [{"error": "User rejected charge"}]


class TestSessionRules:
    def test_they_come_before_those_of_the_server(self, ruled: Served, ledger: Path) -> None:
        rules = [{"name": "mine", "effect": "allow", "tool": "charge", "when": "args.cents == 5000"}]
        assert asks(ruled.api, charge(ledger, 5000), rules=rules)["status"] == "idle"
        assert len(effects(ledger)) == 1
        assert tool_results(asks(ruled.api, charge(ledger, 5001), rules=rules)) == [
            {"error": "Policy rejected charge: ask the treasurer"}
        ]

    def test_they_hold_on_a_server_without_rules_and_after_a_restart(
        self, serve: Serve, store: str, ledger: Path
    ) -> None:
        rules = [{"name": "mine", "effect": "deny", "tool": "note", "agent": "puppet"}]
        server = serve("puppet", store=store)
        session = asks(server.api, rules=rules)
        server.kill()
        api = serve("puppet", store=store).api
        call = {"name": "note", "args": {"ledger": str(ledger), "text": "hi"}}
        denied = api.settled(session["session_id"], json.dumps([[call]]), 0)
        assert tool_results(denied) == [{"error": "Policy rejected note"}]
        assert api.session(session["session_id"])["rules"] == rules
        assert "rules" not in api.session(api.create())

    def test_a_missing_argument_has_a_person_asked(self, puppet: Api, ledger: Path) -> None:
        rules = [{"name": "odd", "effect": "allow", "tool": "charge", "when": "args.amount < 10"}]
        session = asks(puppet, charge(ledger, 5), questions=1, rules=rules)
        assert session["interrupts"][0]["rule"] == "policy:odd"
        assert effects(ledger) == []

    @pytest.mark.parametrize(
        ("rule", "place"),
        [
            ({"effect": "allow", "tool": "*"}, ["rules", 0, "name"]),
            ({"name": "a", "effect": "permit", "tool": "*"}, ["rules", 0, "effect"]),
            ({"name": "a", "effect": "allow"}, ["rules", 0, "tool"]),
            ({"name": "a", "effect": "allow", "tool": "*", "when": "1 +"}, ["rules", 0, "when"]),
            ({"name": "a", "effect": "allow", "tool": "*", "when": "amount > 1"}, ["rules", 0, "when"]),
            ({"name": "a", "effect": "allow", "tool": "*", "wen": "true"}, ["rules", 0, "wen"]),
            ("allow all", ["rules", 0]),
        ],
    )
    def test_rules_that_are_none_make_no_session(self, puppet: Api, rule: Any, place: list[Any]) -> None:
        before = ok(puppet.get("/health"))["total_sessions"]
        refused = problem(puppet.post("/sessions", {"rules": [rule]}), 422)
        assert refused["errors"][0]["loc"] == ["body", *place]
        assert ok(puppet.get("/health"))["total_sessions"] == before


def test_a_policy_that_cannot_be_used_is_a_usage_error(tmp_path: Path) -> None:
    store = tmp_path / "hitl.db"
    policy = tmp_path / "policy.toml"
    for text in ("[[rule]]\nname = 1\n", None):
        if text is None:
            policy.unlink()
        else:
            policy.write_text(text)
        ended = subprocess.run(
            Served.command("puppet", {"port": 0, "store": f"sqlite:{store}", "policy": policy}),
            check=False,
            cwd=ROOT,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert ended.returncode == 2, ended.stderr
        assert str(policy) in ended.stderr
        assert "hint" in ended.stderr
        assert not store.exists()
