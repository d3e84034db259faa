"""`hitl interrupts claim|release|snooze|unsnooze`, and answering what somebody else has claimed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hitl import _core
from hitl.cli import exit_codes
from tests.python.cli.conftest import Finished, Run
from tests.python.cli.conversation import Open
from tests.python.support.api import Api, result
from tests.python.support.served import Served


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server without keys: who one is is what one says."""
    with Served("playbook", isolation="task", workers=4) as server:
        yield server


@pytest.fixture
def asked(served: Served) -> str:
    return served.api.ask({"type": "question"})[1]


class Desk:
    """`hitl interrupts` at one server."""

    def __init__(self, hitl: Run, **variables: str) -> None:
        self._hitl, self._variables = hitl, variables

    def __call__(self, command: str, *arguments: str) -> Finished:
        return self._hitl("interrupts", command, *arguments, **self._variables)

    def done(self, command: str, *arguments: str) -> Any:
        finished = self(command, *arguments)
        assert finished.returncode == exit_codes.OK, finished.stderr
        return json.loads(finished.stdout)


@pytest.fixture
def desk(hitl: Run, served: Served) -> Desk:
    return Desk(hitl, HITL_URL=served.url)


def test_what_somebody_claimed_only_they_answer(desk: Desk, served: Served, asked: str) -> None:
    claimed = desk.done("claim", asked, "--as", "ada", "--seconds", "60")
    assert (claimed["interrupt_id"], claimed["claimed_by"]) == (asked, "ada")
    until = claimed["claimed_until"]
    for command in (("claim", asked, "--as", "bob"), ("answer", asked, "1"), ("release", asked)):
        refused = desk(*command)
        assert refused.returncode == exit_codes.CONFLICT
        assert f"claimed by ada until {until}" in refused.stderr
        assert "hitl interrupts release ID" in refused.stderr
    desk.done("answer", asked, "1", "--as", "ada")
    assert served.api.interrupt(asked)["value"] == 1


def test_released_it_is_anybodys(desk: Desk, asked: str) -> None:
    desk.done("claim", asked, "--as", "ada")
    assert [record["interrupt_id"] for record in desk.done("list", "--claimed-by", "ada")] == [asked]
    assert "claimed_by" not in desk.done("release", asked, "--as", "ada")
    assert desk.done("claim", asked, "--as", "bob")["claimed_by"] == "bob"


def test_a_snooze_is_no_answer(desk: Desk, served: Served, asked: str) -> None:
    snoozed = desk.done("snooze", asked, "--seconds", "3600", "--as", "ada")
    assert (snoozed["status"], snoozed["snoozed_by"]) == ("pending", "ada")
    assert asked in [record["interrupt_id"] for record in desk.done("list", "--snoozed")]
    assert asked not in [record["interrupt_id"] for record in desk.done("list", "--not-snoozed")]
    assert "snoozed_until" not in desk.done("unsnooze", asked)
    desk.done("answer", asked, "true")
    assert served.api.interrupt(asked)["value"] is True


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("claim",), exit_codes.USAGE, "is required: this server has no keys"),
        (("claim", "--as", "ada", "--seconds", "0"), exit_codes.USAGE, "seconds"),
        (("claim", "--as", "ada", "--seconds", "inf"), exit_codes.USAGE, "--seconds: inf is no number of seconds"),
        (("snooze",), exit_codes.USAGE, "--seconds"),
        (("snooze", "--seconds", "nan"), exit_codes.USAGE, "--seconds: nan is no number of seconds"),
    ],
)
def test_what_is_missing_is_said(desk: Desk, asked: str, command: tuple[str, ...], code: int, said: str) -> None:
    refused = desk(command[0], asked, *command[1:])
    assert refused.returncode == code
    assert said in refused.stderr


def test_what_is_not_there_is_neither_claimed_nor_snoozed(desk: Desk) -> None:
    nothing = "00000000-0000-4000-8000-000000000000"
    for command in (("claim", nothing, "--as", "ada"), ("release", nothing), ("snooze", nothing, "--seconds", "1")):
        assert desk(*command).returncode == exit_codes.NOT_FOUND


def test_a_person_is_told_in_words(terminal: Open, served: Served, asked: str) -> None:
    shown = terminal("interrupts", "claim", asked, "--as", "ada", HITL_URL=served.url)
    shown.expect("Claimed by ada until 20")
    assert shown.finish() == 0
    shown = terminal("interrupts", "snooze", asked, "--seconds", "60", HITL_URL=served.url)
    shown.expect("Claimed by ada until 20")
    shown.expect("Snoozed until 20")
    assert shown.finish() == 0
    terminal("interrupts", "release", asked, "--as", "ada", HITL_URL=served.url).finish()
    shown = terminal("interrupts", "unsnooze", asked, HITL_URL=served.url)
    shown.expect("Claimed by nobody, and not snoozed.")
    assert shown.finish() == 0


def test_with_keys_the_name_is_that_of_the_key(hitl: Run, store: str) -> None:
    scopes = {"ada": ["read", "send", "answer"], "bob": ["read", "answer"], "root": ["admin"]}
    keys = {name: _core.create_key(store, name, given, [])[1] for name, given in scopes.items()}
    with Served("playbook", store=store, prevent_self_approval=True) as server:
        ada, bob, root = (Desk(hitl, HITL_URL=server.url, HITL_API_KEY=key) for key in keys.values())
        api = Api(server.url, api_key=keys["ada"])
        session_id, (asked,) = api.asked("transfer_approved_by", ["bob", "root"])
        for refused in (ada("claim", asked["interrupt_id"]), ada("approve", asked["interrupt_id"])):
            assert refused.returncode == exit_codes.RUNTIME
            assert "Only these may answer, with a key of theirs: bob, root" in refused.stderr
            assert "leave it to one of them" in refused.stderr
        assert root.done("claim", asked["interrupt_id"], "--as", "eve")["claimed_by"] == "root"
        assert "claimed by root" in bob("approve", asked["interrupt_id"]).stderr
        root.done("release", asked["interrupt_id"])
        bob.done("approve", asked["interrupt_id"])
        assert result(api.wait(session_id)) == {"cents": 1}
        own_id = api.asked("transfer_approved_by", [])[1][0]["interrupt_id"]
        own = ada("approve", own_id)
        assert (own.returncode, "somebody with another key" in own.stderr) == (exit_codes.RUNTIME, True)
        api.close()


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:{tmp_path_factory.mktemp('store') / 'hitl.db'}"
