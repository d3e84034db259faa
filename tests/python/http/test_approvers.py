"""Who may answer what: not whoever sent the message, and only approvers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hitl
from hitl import _core
from hitl.client import Client, Unauthorized
from tests.python.support.api import Api, ok, problem, result
from tests.python.support.served import AGENTS, ROOT, Served, clean_environment

YES = {"approved": True}
ALL = ["read", "send", "answer"]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'hitl.db'}"


def test_the_sender_waits_for_somebody_else(store: str) -> None:
    keys = {name: _core.create_key(store, name, ALL, [])[1] for name in ("ada", "bob")}
    with Served("playbook", store=store, prevent_self_approval=True) as server:
        ada, bob = (Api(server.url, api_key=key) for key in keys.values())
        session_id, (asked,) = ada.asked("transfer_approved_by", [])
        assert asked["sent_by"] == "ada"
        refused = problem(ada.resume(session_id, asked["interrupt_id"], YES), 403)
        assert refused["code"] == "self_approval"
        assert ok(bob.resume(session_id, asked["interrupt_id"], YES))["status"] == "running"
        assert result(ada.wait(session_id)) == {"cents": 1}
        assert ada.interrupt(asked["interrupt_id"])["resolved_by"] == "bob"
        ada.close()
        bob.close()


def test_a_group_answers_for_a_tool(store: str) -> None:
    ada = _core.create_key(store, "ada", ALL, [])[1]
    bob = _core.create_key(store, "bob", ALL, ["finance"])[1]
    with Served("playbook", store=store) as server:
        of_ada, of_bob = Api(server.url, api_key=ada), Api(server.url, api_key=bob)
        session_id, (asked,) = of_ada.asked("transfer_approved_by", ["group:finance"])
        assert asked["approvers"] == ["group:finance"]
        refused = problem(of_ada.resume(session_id, asked["interrupt_id"], YES), 403)
        assert refused["code"] == "not_an_approver"
        ok(of_bob.resume(session_id, asked["interrupt_id"], YES))
        assert result(of_ada.wait(session_id)) == {"cents": 1}
        of_ada.close()
        of_bob.close()


def test_what_came_of_a_call_in_a_crash_is_asked_of_its_approvers(store: str, tmp_path: Path) -> None:
    keys = {name: _core.create_key(store, name, ALL, [])[1] for name in ("ada", "bob")}
    with Served("playbook", store=store) as server:
        ada, bob = (Api(server.url, api_key=key) for key in keys.values())
        session_id, (asked,) = ada.asked("launch", str(tmp_path / "trace"))
        ok(bob.resume(session_id, asked["interrupt_id"], YES))
        (unknown,) = ada.wait(session_id)["interrupts"]
        assert (unknown["type"], unknown["approvers"]) == ("unknown_outcome", ["bob"])
        again = {"outcome": "not_done"}
        refused = problem(ada.resume(session_id, unknown["interrupt_id"], again), 403)
        assert refused["code"] == "not_an_approver"
        ok(bob.resume(session_id, unknown["interrupt_id"], again))
        assert result(ada.wait(session_id)) == "launched"
        ada.close()
        bob.close()


def test_without_keys_it_does_not_start(store: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "hitl", "serve", f"{AGENTS}:playbook", "--store", store, "--prevent-self-approval"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert refused.returncode == 2
    assert "hitl keys create" in refused.stderr


@pytest.mark.parametrize("approvers", [["Ada"], ["group:"], ["a b"], [""], ["x"] * 33])
def test_approvers_that_nobody_can_be_are_refused(approvers: list[str]) -> None:
    with pytest.raises(ValueError, match="approvers"):
        hitl.tool(lambda: "", name="pay", requires_approval=True, approvers=approvers)


@pytest.mark.parametrize("approvers", ["ada", [1], [None]])
def test_approvers_are_a_list_of_names(approvers: object) -> None:
    with pytest.raises(TypeError, match="approvers"):
        hitl.tool(lambda: "", name="pay", requires_approval=True, approvers=approvers)  # type: ignore[call-overload]


def test_a_tool_made_of_another_keeps_its_approvers() -> None:
    @hitl.tool(requires_approval=True, approvers=["ada", "ada", "group:finance"])
    async def pay(cents: int) -> str:
        """Pay."""
        return str(cents)

    assert hitl.tool(pay, description="Pay a bill.").approvers == ("ada", "group:finance")


def test_what_a_revoked_key_listens_to_ends(store: str) -> None:
    ada, root = (_core.create_key(store, name, ["admin"], [])[1] for name in ("ada", "root"))
    with (
        Served("playbook", store=store) as server,
        Client(server.url, api_key=ada) as listener,
        Client(server.url, api_key=root) as admin,
        listener.events() as events,
    ):
        (key_id,) = (key.key_id for key in admin.list_keys() if key.name == "ada")
        admin.revoke_key(key_id)
        with pytest.raises(Unauthorized):
            next(iter(events))
