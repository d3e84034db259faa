"""The agent of LangChain's documentation: asked, killed, answered."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hitl.testing import HitlServer, Human
from tests.python.support.api import ok
from tests.python.support.served import Served

AGENT = "examples.ext_langgraph:agent"


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database; no real model is asked."""
    for variable in ("OPENAI_API_KEY", "HITL_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("RECORDS", str(tmp_path / "records.db"))
    return tmp_path / "records.db"


def years(records: Path) -> list[int]:
    with closing(sqlite3.connect(records)) as database:
        return [year for (year,) in database.execute("select year from records order by year")]


def test_a_person_changes_the_statement(hitl_server: HitlServer, human: Human, records: Path) -> None:
    human.on("execute_sql").edit(query="delete from records where year < 2010")
    reply = hitl_server(AGENT).send("delete the old records")
    first, *_, last = (reply.content or "").splitlines()
    # Both calls were made at once: what looks may do so before what changes, or after.
    looked = ("There are 30 records, the first of 2001.", "There are 21 records, the first of 2010.")
    assert first in looked
    assert last == "9 records changed."
    assert years(records) == list(range(2010, 2031))
    assert (human.seen[0].message or "").startswith("Tool execution pending approval")


def test_a_server_that_is_killed_while_it_waits_runs_the_statement_once(records: Path, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served(AGENT, store=store) as first:
        session_id = first.api.create()
        asked = first.api.settled(session_id, "delete the old records", 1)["interrupts"][0]
        first.kill()
    with Served(AGENT, store=store) as second:
        ok(second.api.resume(session_id, asked["interrupt_id"], {"type": "approve"}))
        assert second.api.wait(session_id)["response"]["content"].splitlines()[-1] == "19 records changed."
    assert years(records) == list(range(2020, 2031))
