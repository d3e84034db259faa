"""`hitl migrate` on a file: brought up to date without a server, so that what waits in it can be looked at."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hitl.cli import exit_codes
from tests.python.support.commands import command

OLDER = Path(__file__).parents[1] / "http" / "older" / "schema_3.db.gz"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    path = tmp_path / "hitl.db"
    path.write_bytes(gzip.decompress(OLDER.read_bytes()))
    return path


def test_an_older_file_is_looked_at_and_brought_up_to_date(older: Path) -> None:
    before = older.read_bytes()
    looked = json.loads(command("migrate", "--store", str(older), "--check", "--json", expect=exit_codes.CONFLICT))
    assert (looked["found"], looked["found"] < looked["newest"]) == (3, True)
    assert older.read_bytes() == before
    assert "hitl migrate brings it up to date" in command("store", "check", str(older), expect=exit_codes.USAGE)
    assert json.loads(command("migrate", "--store", f"sqlite:{older}", "--json")) == looked
    assert json.loads(command("store", "check", str(older), "--json"))["problems"] == []
    command("migrate", "--store", str(older), "--check")


def test_what_a_file_cannot_have_is_refused(older: Path, tmp_path: Path) -> None:
    assert "a file has no roles" in command(
        "migrate", "--store", str(older), "--grants", "hitl", expect=exit_codes.USAGE
    )
    missing = tmp_path / "elsewhere.db"
    assert "there is no store at" in command("migrate", "--store", str(missing), expect=exit_codes.USAGE)
    assert not missing.exists()
    assert "memory" in command("migrate", "--store", "memory", expect=exit_codes.USAGE)
