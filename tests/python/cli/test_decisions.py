"""Decisions, grants and `hitl policy test` from the command line, at a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitl import _core
from hitl.cli import exit_codes
from tests.python.cli.conftest import Run
from tests.python.support.api import Api, Json, tool_results
from tests.python.support.served import Served

POLICY = """
[[rule]]
name = "much"
effect = "deny"
tool = "pay"
when = "args.amount > 100"
reason = "ask the treasurer"

[[rule]]
name = "bankers"
effect = "allow"
tool = "p*"
agent = "bank"

[[rule]]
name = "rest"
effect = "ask"
tool = "pay"
when = "args.to == 'bob'"
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("puppet", isolation="task", workers=4) as server:
        yield server


@pytest.fixture
def api(served: Served) -> Api:
    return served.api


@pytest.fixture
def asked(api: Api, tmp_path: Path) -> Json:
    return asks(api, api.create(), tmp_path)


def asks(api: Api, session_id: str, folder: Path, questions: int = 1) -> Json:
    call = {"name": "charge", "args": {"ledger": str(folder / "ledger"), "cents": 100}}
    return api.settled(session_id, json.dumps([[call]]), questions)


def decide(hitl: Run, served: Served, session: Json, command: str, *arguments: str) -> int:
    interrupt = session["interrupts"][0]["interrupt_id"]
    return hitl("interrupts", command, interrupt, *arguments, "--url", served.url).returncode


def test_approve_always_is_listed_and_revoked(hitl: Run, served: Served, api: Api, asked: Json, tmp_path: Path) -> None:
    session_id = asked["session_id"]
    assert decide(hitl, served, asked, "approve", "--always") == exit_codes.OK
    api.wait(session_id)
    assert asks(api, session_id, tmp_path, 0)["status"] == "idle"
    (grant,) = json.loads(hitl("sessions", "grants", session_id, "--url", served.url).stdout)
    assert (grant["tool"], grant["decision"]) == ("charge", "approve")
    revoked = hitl("sessions", "revoke", session_id, grant["grant_id"], "--url", served.url)
    assert json.loads(revoked.stdout)["revoked"] is True
    again = hitl("sessions", "revoke", session_id, grant["grant_id"], "--url", served.url)
    assert again.returncode == exit_codes.NOT_FOUND
    assert asks(api, session_id, tmp_path)["status"] == "interrupted"


def test_edit_runs_with_other_arguments(hitl: Run, served: Served, api: Api, asked: Json, tmp_path: Path) -> None:
    wrong = {"ledger": str(tmp_path / "ledger"), "cents": "few"}
    assert decide(hitl, served, asked, "edit", json.dumps(wrong)) != exit_codes.OK
    assert decide(hitl, served, asked, "edit", "[]") == exit_codes.USAGE
    assert decide(hitl, served, asked, "edit", "{") == exit_codes.USAGE
    assert api.session(asked["session_id"])["status"] == "interrupted"
    assert decide(hitl, served, asked, "edit", json.dumps({**wrong, "cents": 5})) == exit_codes.OK
    (told,) = tool_results(api.wait(asked["session_id"]))
    assert told.startswith("charged 5\n\n[A person changed")


def test_reject_with_a_message_of_its_own(hitl: Run, served: Served, api: Api, asked: Json) -> None:
    assert decide(hitl, served, asked, "reject", "--message", "Ask legal first") == exit_codes.OK
    assert tool_results(api.wait(asked["session_id"])) == [{"error": "Ask legal first"}]


@pytest.mark.parametrize("decision", [["approve"], ["reject"], ["edit", "{}"], ["respond", "1"]])
def test_a_question_that_is_no_tool_approval_is_not_decided_but_answered(
    hitl: Run, served: Served, api: Api, tmp_path: Path, decision: list[str]
) -> None:
    calls = [{"name": "ask_three_times", "args": {"ledger": str(tmp_path / "ledger")}}]
    session = api.settled(api.create(), json.dumps([calls]), 1)
    interrupt = session["interrupts"][0]["interrupt_id"]
    refused = hitl("interrupts", decision[0], interrupt, *decision[1:], "--url", served.url)
    assert refused.returncode == exit_codes.USAGE
    assert "is for an interrupt of type tool_approval, and this one is of type question" in refused.stderr
    assert "hint: it is a question, and answered with: hitl interrupts answer ID JSON" in refused.stderr
    assert api.session(session["session_id"])["interrupts"] == session["interrupts"]


