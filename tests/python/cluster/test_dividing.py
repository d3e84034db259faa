"""Servers that divide the work on one database: who is there, who ends when asked, who takes requests, who runs."""

from __future__ import annotations

import json
import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.python.cli.terminal import Terminal
from tests.python.cluster.conftest import AGENT, Serve, begin_step, runs
from tests.python.support import postgres
from tests.python.support.api import Json, ok, problem
from tests.python.support.commands import command
from tests.python.support.served import Served, Working
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


def test_people_see_the_code_of_each_server_and_of_a_digest_its_beginning(serve: Serve, database: str) -> None:
    serve(), serve(no_workers=True)
    eventually(lambda: len(servers(database)), 2)
    (code,) = [server["code"] for server in servers(database) if server["code"]]
    assert re.fullmatch("[0-9a-f]{16}(/3.[0-9]+)?", code)
    with Terminal("servers", "--store", database, columns=200) as screen:
        assert screen.finish() == 0
    heads, _, *rows = [line.split() for line in screen.seen.splitlines() if line.strip()]
    assert heads[-2:] == ["CODE", "AGENT"]
    assert [row[-2:] for row in rows] == [[code[:8] + code[16:], AGENT], ["-", AGENT]]


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
    paths = ok(front.api.get("/openapi.json"))["paths"]
    documented = paths["/sessions/{session_id}/messages"]["post"]["responses"]["503"]["content"]
    assert "no_worker" in documented["application/problem+json"]["examples"]
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


