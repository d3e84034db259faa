"""`hitl store copy`: what waits in a file is answered on a database, and back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hitl.cli.store import told
from tests.python.support import postgres
from tests.python.support.api import Api, ok, problem, tool_results
from tests.python.support.commands import command
from tests.python.support.served import Served


def test_what_waits_in_a_file_is_answered_on_a_database_and_the_rest_in_a_file_again(
    database: str, tmp_path: Path
) -> None:
    file, back, ledger = tmp_path / "hitl.db", tmp_path / "back.db", tmp_path / "ledger"
    calls = [[{"name": "charge", "args": {"ledger": str(ledger), "cents": cents}}] for cents in (100, 200)]
    approve = {"approved": True}
    with Served("puppet", store=f"sqlite:{file}", park_after=0) as server:
        session = server.api.call_tools(*calls)
        session_id, (first,) = session["session_id"], session["interrupts"]
        ok(server.api.post(f"/interrupts/{first['interrupt_id']}/claim", {"as": "ada", "seconds": 3600}))
        assert "in use by another server" in command("store", "copy", str(file), database, expect=2)
    key = json.loads(command("keys", "create", "ada", "--scope", "admin", "--store", str(file), "--json"))["key"]

    copied = json.loads(command("store", "copy", str(file), database, "--json"))
    assert (copied["waiting"], copied["rows"]["sessions"], copied["rows"]["keys"]) == (1, 1, 1)
    assert "whole" in command("audit", "verify", "--store", database)
    with Served("puppet", store=database, park_after=0) as server, closing(Api(server.url, api_key=key)) as api:
        problem(server.api.get("/sessions"), 401)
        record = api.interrupt(first["interrupt_id"])
        assert (record["status"], record["payload"]) == ("pending", first["payload"])
        assert record["claimed_by"] == "ada"
        ok(api.resume(session_id, first["interrupt_id"], approve, Idempotency_Key="once"))
        session = api.wait(session_id)
        (second,) = session["interrupts"]
        assert ledger.read_text().splitlines() == ["charged 100"]

    command("store", "copy", database, str(back))
    assert "whole" in command("audit", "verify", "--store", str(back))
    with Served("puppet", store=f"sqlite:{back}", park_after=0) as server, closing(Api(server.url, api_key=key)) as api:
        assert ok(api.resume(session_id, first["interrupt_id"], approve, Idempotency_Key="once"))["replayed"] is True
        done = api.resume_to_the_end(session_id, second["interrupt_id"], approve)
        assert tool_results(done) == ["charged 100", "charged 200"]
    assert ledger.read_text().splitlines() == ["charged 100", "charged 200"]


def test_a_copy_says_what_it_has_copied_and_what_is_in_its_way(tmp_path: Path) -> None:
    file, other = tmp_path / "hitl.db", tmp_path / "other.db"
    command("keys", "create", "ada", "--scope", "read", "--store", str(file))
    copied = json.loads(command("store", "copy", str(file), str(other)))
    assert (copied["waiting"], copied["rows"]["keys"], copied["rows"]["audit"]) == (0, 1, 1)
    assert told(copied, 0.04).startswith(
        "Copied 0 sessions (0 waiting), 0 journal entries, 1 audit row, 0 notices in 0.0 s.\n"
    )
    assert "same store" in command("store", "copy", str(file), str(other), expect=2)
    assert "there is no store at" in command("store", "copy", str(tmp_path / "none.db"), str(other), expect=2)


def test_a_database_of_another_schema_is_neither_copied_nor_copied_into(database: str, tmp_path: Path) -> None:
    file = tmp_path / "hitl.db"
    command("keys", "create", "ada", "--scope", "read", "--store", str(file))
    command("migrate", "--store", database)
    postgres.execute(database, "UPDATE hitl.meta SET schema = schema - 1")
    for places in ((database, str(tmp_path / "other.db")), (str(file), database)):
        said = command("store", "copy", *places, expect=2)
        assert "has schema version" in said
        assert "bring the schema up to date with hitl migrate" in said
    assert not (tmp_path / "other.db").exists()
    postgres.execute(database, "UPDATE hitl.meta SET schema = schema + 1")
    assert json.loads(command("store", "copy", str(file), database))["rows"]["keys"] == 1


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """One that may serve the database and no more."""
    role = f"r_{uuid.uuid4().hex}"
    postgres.execute(database, f"CREATE ROLE {role} LOGIN")
    try:
        command("migrate", "--store", database, "--grants", role)
        yield role
    finally:
        postgres.execute(database, f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_it_needs_the_rights_of_the_owner_and_not_those_of_a_server(database: str, role: str, tmp_path: Path) -> None:
    file = tmp_path / "hitl.db"
    command("keys", "create", "ada", "--scope", "read", "--store", str(file))
    said = command("store", "copy", str(file), database.replace("postgres@", f"{role}@"), expect=2)
    assert "does not let the user make or use the schema hitl" in said
    assert postgres.execute(database, "SELECT count(*) FROM hitl.keys") == "0"


def test_a_store_is_checked_with_the_rights_of_a_server(database: str, role: str) -> None:
    served = database.replace("postgres@", f"{role}@")
    with Served("puppet", store=served) as server:
        server.api.call_tools([{"name": "charge", "args": {"ledger": "/dev/null", "cents": 1}}])
    postgres.execute(database, "ALTER SEQUENCE hitl.sessions_seq_seq RESTART")
    checked = json.loads(command("store", "check", served, expect=1).splitlines()[0])
    assert [one["kind"] for one in checked["problems"]] == ["counter"]
    # As a role has them that was named to an earlier release.
    postgres.execute(database, f"REVOKE SELECT ON ALL SEQUENCES IN SCHEMA hitl FROM {role}")
    checked = json.loads(command("store", "check", served))
    assert (checked["problems"], checked["rows"]["sessions"]) == ([], 1)


def test_it_is_read_however_the_database_shows_bytes(database: str, tmp_path: Path) -> None:
    back = tmp_path / "back.db"
    with Served("puppet", store=database, park_after=0) as server:
        server.api.call_tools([{"name": "charge", "args": {"ledger": "/dev/null", "cents": 1}}])
    name = urlsplit(database).path.removeprefix("/")
    postgres.execute(database, f"ALTER DATABASE {name} SET bytea_output = 'escape'")
    assert json.loads(command("store", "check", database))["problems"] == []
    assert json.loads(command("store", "copy", database, str(back)))["waiting"] == 1
    assert json.loads(command("store", "check", str(back)))["problems"] == []


def test_it_is_written_where_a_transaction_only_reads_unless_it_says_otherwise(database: str, tmp_path: Path) -> None:
    name, file = urlsplit(database).path.removeprefix("/"), tmp_path / "hitl.db"
    postgres.execute(database, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    command("keys", "create", "ada", "--scope", "read", "--store", str(file))
    command("migrate", "--store", database, "--grants", "postgres")
    assert json.loads(command("store", "copy", str(file), database))["rows"]["keys"] == 1
    assert json.loads(command("store", "copy", database, str(tmp_path / "back.db")))["rows"]["keys"] == 1


def test_a_row_of_the_audit_that_is_gone_is_told_by_what_is_bound_to_it(database: str) -> None:
    with Served("puppet", store=database) as server:
        server.api.call_tools([{"name": "charge", "args": {"ledger": "/dev/null", "cents": 1}}])
        rows = ok(server.api.get("/audit"))
    last = rows[-1]["seq"]
    postgres.execute(database, "DELETE FROM hitl.deeds WHERE number = (SELECT max(number) FROM hitl.deeds)")
    checked = json.loads(command("store", "check", database, "--json", expect=1).splitlines()[0])
    assert [(one["kind"], one["what"]) for one in checked["problems"]] == [
        ("audit", f"row {last} is missing, and what comes after it is bound to it")
    ]
