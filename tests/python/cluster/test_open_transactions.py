"""Servers on a database in which somebody's transaction stays open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.python.cluster.conftest import Serve, runs
from tests.python.support import postgres
from tests.python.support.api import Api, ok
from tests.python.support.commands import command
from tests.python.support.event_stream import listen
from tests.python.support.waiting import eventually

AGENT = "tests.python.cluster.slow_tool_agent:agent"


@contextmanager
def transaction(database: str, begin: str = "") -> Iterator[None]:
    """One that is open and has a number, after the statements `begin`."""
    held = f"{begin} SELECT pg_current_xact_id(), pg_sleep(60)"
    of_held = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(60)'"
    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(postgres.execute, database, held)
        eventually(lambda: postgres.execute(database, f"SELECT count(*) {of_held}"), "1")
        yield
        postgres.execute(database, f"SELECT pg_terminate_backend(pid) {of_held}")
        # It was open to the end.
        assert holder.exception() is not None


def one_of_ours(database: str) -> AbstractContextManager[None]:
    """One that may write what is told. What is stored meanwhile is in everybody's sight once it is over; a session's
    own listeners are told at once."""
    return transaction(database, "LOCK TABLE hitl.events IN ROW EXCLUSIVE MODE;")


# -- of a server -------------------------------------------------------------------------------------------------------


def is_told_nothing_again(api: Api, session_id: str, last: str) -> None:
    """Who comes back after the event `last`, which is the newest."""
    path = f"/sessions/{session_id}/events"
    with listen(api, path, after="0") as stream:
        newest = stream.until(last)[-1]
    with listen(api, path, after=newest.id, timeout=1) as stream, pytest.raises(httpx2.ReadTimeout):
        stream.next()


def test_who_comes_back_is_told_nothing_again_while_a_transaction_is_open(serve: Serve, database: str) -> None:
    api = serve().api
    with one_of_ours(database):
        session_id = api.create()
        assert api.send(session_id, "null").status_code == 202
        eventually(lambda: ok(api.get(f"/sessions/{session_id}"))["status"], "interrupted")
        is_told_nothing_again(api, session_id, "session.interrupted")


def test_who_comes_back_after_a_step_is_not_told_of_it_again_while_a_transaction_is_open(
    serve: Serve, database: str, place: Path
) -> None:
    api = serve(agent=AGENT).api
    with one_of_ours(database):
        session_id = api.create()
        call = {"name": "work", "args": {"place": str(place)}}
        assert api.send(session_id, json.dumps([[call]])).status_code == 202
        eventually(lambda: runs(place), 1)
        # What the model said is in the journal, and nothing has happened to the session since.
        is_told_nothing_again(api, session_id, "message.completed")
    Path(f"{place}.go").touch()
    assert json.loads(api.wait(session_id)["response"]["content"]) == ["worked"]


# -- of who keeps everybody from the turns -----------------------------------------------------------------------------


def test_a_key_that_a_command_revokes_opens_nothing_while_turns_are_locked(serve: Serve, database: str) -> None:
    """A command rings nowhere, and a look at turns waits for the table."""
    server = serve()
    made = json.loads(command("keys", "create", "ada", "--scope", "read", "--store", database, "--json"))
    ada = Api(server.url, api_key=made["key"])
    try:
        eventually(lambda: ada.get("/me").status_code, 200)
        with transaction(database, "LOCK TABLE hitl.turns IN ACCESS EXCLUSIVE MODE;"):
            eventually(lambda: waiting_for_turns(database) > 0, True)
            command("keys", "revoke", "ada", "--store", database)
            eventually(lambda: ada.get("/me").status_code in (401, 503), True)
            # A look that has waited for two seconds is given up and begun again.
            eventually(lambda: waiting_for_turns(database) > 0, True)
    finally:
        ada.close()


def waiting_for_turns(database: str) -> int:
    """How many wait for the table."""
    waiting = "FROM pg_locks WHERE relation = 'hitl.turns'::regclass AND NOT granted"
    return int(postgres.execute(database, f"SELECT count(*) {waiting}"))


# -- of somebody else --------------------------------------------------------------------------------------------------


def test_nothing_that_is_told_waits_for_a_transaction_of_somebody_else(serve: Serve, database: str) -> None:
    """At the server of the turn, at another one, and by the stream of all sessions. As while an import runs in the same
    database, or somebody has left a transaction open."""
    one, other = serve(agent=AGENT).api, serve(agent=AGENT).api
    session_id = one.create()
    postgres.execute(database, "CREATE TABLE public.imported (number int)")
    with (
        transaction(database, "INSERT INTO public.imported VALUES (1);"),
        listen(one, f"/sessions/{session_id}/events") as own,
        listen(other, f"/sessions/{session_id}/events") as elsewhere,
        listen(other, "/events") as of_all,
    ):
        for _ in range(3):
            assert one.send(session_id, "[]").status_code == 202
            for stream in (own, elsewhere, of_all):
                told = [event.event for event in stream.until("session.idle")]
                assert told == ["session.running", "message.completed", "session.idle"]
        said = [event.data["delta"]["content"] for event in own.seen if event.event == "message.delta"]
        assert "".join(said) == "[]" * 3
        newest = own.seen[-1].id
        assert one.send(session_id, "[]").status_code == 202
        with listen(other, "/events", after=newest) as back:
            assert back.until("session.idle")[-1].data["session_id"] == session_id