def test_a_failed_turn_that_a_server_without_workers_retries_goes_on_under_the_code_of_another(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    (tmp_path / "away").touch()
    agent = "tests.python.support.away_agent:agent"
    front, _ = serve(agent=agent, no_workers=True), serve(agent=agent)
    session_id = front.api.create()
    (asked,) = front.api.settled(session_id, "pay", 1)["interrupts"]
    ok(front.api.resume(session_id, asked["interrupt_id"], {"approved": True}))
    assert front.api.wait(session_id)["error_code"] == "model_unavailable"
    (tmp_path / "away").unlink()
    assert front.api.post(f"/sessions/{session_id}/retry").status_code == 202
    assert front.api.wait(session_id)["response"]["content"] == "all paid"
    (row,) = ok(front.api.get("/audit", action="retried"))
    assert row["details"] == {"agent": agent, "error_code": "model_unavailable"}


def test_a_server_without_workers_wants_a_database() -> None:
    with pytest.raises(AssertionError, match="--no-workers: no other server can run the turns of this store"):
        Served(AGENT, no_workers=True)


# -- hitl work ---------------------------------------------------------------------------------------------------------


def test_one_that_works_runs_the_turns_of_servers_that_take_requests_and_takes_none_itself(
    serve: Serve, database: str, place: Path
) -> None:
    front, back = serve(no_workers=True), serve(kind=Working, workers=1, shutdown_timeout=600)
    session_id = begin_step(front.api, place)
    assert owner(database, session_id) == str(back.pid)
    eventually(lambda: [server["running_workers"] for server in servers(database)], [0, 1])
    said = [(it["serves_http"], it["max_workers"]) for it in servers(database)]
    assert said == [(True, 0), (False, 1)]
    for path in ("/healthz", "/readyz"):
        assert ok(back.api.get(path)) == {"status": "ok"}
    assert "hitl_turns_at_work 1" in back.api.get("/metrics").text.splitlines()
    for path in ("/", "/health", "/sessions"):
        assert problem(back.api.get(path), 404)["code"] == "takes_no_requests"
    # It ends as every server does: what is at work finishes.
    back.signal(signal.SIGTERM)
    eventually(lambda: [server["draining"] for server in servers(database)], [False, True])
    Path(f"{place}.go").touch()
    assert back.wait() == 0
    assert front.api.wait(session_id)["response"]["content"] == "worked"


def test_one_that_works_needs_no_key_and_shows_its_figures_to_keys_of_the_store(serve: Serve, database: str) -> None:
    command("migrate", "--store", database)
    back = serve(kind=Working, host="0.0.0.0")
    assert back.api.get("/metrics").status_code == 200
    command("keys", "create", "ada", "--scope", "read", "--store", database)
    eventually(lambda: back.api.get("/metrics").status_code, 401)
    assert ok(back.api.get("/readyz")) == {"status": "ok"}


def test_what_works_is_started_again_on_another_machine_where_it_was_killed(serve: Serve, place: Path) -> None:
    front, back = serve(no_workers=True), serve(kind=Working, workers=1)
    session_id = begin_step(front.api, place)
    back.kill()
    serve(kind=Working, workers=1)
    eventually(lambda: runs(place), 2)
    Path(f"{place}.go").touch()
    assert front.api.wait(session_id)["response"]["content"] == "worked"


# -- where no slot is free ---------------------------------------------------------------------------------------------


def order(place: Path) -> str:
    return json.dumps({"place": str(place), "once": False})


def queued(server: Served) -> int:
    """How many turns wait for a slot, as this server tells."""
    count: int = ok(server.api.get("/health"))["queued"]
    return count


def owner(database: str, session_id: str) -> str:
    """The process of the server that has the session's turn."""
    pid = "(SELECT pid FROM hitl.servers WHERE servers.id = turns.owner)"
    return postgres.execute(database, f"SELECT coalesce({pid}, 0) FROM hitl.turns WHERE session = '{session_id}'")


def test_a_message_for_which_its_server_has_no_slot_runs_at_another_that_has_one(
    serve: Serve, database: str, place: Path
) -> None:
    first, second = serve(workers=1), serve(workers=1)
    places = [place.with_name(str(number)) for number in range(4)]
    sessions = [begin_step(first.api, it) for it in places[:2]]
    assert [owner(database, it) for it in sessions] == [str(first.pid), str(second.pid)]
    # Those for which nobody has a slot are the first's to have one.
    for it in places[2:]:
        sessions.append(first.api.create())
        assert first.api.send(sessions[-1], order(it)).status_code == 202
    for server in (first, second):
        eventually(partial(queued, server), 2)
    assert [owner(database, it) for it in sessions[2:]] == ["0", "0"]
    Path(f"{places[1]}.go").touch()
    eventually(lambda: sorted(owner(database, it) for it in sessions[2:]), sorted(["0", str(second.pid)]))
    Path(f"{places[0]}.go").touch()
    eventually(lambda: [runs(it) for it in places[2:]], [1, 1])
    assert sorted(owner(database, it) for it in sessions[2:]) == sorted([str(first.pid), str(second.pid)])
    for server in (first, second):
        eventually(partial(queued, server), 0)
    for it in places[2:]:
        Path(f"{it}.go").touch()
    for session_id in sessions:
        assert second.api.wait(session_id)["response"]["content"] == "worked"


def test_new_turns_do_not_overtake_one_that_was_answered_at_another_server(serve: Serve, place: Path) -> None:
    first, second = serve(workers=1), serve(workers=1)
    asking = first.api.create()
    (asked,) = first.api.settled(asking, "null", 1)["interrupts"]
    places = [place.with_name(str(number)) for number in range(3)]
    for it in places[:2]:
        begin_step(first.api, it)
    new = first.api.create()
    assert first.api.send(new, order(places[2])).status_code == 202
    ok(second.api.resume(asking, asked["interrupt_id"], "yes"))
    for server in (first, second):
        eventually(partial(queued, server), 2)
    Path(f"{places[0]}.go").touch()
    # The new one would keep the slot.
    assert first.api.wait(asking)["response"]["content"] == "yes"
    eventually(lambda: runs(places[2]), 1)
    for it in places:
        Path(f"{it}.go").touch()
    assert first.api.wait(new)["response"]["content"] == "worked"


def test_the_queue_bounds_what_waits_at_no_server(serve: Serve, place: Path) -> None:
    front, back = serve(no_workers=True, queue=1), serve(queue=1, workers=1)
    busy = begin_step(back.api, place)
    waiting = [back.api.create()]
    assert back.api.send(waiting[0], "null").status_code == 202
    # One without workers goes by its last look, and may take a few more until then.
    while may_send(front, session_id := front.api.create()):
        waiting.append(session_id)
    refused = back.api.create()
    assert not may_send(back, refused)
    assert back.api.session(refused)["status"] == front.api.session(session_id)["status"] == "idle"
    Path(f"{place}.go").touch()
    assert front.api.wait(busy)["response"]["content"] == "worked"
    for it in waiting:
        assert front.api.wait(it)["status"] == "interrupted"
    for server, it in ((back, refused), (front, session_id)):
        eventually(partial(may_send, server, it), True)
        assert server.api.wait(it)["status"] == "interrupted"


def may_send(server: Served, session_id: str) -> bool:
    """Whether it takes a message; one that was not taken was for want of room."""
    sent = server.api.send(session_id, "null")
    if sent.status_code == 202:
        return True
    assert (problem(sent, 503)["code"], "retry-after" in sent.headers) == ("queue_full", True)
    return False
