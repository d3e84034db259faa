"""`hitl keys`: on a store that no server has, and at a server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hitl.client import Client, Forbidden, Unauthorized
from hitl.serving.server import worker_environment
from tests.python.cli.conftest import Run
from tests.python.support.served import ROOT, Served, clean_environment


def made(hitl: Run, *arguments: str, **variables: str) -> Any:
    """The key that `hitl keys create` prints."""
    finished = hitl("keys", "create", *arguments, **variables)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_a_key_made_on_a_store_opens_its_server(hitl: Run, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    key = made(hitl, "ada", "--scope", "read", "--scope", "admin", "--group", "finance", "--store", store)
    assert key["key"].startswith("hitl_")
    assert (key["name"], key["scopes"], key["groups"]) == ("ada", ["read", "admin"], ["finance"])
    with Served("playbook", store=store) as server:
        with Client(server.url) as nobody, pytest.raises(Unauthorized):
            nobody.list_sessions()
        listed = hitl("keys", "list", HITL_URL=server.url, HITL_API_KEY=key["key"])
        assert json.loads(listed.stdout) == [{name: value for name, value in key.items() if name != "key"}]
        # Reading it beside its server is fine, changing it is not.
        assert json.loads(hitl("keys", "list", "--store", store).stdout) == json.loads(listed.stdout)
        refused = hitl("keys", "revoke", "ada", "--store", store)
        assert (refused.returncode, "in use by" in refused.stderr) == (2, True)
        assert "leave --store out, and ask the server that has it (--url)" in refused.stderr
    content = (tmp_path / "hitl.db").read_bytes()
    assert key["key"].encode() not in content


def test_a_first_key_that_shuts_everybody_out_is_made_only_where_that_is_said(hitl: Run) -> None:
    with Served("playbook") as server:
        at = {"HITL_URL": server.url}
        refused = hitl("keys", "create", "ada", "--scope", "answer", **at)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"error: {server.url} has no key yet: from this one on it asks everybody")
        assert "hint: make one with --scope admin first" in refused.stderr
        assert json.loads(hitl("keys", "list", **at).stdout) == []
        root = made(hitl, "root", "--scope", "admin", **at)
        made(hitl, "ada", "--scope", "answer", **at, HITL_API_KEY=root["key"])


@pytest.mark.parametrize(("scope", "shuts"), [("answer", True), ("admin", False)])
def test_whoever_shuts_a_server_without_a_key_to_it_is_told_how_to_come_back(
    hitl: Run, tmp_path: Path, scope: str, shuts: bool
) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served("playbook", store=store) as server:
        created = hitl("keys", "create", "ada", "--scope", scope, "--without-admin", HITL_URL=server.url)
        assert created.returncode == 0
        assert json.loads(created.stdout)["name"] == "ada"
        assert ("warning: the server asks everybody for a key from now on" in created.stderr) is shuts
        assert ("hitl keys create NAME --scope admin --store STORE" in created.stderr) is shuts
    # The way that it names.
    assert "warning" not in hitl("keys", "create", "root", "--scope", "admin", "--store", store).stderr


def test_a_key_lives_at_a_server(hitl: Run) -> None:
    with Served("playbook", api_key="the first key there is") as server:
        at = {"HITL_URL": server.url, "HITL_API_KEY": "the first key there is"}
        key = made(hitl, "reader", "--scope", "read", **at)
        assert key["created_by"] == "api-key"
        again = hitl("keys", "create", "reader", "--scope", "read", **at)
        assert (again.returncode, "hitl keys revoke NAME" in again.stderr) == (5, True)
        with Client(server.url, api_key=key["key"]) as client:
            assert list(client.list_sessions()) == []
            with pytest.raises(Forbidden) as refused:
                client.create_session()
            assert refused.value.code == "missing_scope"
            taken = hitl("keys", "create", "reader", "--scope", "send", **at)
            assert (taken.returncode, "named reader" in taken.stderr) == (5, True)
            lacking = hitl("keys", "list", HITL_URL=server.url, HITL_API_KEY=key["key"])
            assert (lacking.returncode, "scope admin" in lacking.stderr) == (1, True)
            assert json.loads(hitl("keys", "revoke", "reader", **at).stdout) == {"name": "reader", "revoked": True}
            with pytest.raises(Unauthorized):
                client.list_sessions()
        assert hitl("keys", "revoke", "reader", **at).returncode == 4
        (listed,) = json.loads(hitl("keys", "list", **at).stdout)
        assert listed["revoked_at"] is not None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create", "Ada", "--scope", "read"], 2),
        (["create", "api-key", "--scope", "read"], 2),
        (["create", "ada"], 2),
        (["create", "ada", "--scope", "write"], 2),
        (["revoke", "ada"], 4),
    ],
)
def test_what_is_no_key_is_refused(hitl: Run, tmp_path: Path, arguments: list[str], code: int) -> None:
    refused = hitl("keys", *arguments, "--store", f"sqlite:{tmp_path / 'hitl.db'}")
    assert refused.returncode == code, refused.stderr


def test_whoever_revokes_a_key_that_is_none_is_told_its_name(hitl: Run, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    made(hitl, "ada", "--scope", "read", "--store", store)
    refused = hitl("keys", "revoke", "bob", "--store", store)
    assert refused.returncode == 4
    assert refused.stderr == f"error: no key is named bob\n\nhint: `hitl keys list --store {store}` shows them\n"


@pytest.mark.parametrize("command", [["create", "ada", "--scope", "read"], ["list"], ["revoke", "ada"]])
def test_a_store_in_memory_keeps_no_keys(hitl: Run, command: list[str]) -> None:
    refused = hitl("keys", *command, "--store", "memory")
    assert (refused.returncode, "keeps no keys" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("flag", "others"),
    [("--host", {"host": "0.0.0.0"}), ("--allowed-host", {"allowed_host": ["localhost:1", "agents.example.com"]})],
)
def test_a_store_with_a_key_may_be_served_to_others(
    hitl: Run, tmp_path: Path, flag: str, others: dict[str, Any]
) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served("playbook", store=store):
        pass
    # It is there, and it has no key.
    refused = subprocess.run(
        Served.command("playbook", {"store": store, "port": 0, **others}),
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert refused.returncode == 2, refused.stderr
    assert f"error: {flag}: " in refused.stderr
    assert "hitl keys create" in refused.stderr
    made(hitl, "ada", "--scope", "admin", "--store", store)
    with Served("playbook", store=store, **others) as server:
        port = server.url.rpartition(":")[2]
        with Client(f"http://127.0.0.1:{port}") as nobody, pytest.raises(Unauthorized):
            nobody.list_sessions()


def test_no_worker_gets_what_opens_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    held_back = [
        "HITL_API_KEY",
        "HITL_API_KEY_FILE",
        "HITL_SERVE_API_KEY",
        "HITL_STATE_KEY",
        "HITL_STORE",
        "HITL_TOKEN",
        "HITL_WEBHOOK",
        "HITL_WEBHOOK_SECRET",
        "HITL_API_KEYS",
        "HITL_API_KEY_2",
        "HITL_PASSWORD",
        "HITL_WORKERS",
        "HITL_AGENT",
        "HITL_AGENT_TOKEN",
        "HITL_",
        "hitl_api_key",
    ]
    given = ["HITL_MODEL", "HITL_FILES", "HITL_AGENT_DATA", "OPENAI_API_KEY", "API_KEY", "MY_HITL_KEY"]
    given += ["HITL_ALLOW_UNTESTED_PYTHON"]  # without it an agent's own hitl.run would be refused
    for name in held_back + given:
        monkeypatch.setenv(name, "x")
    environment = worker_environment()
    assert not [name for name in held_back if name in environment]
    assert [name for name in given if name in environment] == given
