"""Servers behind a PgBouncer that lends a connection for a transaction only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.python.cluster.test_commands import command
from tests.python.cluster.test_together import FREE, KEY, asked
from tests.python.support import pooler, postgres
from tests.python.support.api import Api, ok, result
from tests.python.support.event_stream import listen
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

SIZE = 3
"""How many connections there are: fewer than two servers would take."""


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Api, Api]]:
    """Two of them, whose turns wait in the memory of the one that asked."""
    with postgres.database() as database, pooler.before(database, SIZE) as pooled, ExitStack() as stack:
        address = f"{pooled}&pooler=transaction"
        served = [stack.enter_context(Served("playbook", store=address, park_after=600, api_key=KEY)) for _ in range(2)]
        yield served[0].api, served[1].api


def test_each_of_several_questions_can_be_answered_at_either_server(servers: tuple[Api, Api]) -> None:
    questions = [FREE | {"question": str(number)} for number in range(6)]
    session_id, interrupt_ids = asked(servers[0], *questions)
    for number, interrupt_id in enumerate(interrupt_ids):
        ok(servers[number % 2].resume(session_id, interrupt_id, number))
    assert result(servers[1].wait(session_id)) == [0, 1, 2, 3, 4, 5]


def test_events_of_a_turn_are_heard_at_the_other_server(servers: tuple[Api, Api]) -> None:
    here, there = servers
    session_id, (interrupt_id,) = asked(here, FREE)
    with listen(there, f"/sessions/{session_id}/events") as heard:
        ok(here.resume(session_id, interrupt_id, "yes"))
        assert heard.until("session.idle")[-1].event == "session.idle"


def test_a_key_of_one_server_is_known_at_the_other(servers: tuple[Api, Api]) -> None:
    made = servers[0].post("/keys", {"name": "ada", "scopes": ["read"]}).json()
    ada = Api(str(servers[1].http.base_url), api_key=made["key"])
    try:
        eventually(lambda: ada.get("/sessions").status_code, 200)
    finally:
        ada.close()


def test_without_the_option_the_refusal_names_it(database: str) -> None:
    with pooler.before(database, 1) as address:
        command("migrate", "--store", f"{address}&pooler=transaction")
        # The only connection there is knows a statement by the name that the next client gives its first one.
        postgres.execute(address, "PREPARE s0 AS SELECT 1")
        assert "pooler=transaction" in command("sessions", "list", "--store", address, expect=2)
        assert command("sessions", "list", "--store", f"{address}&pooler=transaction", "--json").strip() == "[]"
