"""Several servers on one database: one has it, the others stand by and take over."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.python.cluster.conftest import Serve
from tests.python.cluster.proxy import Proxy
from tests.python.support import postgres
from tests.python.support.api import Api, Json, ok, problem
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

StandBy = Callable[[], Served]


def question(api: Api) -> tuple[str, str]:
    """A new session that waits for an answer, and which."""
    session_id = api.create()
    session = api.settled(session_id, "null", 1)
    return session_id, session["interrupts"][0]["interrupt_id"]


def begin_step(api: Api, place: Path, *, once: bool = False) -> str:
    """A new session whose turn is in the middle of a step."""
    session_id = api.create()
    assert api.send(session_id, json.dumps({"place": str(place), "once": once})).status_code == 202
    eventually(lambda: runs(place), 1)
    return session_id


def runs(place: Path) -> int:
    """How often the step was begun."""
    ran = Path(f"{place}.ran")
    return len(ran.read_text().splitlines()) if ran.exists() else 0


def until_it_serves(server: Served) -> None:
    server.wait_for_line("is served on")


def status(server: Served, path: str) -> int:
    with httpx2.Client(trust_env=False) as client:
        return client.get(server.url + path).status_code


def through(proxy: Proxy, database: str) -> str:
    """The address of the same database on another way."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(database).path}"


def answered(api: Api, session_id: str, interrupt_id: str) -> Json:
    ok(api.resume(session_id, interrupt_id, "yes"))
    return api.wait(session_id)


def test_whoever_stands_by_is_alive_and_not_ready(serve: Serve, stand_by: StandBy) -> None:
    serve()
    second = stand_by()
    eventually(lambda: status(second, "/healthz"), 200)
    refused = second.api.get("/sessions")
    assert problem(refused, 503)["code"] == "standing_by"
    assert refused.headers["retry-after"] == "5"
    assert status(second, "/readyz") == 503


def test_a_server_that_ends_leaves_its_sessions_to_the_next_at_once(serve: Serve, stand_by: StandBy) -> None:
    first = serve()
    session_id, interrupt_id = question(first.api)
    second = stand_by()
    first.stop()
    until_it_serves(second)
    assert status(second, "/readyz") == 200
    assert answered(second.api, session_id, interrupt_id)["response"]["content"] == "yes"


@pytest.mark.parametrize("once", [False, True])
def test_the_turns_of_a_server_that_is_killed_go_on_at_the_next(
    serve: Serve, stand_by: StandBy, place: Path, *, once: bool
) -> None:
    first = serve()
    session_id, interrupt_id = question(first.api)
    at_work = begin_step(first.api, place, once=once)
    second = stand_by()
    first.kill()
    until_it_serves(second)
    assert answered(second.api, session_id, interrupt_id)["response"]["content"] == "yes"
    Path(f"{place}.go").touch()
    session = second.api.wait(at_work)
    if once:
        # Nobody knows whether it took effect: a person is asked, and it does not run again.
        assert session["status"] == "interrupted"
        assert runs(place) == 1
    else:
        assert session["response"]["content"] == "worked"
        assert runs(place) == 2


def test_a_server_that_was_stopped_for_too_long_does_nothing_when_it_goes_on(
    serve: Serve, stand_by: StandBy, database: str
) -> None:
    first = serve()
    session_id, interrupt_id = question(first.api)
    second = stand_by()
    first.signal(signal.SIGSTOP)
    try:
        until_it_serves(second)
    finally:
        first.signal(signal.SIGCONT)
    with httpx2.Client(trust_env=False) as client:
        try:
            refused = client.get(f"{first.url}/sessions/{session_id}")
        except httpx2.TransportError:
            pass  # it has ended already
        else:
            assert problem(refused, 503)["code"] in ("store_unavailable", "shutting_down")
    assert first.wait() == 1
    first.wait_for_line("another server has taken the place of this one")
    assert answered(second.api, session_id, interrupt_id)["response"]["content"] == "yes"
    assert postgres.execute(database, "SELECT count(*) FROM hitl.servers") == "1"


def test_a_server_without_its_database_serves_nobody_and_its_workers_are_gone_before_another_takes_over(
    serve: Serve, stand_by: StandBy, database: str, place: Path
) -> None:
    with Proxy(postgres.socket_of(database)) as proxy:
        first = serve(through(proxy, database))
        session_id = begin_step(first.api, place)
        second = stand_by()
        proxy.hold()
        first.wait_for_line("not reached for too long")
        with httpx2.Client(trust_env=False) as client:
            assert problem(client.get(f"{first.url}/sessions/{session_id}", timeout=60), 503)
            assert client.get(f"{first.url}/healthz").status_code == 200
        # Its worker would end the step now, if it were there.
        Path(f"{place}.go").touch()
        until_it_serves(second)
        assert second.api.wait(session_id)["response"]["content"] == "worked"
        assert runs(place) == 2
        proxy.release()
        assert first.wait() == 1


def test_a_server_goes_on_when_it_reaches_its_database_again(serve: Serve, database: str, place: Path) -> None:
    with Proxy(postgres.socket_of(database)) as proxy:
        server = serve(through(proxy, database))
        waiting, interrupt_id = question(server.api)
        at_work = begin_step(server.api, place)
        proxy.hold()
        server.wait_for_line("not reached for too long")
        proxy.release()
        server.wait_for_line("reached again")
        eventually(lambda: status(server, "/readyz"), 200)
        assert answered(server.api, waiting, interrupt_id)["response"]["content"] == "yes"
        eventually(lambda: runs(place), 2)
        Path(f"{place}.go").touch()
        assert server.api.wait(at_work)["response"]["content"] == "worked"
