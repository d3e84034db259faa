"""Standing rules of a server and of a session: they allow, ask and deny, are named, and fail closed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitl import _core
from tests.python.http.conftest import Serve
from tests.python.support.api import Api, Json, ok, problem, result, tool_results
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
        steps = ("message.completed", "tool.started", "tool.finished")
        assert [event for event in seen if event not in steps] == [
            "session.running",
            "interrupt.resolved",
            "session.idle",
        ]


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

    @pytest.mark.parametrize("text", ["", "\n", "# [[rule]]\n# name = 'a'\n", RULES[: RULES.index("[[rule]]") + 8]])
    def test_a_file_that_lost_its_rules_keeps_them(self, ruled: Served, policy: Path, ledger: Path, text: str) -> None:
        policy.write_text(text)
        assert until(ruled.api, lambda health: health["error"] is not None)["rules"] == 4
        assert tool_results(asks(ruled.api, charge(ledger, 5000))) == [
            {"error": "Policy rejected charge: ask the treasurer"}
        ]
        policy.write_text('# closed for now\nrules = "none"\n')
        assert until(ruled.api, lambda health: health["rules"] == 0)["error"] is None

    def test_a_turn_meets_the_rules_that_there_are_when_it_is_taken_up(
        self, serve: Serve, store: str, policy: Path, ledger: Path
    ) -> None:
        before = serve("puppet", store=store)
        note = {"name": "note", "args": {"ledger": str(ledger), "text": "hi"}}
        session_id = before.api.create()
        asked = before.api.settled(session_id, json.dumps([[note, charge(ledger, 500)], [note]]), 1)
        before.kill()
        policy.write_text('[[rule]]\nname = "closed"\neffect = "deny"\ntool = "note"\n')
        api = serve("puppet", store=store, policy=policy).api
        ok(api.resume(session_id, asked["interrupts"][0]["interrupt_id"], {"approved": True}))
        done = api.wait(session_id)
        # What it did before is in its journal; what it does now is for the rules.
        assert done["status"] == "idle"
        assert tool_results(done)[-1] == {"error": "Policy rejected note"}
        assert effects(ledger) == ["hi", "charged 500"]


NEWER = """
[[rule]]
name = "large-by-finance"
effect = "ask"
tool = "charge"
when = "args.cents > 1000"
approvers = ["group:finance"]
"""
DENY_MUCH = '[[rule]]\nname = "much"\neffect = "deny"\ntool = "charge"\nwhen = "args.cents > 1000"\n'


class TestWhatPeopleSay:
    """An edit, a yes, an "always" and a second run are for the rules of now, approvers and all."""

    @pytest.fixture
    def keys(self, tmp_path: Path) -> dict[str, str]:
        store, scopes = f"sqlite:{tmp_path / 'keys.db'}", ["read", "send", "answer"]
        groups: dict[str, list[str]] = {"ada": [], "bob": ["finance"]}
        return {name: _core.create_key(store, name, scopes, group)[1] for name, group in groups.items()}

    @pytest.fixture
    def people(self, serve: Serve, tmp_path: Path, keys: dict[str, str], policy: Path) -> Iterator[tuple[Api, Api]]:
        policy.write_text(NEWER)
        server = serve("puppet", store=f"sqlite:{tmp_path / 'keys.db'}", policy=policy)
        ada, bob = (Api(server.url, api_key=keys[name]) for name in ("ada", "bob"))
        yield ada, bob
        ada.close()
        bob.close()

    def test_approvers_of_a_rule_hold_for_an_edit_however_it_comes(self, people: tuple[Api, Api], ledger: Path) -> None:
        ada, bob = people
        session_id = ada.create()
        asked = ada.settled(session_id, json.dumps([[charge(ledger, 5), charge(ledger, 6)]]), 2)
        first, second = (interrupt["interrupt_id"] for interrupt in asked["interrupts"])
        edit = {"type": "edit", "args": {"ledger": str(ledger), "cents": 999_999}}
        batch = [{"interrupt_id": second, "value": {"approved": True}}, {"interrupt_id": first, "value": edit}]
        for refused in (
            ada.resume(session_id, first, edit),
            ada.resume(session_id, first, {"approved": True, "args": edit["args"]}),
            ada.post(f"/interrupts/{first}/resume", {"value": edit}),
            ada.post(f"/sessions/{session_id}/resume", {"resume": batch}),
        ):
            said = problem(refused, 403)
            assert said["code"] == "not_an_approver"
            assert "large-by-finance" in said["detail"]
        assert ada.session(session_id)["interrupts"] == asked["interrupts"]
        ok(bob.resume(session_id, first, edit))
        ok(ada.resume(session_id, second, {"approved": True}))
        assert ada.wait(session_id)["status"] == "idle"
        assert sorted(effects(ledger)) == ["charged 6", "charged 999999"]

    def test_approvers_of_a_newer_rule_hold_for_a_plain_yes(
        self, people: tuple[Api, Api], policy: Path, ledger: Path
    ) -> None:
        ada, bob = people
        session_id = ada.create()
        asked = ada.settled(session_id, json.dumps([[charge(ledger, 500)]]), 1)["interrupts"][0]["interrupt_id"]
        replace(policy, NEWER.replace("> 1000", "> 100").replace("large", "some") + NEWER)
        until(ada, lambda health: health["rules"] == 2)
        for value in ({"approved": True}, {"approved": True, "always": True}):
            said = problem(ada.resume(session_id, asked, value), 403)
            assert "some-by-finance" in said["detail"]
        ok(bob.resume(session_id, asked, {"approved": True}))
        assert ada.wait(session_id)["status"] == "idle"
        assert len(effects(ledger)) == 1

    def test_always_leaves_what_a_plain_yes_could_not_let_through(
        self, serve: Serve, policy: Path, ledger: Path
    ) -> None:
        policy.write_text('rules = "none"')
        api = serve("puppet", policy=policy).api
        session_id = api.create()
        asked = api.settled(session_id, json.dumps([[charge(ledger, cents) for cents in (5, 5000, 6)]]), 3)
        small, much, _ = asked["interrupts"]
        replace(policy, DENY_MUCH)
        until(api, lambda health: health["rules"] == 1)
        ok(api.resume(session_id, small["interrupt_id"], {"approved": True, "always": True}))
        (left,) = api.session(session_id)["interrupts"]
        assert left["interrupt_id"] == much["interrupt_id"]
        ok(api.resume(session_id, much["interrupt_id"], {"approved": False}))
        assert api.wait(session_id)["status"] == "idle"
        assert sorted(effects(ledger)) == ["charged 5", "charged 6"]

    def test_what_is_denied_by_now_does_not_run_again_after_a_crash(
        self, serve: Serve, keys: dict[str, str], policy: Path, tmp_path: Path
    ) -> None:
        policy.write_text('rules = "none"')
        server = serve("playbook", store=f"sqlite:{tmp_path / 'keys.db'}", policy=policy)
        bob = Api(server.url, api_key=keys["bob"])
        session_id, (asked,) = bob.asked("launch", str(tmp_path / "trace"))
        ok(bob.resume(session_id, asked["interrupt_id"], {"approved": True}))
        (unknown,) = bob.wait(session_id)["interrupts"]
        assert unknown["type"] == "unknown_outcome"
        replace(policy, f'[[rule]]\nname = "grounded"\neffect = "deny"\ntool = "{unknown["payload"]["tool_name"]}"\n')
        until(bob, lambda health: health["rules"] == 1)
        refused = problem(bob.resume(session_id, unknown["interrupt_id"], {"outcome": "not_done"}), 422)
        assert "grounded" in refused["detail"]
        assert refused["errors"][0]["type"] == "denied"
        ok(bob.resume(session_id, unknown["interrupt_id"], {"outcome": "done", "result": "by hand"}))
        assert result(bob.wait(session_id)) == "by hand"
        bob.close()


class TestRulesThatCannotTell:
    def test_a_deny_rule_denies_whatever_was_granted_and_the_record_says_why(self, puppet: Api, ledger: Path) -> None:
        rules = [{"name": "odd", "effect": "deny", "tool": "charge", "when": "args.cents > 3 && args.limit > 100"}]
        session = asks(puppet, charge(ledger, 1), questions=1, rules=rules)
        session_id, (asked,) = session["session_id"], session["interrupts"]
        assert "rule_failed" not in asked
        edit = {"type": "edit", "args": {"ledger": str(ledger), "cents": 5}}
        refused = problem(puppet.resume(session_id, asked["interrupt_id"], edit), 422)
        assert refused["errors"][0]["type"] == "rule_failed"
        ok(puppet.resume(session_id, asked["interrupt_id"], {"approved": True, "always": True}))
        puppet.wait(session_id)
        denied = puppet.settled(session_id, json.dumps([[charge(ledger, 2), charge(ledger, 5)]]), 0)
        assert {"error": "Policy rejected charge"} in tool_results(denied)
        assert effects(ledger) == ["charged 1", "charged 2"]
        record = next(record for record in records(puppet, session) if record["rule"] == "policy:odd")
        assert 'rule "odd" could not tell: ' in record["rule_failed"]
        assert "limit" in record["rule_failed"]

    @pytest.mark.parametrize("effect", ["ask", "allow"])
    def test_a_person_is_asked_whatever_was_granted(self, puppet: Api, ledger: Path, effect: str) -> None:
        rules = [{"name": "odd", "effect": effect, "tool": "charge", "when": "args.cents > 3 && args.limit > 100"}]
        session = asks(puppet, charge(ledger, 1), questions=1, rules=rules)
        session_id, (asked,) = session["session_id"], session["interrupts"]
        ok(puppet.resume(session_id, asked["interrupt_id"], {"approved": True, "always": True}))
        puppet.wait(session_id)
        (again,) = puppet.settled(session_id, json.dumps([[charge(ledger, 5)]]), 1)["interrupts"]
        assert (again["rule"], effects(ledger)) == ("policy:odd", ["charged 1"])
        assert "limit" in again["rule_failed"]

    def test_one_that_could_take_all_memory_makes_no_session(self, puppet: Api) -> None:
        when = f"size([tool]{'.map(x,x+x)' * 40}) > 0"
        refused = puppet.post("/sessions", {"rules": [{"name": "a", "effect": "deny", "tool": "*", "when": when}]})
        assert problem(refused, 422)["errors"][0]["loc"] == ["body", "rules", 0, "when"]


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


FROM = """
[[rule]]
name = "no-files"
effect = "deny"
tool = "*"
when = "source == 'mcp:files'"

[[rule]]
name = "acme"
effect = "allow"
tool = "transfer"
when = "metadata.tenant == 'acme'"
"""


def test_rules_see_where_a_tool_is_from_and_what_the_code_says_of_a_call(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(FROM)
    api = serve("playbook", policy=path).api
    acme = {"metadata": {"tenant": "acme"}}
    assert result(api.run(api.create(), "transfer_from", acme)) == {"cents": 1}
    assert "Policy rejected transfer" in result(api.run(api.create(), "transfer_from", {**acme, "source": "mcp:files"}))
    asked = api.run(api.create(), "transfer_from", {"source": "mcp:notes"})["interrupts"][0]
    assert (asked["rule"], asked["tool_source"]) == ("policy:acme", "mcp:notes")
    assert asked["rule_failed"].startswith('rule "acme" could not tell: ')
