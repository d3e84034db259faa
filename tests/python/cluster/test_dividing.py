"""Servers that divide the work on one database: who is there, who ends when asked, who takes requests, who runs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.python.cluster.conftest import AGENT, Serve, begin_step, runs
from tests.python.cluster.test_commands import command
from tests.python.support import postgres
from tests.python.support.api import Json, ok, problem
from tests.python.support.served import Served
from tests.python.support.waiting import eventually


def servers(database: str) -> list[Json]:
    """What `hitl servers` lists."""
    listed: list[Json] = json.loads(command("servers", "--store", database, "--json"))
    return listed


# -- hitl servers ------------------------------------------------------------------------------------------------------


def test_servers_are_listed_with_what_they_do_and_one_ends_when_asked(serve: Serve, database: str, place: Path) -> None:
    first, second = serve(workers=3, shutdown_timeout=0), serve(no_workers=True)
    session_id = begin_step(first.api, place)
    eventually(lambda: [server["running_workers"] for server in servers(database)], [1, 0])
    listed = servers(database)
    assert [server["name"] for server in listed] == [f"{os.uname().nodename}-{one.pid}" for one in (first, second)]
    for server, max_workers in zip(listed, (3, 0), strict=True):
        said = {key: server[key] for key in ("kind", "agent", "serves_http", "max_workers", "draining")}
        assert said == {
            "kind": "server",
            "agent": AGENT,
            "serves_http": True,
            "max_workers": max_workers,
            "draining": False,
        }
        assert re.fullmatch(r"\d+\.\d+\.\d+.*", server["version"])
        assert bool(server["code"]) == bool(max_workers)
        assert server["silent_ms"] < 10_000
    # What it has goes on at the next with workers.
    third = serve()
    asked = json.loads(command("servers", "drain", listed[0]["name"], "--store", database))
    assert (asked["server_id"], asked["draining"]) == (listed[0]["server_id"], True)
    assert first.wait() == 0
    assert len(servers(database)) == 2
    eventually(lambda: runs(place), 2)
    Path(f"{place}.go").touch()
    assert third.api.wait(session_id)["response"]["content"] == "worked"


def test_nobody_is_listed_and_nobody_ends_where_no_server_is(database: str) -> None:
    assert "no store in it" in command("servers", "--store", database, expect=2)
    command("migrate", "--store", database)
    assert servers(database) == []
    assert "no server is called nobody" in command("servers", "drain", "nobody", "--store", database, expect=4)


@pytest.mark.parametrize("arguments", [(), ("drain", "one")])
def test_only_a_database_has_servers(arguments: tuple[str, ...]) -> None:
    assert "which database is not said" in command("servers", *arguments, expect=2)
    assert "only a database has servers" in command("servers", *arguments, "--store", "sqlite:none.db", expect=2)


# -- hitl serve --no-workers -------------------------------------------------------------------------------------------


def test_a_message_to_a_server_without_workers_is_run_by_one_that_has_some(
    serve: Serve, database: str, place: Path
) -> None:
    front, back = serve(no_workers=True), serve(workers=1)
    session_id = begin_step(front.api, place)
    turn = "SELECT (SELECT pid FROM hitl.servers WHERE servers.id = turns.owner) FROM hitl.turns"
    assert postgres.execute(database, turn) == str(back.pid)
    Path(f"{place}.go").touch()
    assert front.api.wait(session_id)["response"]["content"] == "worked"
    assert ok(front.api.get("/health"))["max_workers"] == 0


def test_answers_to_a_server_without_workers_wait_for_one_that_has_some(serve: Serve, place: Path) -> None:
    front, back = serve(no_workers=True), serve(shutdown_timeout=0)
    session_id = front.api.create()
    (asked,) = front.api.settled(session_id, "null", 1)["interrupts"]
    working = begin_step(front.api, place)
    back.kill()
    # It is known to be dead at once: its process is gone from this machine.
    front.wait_for_line("a server that had the store is dead")
    other = front.api.create()
    refused = front.api.send(other, "null")
    assert (problem(refused, 503)["code"], refused.headers["retry-after"]) == ("no_worker", "5")
    assert front.api.session(other)["status"] == "idle"
    # A busy session is a conflict, whoever runs turns.
    assert problem(front.api.send(working, "null"), 409)["code"] == "session_busy"
    ok(front.api.resume(session_id, asked["interrupt_id"], "yes"))
    assert front.api.session(session_id)["status"] == "running"
    serve()
    assert front.api.wait(session_id)["response"]["content"] == "yes"
    eventually(lambda: runs(place), 2)
    Path(f"{place}.go").touch()
    assert front.api.wait(working)["response"]["content"] == "worked"
    assert front.api.settled(other, "null", 1)["status"] == "interrupted"


def test_a_server_without_workers_wants_a_database() -> None:
    with pytest.raises(AssertionError, match="--no-workers: no other server can run the turns of this store"):
        Served(AGENT, no_workers=True)
