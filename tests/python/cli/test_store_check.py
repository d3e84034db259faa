"""`hitl store check`: what a store holds fits together, and what does not is told."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hitl.cli import exit_codes
from tests.python.support.api import ok
from tests.python.support.commands import command
from tests.python.support.served import Served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with a session that waits and one that has ended."""
    path = tmp_path / "hitl.db"
    with Served("playbook", store=f"sqlite:{path}", park_after=0) as server:
        server.api.ask({"type": "color"})
        server.api.run(server.api.create(), "echo", 7)
        # Beside whoever has it.
        assert json.loads(command("store", "check", str(path)))["problems"] == []
    return path


def spoil(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_what_fits_is_said_with_how_much_was_looked_at(file: Path) -> None:
    checked = json.loads(command("store", "check", f"sqlite:{file}", "--json"))
    assert (checked["rows"]["sessions"], checked["problems"], checked["more"]) == (2, [], 0)


def test_a_file_that_is_damaged_is_to_be_restored_and_none_is_made(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    for name in (f"{file}-wal", f"{file}-shm"):
        Path(name).unlink(missing_ok=True)
    assert "restore a backup of it" in command("store", "check", str(file), expect=exit_codes.USAGE)
    file.write_bytes(b"junk" * 1000)
    told = command("store", "check", str(file), expect=exit_codes.USAGE)
    assert "is not a database" in told
    assert "hitl makes it" not in told


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE sessions SET total_messages = total_messages + 1 WHERE status = 'idle'", "messages"),
        ("UPDATE sessions SET pending = NULL WHERE status = 'interrupted'", "pending"),
        ("UPDATE turns SET ended_at = 1 WHERE ended_at IS NULL", "turn"),
        ("DELETE FROM journal WHERE idx = 0", "journal"),
        ("UPDATE interrupts SET payload = '{'", "unreadable"),
        ("UPDATE turns SET id = x'00' WHERE ended_at IS NULL", "unreadable"),
        ("UPDATE interrupts SET payload = '[]'", "unreadable"),
        ("UPDATE journal SET entry = 'strat' WHERE entry = 'start'", "unreadable"),
        ("UPDATE session_counters SET last_seq = 1", "counter"),
        ("DELETE FROM last_told", "unreadable"),
        ("UPDATE turns SET parked = 0, todo = NULL WHERE ended_at IS NULL", "asleep"),
    ],
)
def test_what_does_not_is_told_and_nothing_is_changed(file: Path, statement: str, kind: str) -> None:
    spoil(file, statement)
    before = file.read_bytes()
    told = command("store", "check", str(file), expect=exit_codes.RUNTIME)
    assert "not fit" in told
    checked = json.loads(command("store", "check", str(file), "--json", expect=exit_codes.RUNTIME).splitlines()[0])
    assert kind in {problem["kind"] for problem in checked["problems"]}
    assert file.read_bytes() == before


@pytest.mark.parametrize("table", ["turns", "journal", "events"])
def test_a_damaged_file_is_told_and_no_mistake_of_who_asks(file: Path, table: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((size,),) = connection.execute("PRAGMA page_size")
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    with file.open("r+b") as damaged:
        damaged.seek((page - 1) * size)
        damaged.write(b"\xff" * 64)
    told = command("store", "check", str(file), expect=exit_codes.RUNTIME)
    kinds = {problem["kind"] for problem in json.loads(told.splitlines()[0])["problems"]}
    assert "file" in kinds, told


def test_a_backup_is_looked_at_where_nothing_can_be_made_beside_it(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for beside in ("-wal", "-shm"):
        Path(f"{file}{beside}").unlink(missing_ok=True)
    # As on a disk that is read only: root could write wherever it is forbidden.
    Path(f"{file}-shm").symlink_to("nowhere/nothing")
    assert json.loads(command("store", "check", str(file), "--json"))["problems"] == []
    # With a log, what the file has alone is not all of it.
    Path(f"{file}-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(60))
    assert "cannot be opened" in command("store", "check", str(file), "--json", expect=exit_codes.USAGE)


def test_what_is_no_store_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    assert "there is no store at" in command("store", "check", str(tmp_path / "none.db"), expect=exit_codes.USAGE)
    assert not (tmp_path / "none.db").exists()
    assert "memory is gone with its process" in command("store", "check", "memory", expect=exit_codes.USAGE)


def test_an_answer_is_taken_while_somebody_looks(tmp_path: Path) -> None:
    path = tmp_path / "hitl.db"
    with Served("playbook", store=f"sqlite:{path}") as server:
        session_id, interrupt_id = server.api.ask({"type": "color"})
        command("store", "check", str(path))
        ok(server.api.resume(session_id, interrupt_id, "red"))
