"""Commands and runs on a database, beside its server and without one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hitl
from hitl.errors import StoreError
from tests.python.cluster.conftest import AGENT, Serve
from tests.python.support import postgres
from tests.python.support.api import ok
from tests.python.support.served import ROOT, clean_environment
from tests.python.support.waiting import eventually


def command(*arguments: str, expect: int = 0, **environment: str) -> str:
    """What `hitl` prints."""
    finished = subprocess.run(
        [sys.executable, "-m", "hitl", *arguments],
        cwd=ROOT,
        env=clean_environment() | environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert finished.returncode == expect, finished.stdout + finished.stderr
    return finished.stdout + ("" if expect == 0 else finished.stderr)


def test_commands_work_beside_a_server(serve: Serve, database: str) -> None:
    server = serve()
    session_id = server.api.create()
    server.api.settled(session_id, "null", 1)
    listed = json.loads(command("sessions", "list", "--store", database, "--json"))
    assert [session["session_id"] for session in listed] == [session_id]
    checked = json.loads(command("replay-check", AGENT, "--store", database))
    assert (checked["checked"], checked["broken"]) == (1, 0)
    # From the first key on, the server wants one.
    command("keys", "create", "ada", "--scope", "read", "--store", database)
    eventually(lambda: server.api.get("/sessions").status_code, 401)
    assert "ada" in command("keys", "list", "--store", database)
    exported = command("audit", "export", "--store", database)
    assert [json.loads(line)["action"] for line in exported.splitlines()][-1] == "key_created"
    assert "whole" in command("audit", "verify", "--store", database)


def test_a_schema_is_made_and_looked_at(database: str) -> None:
    assert json.loads(command("migrate", "--store", database, "--check", expect=5)) == {"found": None, "newest": 10}
    assert json.loads(command("migrate", HITL_STORE=database)) == {"found": None, "newest": 10}
    assert json.loads(command("migrate", "--store", database)) == {"found": 10, "newest": 10}
    assert json.loads(command("migrate", "--store", database, "--check")) == {"found": 10, "newest": 10}
    assert "memory has no schema" in command("migrate", "--store", "memory", expect=2)
    assert "which store is not said" in command("migrate", expect=2)
    assert "--sql connects to nothing" in command("migrate", "--store", database, "--check", "--sql", expect=2)


def test_the_statements_of_a_schema_can_be_run_in_another_way(database: str) -> None:
    postgres.execute(database, command("migrate", "--sql"))
    command("migrate", "--store", database, "--check")
    assert 'GRANT USAGE ON SCHEMA hitl TO "a ""server"' in command("migrate", "--sql", "--grants", 'a "server')


def test_a_schema_is_brought_up_to_date_although_somebody_reads_and_keeps_nobody_else_from_it(database: str) -> None:
    older = (ROOT / "src" / "store" / "postgres" / "migrations").glob("*.sql")
    *before, _newest = (path.read_text() for path in sorted(older))
    postgres.execute(database, "\n".join(before))
    holder = f"h_{uuid.uuid4().hex}"
    postgres.execute(database, f"BEGIN; SELECT count(*) FROM hitl.turns; PREPARE TRANSACTION '{holder}'")
    with ThreadPoolExecutor() as somebody:
        migrating = somebody.submit(command, "migrate", "--store", database)
        try:
            waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            eventually(lambda: postgres.execute(database, f"SELECT count(*) {waiting}"), "1")
            # It comes after the one that waits, as what servers read does.
            assert postgres.execute(database, "SELECT count(*) FROM hitl.turns") == "0"
        finally:
            postgres.execute(database, f"ROLLBACK PREPARED '{holder}'")
        assert json.loads(migrating.result()) == {"found": len(before), "newest": len(before) + 1}


def test_a_command_that_waits_for_the_database_is_ended_by_ctrl_c(database: str) -> None:
    command("migrate", "--store", database)
    holder = f"h_{uuid.uuid4().hex}"
    postgres.execute(database, f"BEGIN; LOCK TABLE hitl.journal; PREPARE TRANSACTION '{holder}'")
    checking = subprocess.Popen(
        [sys.executable, "-m", "hitl", "store", "check", database],
        cwd=ROOT,
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Whoever runs the tests in the background ignores it, and what they start does too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # takes no lock
    )
    try:
        waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        eventually(lambda: postgres.execute(database, f"SELECT count(*) {waiting}"), "1")
        checking.send_signal(signal.SIGINT)
        assert checking.wait(60) == 130
    finally:
        checking.kill()
        checking.wait()
        postgres.execute(database, f"ROLLBACK PREPARED '{holder}'")


async def asks(
    message: hitl.ChatMessage, state: list[hitl.ChatMessage]
) -> tuple[hitl.ChatMessage, list[hitl.ChatMessage]]:
    said = await hitl.interrupt({"type": "free", "question": "go on?"})
    return hitl.ChatMessage.assistant_message(content=f"said {said}"), state


def test_a_run_goes_on_from_the_database_in_another_process(database: str) -> None:
    result = hitl.run_sync(asks, "begin", store=database)
    assert result.state is not None
    text = result.state.to_string()
    program = (
        "import sys, hitl\n"
        "from tests.python.cluster.test_commands import asks\n"
        "state = hitl.RunState.from_string(asks, sys.stdin.read())\n"
        "print(hitl.run_sync(asks, state.answer(state.interrupts[0], 'yes'), store=sys.argv[1]).response.content)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, database],
        cwd=ROOT,
        env=clean_environment() | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        input=text,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.stdout == "said yes\n", finished.stderr
    assert postgres.execute(database, "SELECT status FROM hitl.sessions") == "idle"
    assert postgres.execute(database, "SELECT count(*) FROM hitl.servers") == "0"


def test_a_run_is_refused_beside_a_server(serve: Serve, database: str) -> None:
    server = serve()
    assert ok(server.api.get("/health"))["status"] == "ok"
    holder = rf"is in use by another server \(process {server.pid} on "
    with pytest.raises(StoreError, match=holder) as refused:
        hitl.run_sync(asks, "begin", store=database)
    assert refused.value.code == "store_locked"


def test_a_password_is_in_nothing_that_is_printed(database: str, tmp_path: Path) -> None:
    wrong = database.replace("postgres@", "guarded:hunter2secret@")
    printed = command("sessions", "list", "--store", wrong, expect=2)
    assert "refuses the user or the password" in printed or "has no store in it" in printed
    assert "hunter2secret" not in printed
