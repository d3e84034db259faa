"""`tools/postgres.py`: the PostgreSQL that tests share is there on any machine, whatever that is set up for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.support import postgres


def test_what_leads_to_a_database_of_whoever_runs_the_tests_leads_no_test_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGPORT": "1",
        "PGDATABASE": "x",
        "PGUSER": "x",
        "PGSERVICE": "x",
        "PGSSLMODE": "verify-full",
    }.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, postgres.TOOL, tmp_path / "fresh"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    address = done.stdout.strip()
    try:
        assert postgres.execute(address, "SELECT 1") == "1"
    finally:
        first_line, *_ = (postgres.socket_of(address).parent / "data" / "postmaster.pid").read_text().splitlines()
        os.kill(int(first_line), signal.SIGINT)  # whoever looks after it clears away what it leaves


def test_what_a_statement_is_refused_for_is_said() -> None:
    with pytest.raises(AssertionError, match='relation "nothing" does not exist'):
        postgres.execute(postgres.server(), "SELECT * FROM nothing")