def test_respond_is_refused_where_it_is_not_allowed(hitl: Run, served: Served, api: Api, asked: Json) -> None:
    assert decide(hitl, served, asked, "respond", '"done by hand"') != exit_codes.OK
    assert api.session(asked["session_id"])["status"] == "interrupted"


@pytest.mark.parametrize(
    ("args", "agent", "rule", "effect"),
    [
        ('{"amount": 500}', None, "much", "deny"),
        ('{"amount": 5}', "bank", "bankers", "allow"),
        ('{"amount": 5, "to": "bob"}', None, "rest", "ask"),
        ('{"amount": 5, "to": "eve"}', None, None, None),
        ('{"amount": "5"}', "bank", "much", "deny"),
        ("{}", None, "much", "deny"),
    ],
)
def test_policy_test_says_which_rule_decides(
    hitl: Run, tmp_path: Path, args: str, agent: str | None, rule: str | None, effect: str | None
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    more = [] if agent is None else ["--agent", agent]
    tried = hitl("policy", "test", "pay", args, *more)
    assert tried.returncode == exit_codes.OK, tried.stderr
    report = json.loads(tried.stdout)
    assert (report["rule"], report["effect"]) == (rule, effect)
    (decides,) = [look for look in report["looked_at"] if look["look"] == "decides"] or [None]
    assert (decides and decides["name"]) == rule
    if args != '{"amount": 500}' and rule == "much":
        assert decides["failed"]


@pytest.mark.parametrize(
    ("when", "met_by"),
    [
        ("args.stage == 5", [5, 5.0]),
        ("args.stage != 5", ["5", True, None, [5]]),
        ("args.stage in [5, 6]", [5, 5.0]),
        ("type(args.stage) != int || args.stage == 5", [5, 5.0, "5", True, None, [5]]),
    ],
)
def test_values_of_unlike_kinds_are_not_equal_and_a_rule_can_tell(when: str, met_by: list[Any]) -> None:
    policy = f"""[[rule]]\nname = "five"\neffect = "deny"\ntool = "*"\nwhen = "{when}"\n"""
    looks = [(stage, _core.try_policy(policy, "go", {"stage": stage})[0]) for stage in (5, 5.0, "5", True, None, [5])]
    assert [stage for stage, look in looks if look["look"] == "decides"] == met_by
    assert all(look["failed"] is None for _, look in looks)


@pytest.mark.parametrize(
    ("more", "effect"),
    [
        (["--source", "mcp:files"], "deny"),
        (["--source", "mcp:files:0123456789abcdef"], "deny"),
        (["--source", "mcp:files:0123456789abcde"], "ask"),
        (["--metadata", '{"tenant": "acme"}'], "allow"),
        (["--metadata", '{"tenant": "other"}', "--source", "mcp:notes"], None),
        ([], "ask"),
    ],
)
def test_policy_test_tells_calls_apart_by_where_they_come_from(
    hitl: Run, tmp_path: Path, more: list[str], effect: str | None
) -> None:
    (tmp_path / "policy.toml").write_text(
        """
        [[rule]]
        name = "no-files"
        effect = "deny"
        tool = "*"
        when = "source == 'mcp:files'"

        [[rule]]
        name = "acme"
        effect = "allow"
        tool = "*"
        when = "metadata.tenant == 'acme'"
        """
    )
    tried = hitl("policy", "test", "pay", "{}", *more)
    assert tried.returncode == exit_codes.OK, tried.stderr
    assert json.loads(tried.stdout)["effect"] == effect


@pytest.mark.parametrize("metadata", ["{", "[1]"])
def test_metadata_that_is_no_object_is_a_usage_error(hitl: Run, tmp_path: Path, metadata: str) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    tried = hitl("policy", "test", "pay", "{}", "--metadata", metadata)
    assert tried.returncode == exit_codes.USAGE
    assert "--metadata is no" in tried.stderr


@pytest.mark.parametrize(
    ("text", "args", "said"),
    [
        (None, "{}", "cannot read"),
        ("[[rule]]\nname = 1", "{}", "line 2"),
        (POLICY.replace("args.amount > 100", "args.amount = 100"), "{}", "hint: `when` is an expression of CEL"),
        (POLICY, "{", "not JSON"),
        (POLICY, "[1]", "no JSON object"),
    ],
)
def test_what_cannot_be_tried_is_a_usage_error(
    hitl: Run, tmp_path: Path, text: str | None, args: str, said: str
) -> None:
    policy = tmp_path / "other.toml"
    if text is not None:
        policy.write_text(text)
    tried = hitl("policy", "test", "pay", args, HITL_POLICY=str(policy))
    assert tried.returncode == exit_codes.USAGE
    assert said in tried.stderr
