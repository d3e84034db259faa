"""`hitl policy push`, `show`, `pull` and `remove`, on a file that a server has afterwards."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from hitl.cli import exit_codes
from tests.python.cli.conftest import Run
from tests.python.cli.terminal import Terminal
from tests.python.support.api import ok, tool_results
from tests.python.support.served import Served

# A line end of another system, and a letter of more than one byte: nothing of it may change on the way.
POLICY = '# Caf\u00e9\r\n[[rule]]\nname = "no-charity"\neffect = "deny"\ntool = "charge"\nreason = "ask"\n'.encode()
DIGEST = f"sha256:{hashlib.sha256(POLICY).hexdigest()}"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_bytes(POLICY)
    return path


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'hitl.db'}"


def test_a_server_begins_with_what_was_pushed(hitl: Run, policy: Path, store: str, tmp_path: Path) -> None:
    pushed = json.loads(hitl("policy", "push", str(policy), "--store", store).stdout)
    assert (pushed["digest"], pushed["pushed_by"], pushed["changed"]) == (DIGEST, None, True)
    again = json.loads(hitl("policy", "push", str(policy), HITL_STORE=store).stdout)
    assert again == {**pushed, "changed": False}
    with Served("puppet", store=store) as server:
        policy_now = ok(server.api.get("/health"))["policy"]
        assert (policy_now["digest"], policy_now["source"], policy_now["rules"]) == (DIGEST, "store", 1)
        call = {"name": "charge", "args": {"ledger": str(tmp_path / "ledger"), "cents": 1}}
        session = server.api.settled(server.api.create(), json.dumps([[call]]), 0)
        assert tool_results(session) == [{"error": "Policy rejected charge: ask"}]
        # Beside its server a file can be read, and not changed.
        shown = json.loads(hitl("policy", "show", "--store", store).stdout)
        assert (shown["text"].encode(), shown["digest"]) == (POLICY, DIGEST)
        refused = hitl("policy", "remove", "--store", store)
        assert (refused.returncode, "in use by" in refused.stderr) == (exit_codes.USAGE, True)
        told = [row["action"] for row in ok(server.api.get("/audit")) if row["action"].startswith("policy")]
        assert told == ["policy_pushed", "policy_loaded"]


def test_a_server_with_a_file_of_its_own_does_not_start(hitl: Run, policy: Path, store: str) -> None:
    hitl("policy", "push", str(policy), "--store", store)
    with pytest.raises(AssertionError) as refused, Served("puppet", store=store, policy=policy):
        pass
    said = str(refused.value)
    assert f"the store has a policy too, with the digest {DIGEST}" in said
    assert "leave out --policy" in said
    assert "hitl policy remove" in said


def test_it_is_pulled_as_it_was_pushed_and_over_nothing(hitl: Run, policy: Path, store: str, tmp_path: Path) -> None:
    hitl("policy", "push", str(policy), "--store", store)
    copy = tmp_path / "copy.toml"
    assert json.loads(hitl("policy", "pull", str(copy), "--store", store).stdout)["digest"] == DIGEST
    assert copy.read_bytes() == POLICY
    copy.write_text("mine")
    assert hitl("policy", "pull", str(copy), "--store", store).returncode == exit_codes.CONFLICT
    assert copy.read_text() == "mine"
    assert hitl("policy", "pull", str(tmp_path / "no" / "copy"), "--store", store).returncode == exit_codes.USAGE


def test_a_person_reads_it_with_its_digest(hitl: Run, policy: Path, store: str) -> None:
    hitl("policy", "push", str(policy), "--store", store)
    with Terminal("policy", "show", "--store", store) as terminal:
        assert terminal.finish() == exit_codes.OK
    assert DIGEST in terminal.seen
    assert 'name = "no-charity"' in terminal.seen


def test_what_is_removed_is_gone(hitl: Run, policy: Path, store: str) -> None:
    hitl("policy", "push", str(policy), "--store", store)
    assert json.loads(hitl("policy", "remove", "--store", store).stdout)["digest"] == DIGEST
    for command in (("show",), ("remove",), ("pull", "copy.toml")):
        missing = hitl("policy", *command, "--store", store)
        assert (missing.returncode, "no policy is in the store" in missing.stderr) == (exit_codes.NOT_FOUND, True)


@pytest.mark.parametrize(
    ("text", "store", "said"),
    [
        (b"", "sqlite:x.db", "line 1: there are no rules"),
        (POLICY + b"[[rule]]\nname = 1\n", "sqlite:x.db", "line 8"),
        (b"\xff", "sqlite:x.db", "a policy is a file of text, in UTF-8"),
        (POLICY + b"#" * 1024 * 1024, "sqlite:x.db", "at most can be pushed"),
        (None, "sqlite:x.db", "looked for from the working directory"),
        (POLICY, None, "which store is not said"),
        (POLICY, "memory", "memory keeps no policy"),
        (POLICY, "redis:x", "unknown kind of store"),
    ],
)
def test_what_cannot_be_pushed_is_a_usage_error_and_makes_no_store(
    hitl: Run, tmp_path: Path, text: bytes | None, store: str | None, said: str
) -> None:
    policy = tmp_path / "policy.toml"
    if text is not None:
        policy.write_bytes(text)
    refused = hitl("policy", "push", str(policy), *([] if store is None else ["--store", store]))
    assert (refused.returncode, said in refused.stderr) == (exit_codes.USAGE, True), refused.stderr
    assert not (tmp_path / "x.db").exists()
