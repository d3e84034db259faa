"""What `/health` and `/metrics` of one server tell of all that share its database."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path

import hitl
from hitl.client import Client
from tests.python.cluster.conftest import AGENT, Serve, begin_step
from tests.python.support import postgres
from tests.python.support.api import Api, Json, ok
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

HOUR = 3_600_000


def name(server: Served) -> str:
    return f"{os.uname().nodename}-{server.pid}"


def told_of(api: Api) -> dict[str, Json]:
    """The servers that this one tells of, by name."""
    servers: list[Json] = ok(api.get("/health"))["servers"]
    assert [server["name"] for server in servers] == sorted(server["name"] for server in servers)
    return {server["name"]: server for server in servers}


def names(api: Api) -> list[str]:
    return list(told_of(api))


def at_work(api: Api, server: Served) -> int:
    turns: int = told_of(api)[name(server)]["running_workers"]
    return turns


def figures(api: Api, prefix: str) -> dict[str, int]:
    """The samples whose names begin so."""
    samples = (line.rpartition(" ") for line in api.get("/metrics").text.splitlines() if line.startswith(prefix))
    return {sample: int(value) for sample, _, value in samples}


def states(api: Api) -> list[int]:
    """How many servers are alive, draining and silent."""
    counted = figures(api, "hitl_cluster_servers")
    assert list(counted) == [f'hitl_cluster_servers{{state="{it}"}}' for it in ("alive", "draining", "silent")]
    return list(counted.values())


def ready(api: Api) -> int:
    """Turns that no server has, of which none has begun here."""
    counted = figures(api, "hitl_turns_ready")
    assert list(counted) == ['hitl_turns_ready{code="any"}']
    return counted['hitl_turns_ready{code="any"}']


def age(api: Api) -> int:
    """How many hours the first of them has waited."""
    return figures(api, "hitl_ready_age_seconds")["hitl_ready_age_seconds"] // 3600


def test_each_server_names_all_and_what_they_do_until_they_are_gone(serve: Serve, place: Path) -> None:
    front, back = serve(no_workers=True), serve(workers=3, shutdown_timeout=600)
    apis = (front.api, back.api)
    for api in apis:
        eventually(partial(names, api), sorted([name(front), name(back)]))
        assert states(api) == [2, 0, 0]
    begin_step(back.api, place)
    for api in apis:
        eventually(partial(at_work, api, back), 1)
        for server, max_workers in ((front, 0), (back, 3)):
            told = told_of(api)[name(server)]
            assert told.pop("silent_ms") < 10_000
            assert len(told.pop("server_id")) == 36
            assert bool(told.pop("code")) == (server is back)
            assert told == {
                "name": name(server),
                "version": hitl.__version__,
                "agent": AGENT,
                "serves_http": True,
                "max_workers": max_workers,
                "running_workers": 1 if server is back else 0,
                "draining": False,
            }
    # One that ends is told of as long as it has something to finish.
    back.signal(signal.SIGTERM)
    eventually(lambda: told_of(front.api)[name(back)]["draining"], True)
    assert states(front.api) == [1, 1, 0]
    Path(f"{place}.go").touch()
    assert back.wait() == 0
    eventually(partial(names, front.api), [name(front)])
    assert states(front.api) == [1, 0, 0]
    killed = serve()
    eventually(lambda: len(told_of(front.api)), 2)
    killed.kill()
    eventually(partial(names, front.api), [name(front)])
    assert states(front.api) == [1, 0, 0]


def test_servers_with_another_agent_are_told_of(serve: Serve) -> None:
    first = serve(no_workers=True)
    with Client(str(first.api.http.base_url)) as client:
        health = client.health()
        assert [server.name for server in health.servers or ()] == [name(first)]
        assert health.differences == ()
        serve(agent="playbook", no_workers=True)
        eventually(lambda: client.health().differences, ("agent",))


def test_a_turn_that_no_server_has_a_slot_for_is_counted_at_all_with_its_age(
    serve: Serve, database: str, place: Path
) -> None:
    front, back = serve(no_workers=True), serve(workers=1)
    apis = (front.api, back.api)
    assert [(ready(api), age(api)) for api in apis] == [(0, 0)] * 2
    busy = begin_step(front.api, place)
    waiting = front.api.create()
    next_place = place.with_name("next")
    assert front.api.send(waiting, json.dumps({"place": str(next_place), "once": False})).status_code == 202
    for api in apis:
        # The one that is at work is not among them.
        eventually(partial(ready, api), 1)
    # As though it had been sent an hour ago.
    for table, column, key in (
        ("turns", "created_at", "session"),
        ("journal", "at", "session"),
        ("sessions", "updated_at", "id"),
    ):
        postgres.execute(database, f"UPDATE hitl.{table} SET {column} = {column} - {HOUR} WHERE {key} = '{waiting}'")
    for api in apis:
        eventually(partial(age, api), 1)
    for it in (place, next_place):
        Path(f"{it}.go").touch()
    for session_id in (busy, waiting):
        assert front.api.wait(session_id)["response"]["content"] == "worked"
    for api in apis:
        eventually(partial(ready, api), 0)
        assert age(api) == 0
