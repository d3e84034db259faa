"""Several servers on one database: what one leaves that ends, dies or is cut off, another takes over."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

import hitl
from benchmarks.processes import children
from tests.python.cluster.conftest import Serve, begin_step, lines, runs
from tests.python.cluster.proxy import Proxy
from tests.python.faults import slow_step_agent
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


def until_it_is_dead(server: Served) -> None:
    """`server` has found that another one is."""
    server.wait_for_line("a server that had the store is dead")


def status(server: Served, path: str) -> int:
    with httpx2.Client(trust_env=False, verify=False) as client:
        return client.get(server.url + path).status_code


def through(proxy: Proxy, database: str) -> str:
    """The address of the same database on another way."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(database).path}"


def answered(api: Api, session_id: str, interrupt_id: str) -> Json:
    ok(api.resume(session_id, interrupt_id, "yes"))
    return api.wait(session_id)


def test_whoever_stands_by_is_alive_and_not_ready(stand_by: StandBy, database: str, place: Path) -> None:
    """Beside a run, whose turn a server would take up."""
    message = json.dumps({"place": str(place), "once": False})
    with ThreadPoolExecutor(1) as somebody:
        run = somebody.submit(hitl.run_sync, slow_step_agent.agent, message, store=database)
        eventually(lambda: runs(place), 1)
        server = stand_by()
        eventually(lambda: status(server, "/healthz"), 200)
        refused = server.api.get("/sessions")
        assert problem(refused, 503)["code"] == "standing_by"
        assert refused.headers["retry-after"] == "5"
        assert status(server, "/readyz") == 503
        Path(f"{place}.go").touch()
        assert run.result().response.content == "worked"
    server.wait_for_line("is served on")
    assert status(server, "/readyz") == 200


def test_a_server_that_ends_leaves_its_sessions_to_the_others_at_once(serve: Serve, place: Path) -> None:
    first, second = serve(shutdown_timeout=0), serve()
    session_id, interrupt_id = question(first.api)
    at_work = begin_step(first.api, place)
    first.stop()
    assert answered(second.api, session_id, interrupt_id)["response"]["content"] == "yes"
    eventually(lambda: runs(place), 2)
    Path(f"{place}.go").touch()
    assert second.api.wait(at_work)["response"]["content"] == "worked"


@pytest.mark.parametrize("once", [False, True])
def test_the_turns_of_a_server_that_is_killed_go_on_at_another(serve: Serve, place: Path, *, once: bool) -> None:
    first, second = serve(), serve()
    session_id, interrupt_id = question(first.api)
    at_work = begin_step(first.api, place, once=once)
    first.kill()
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


def test_a_server_that_was_stopped_for_too_long_does_nothing_when_it_goes_on(serve: Serve, database: str) -> None:
    first, second = serve(), serve()
    session_id, interrupt_id = question(first.api)
    first.signal(signal.SIGSTOP)
    try:
        until_it_is_dead(second)
    finally:
        first.signal(signal.SIGCONT)
    with httpx2.Client(trust_env=False, verify=False) as client:
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


def test_a_worker_whose_server_is_stopped_begins_no_step_that_another_server_goes_on_with(
    serve: Serve, place: Path
) -> None:
    first, second = serve(started=True), serve()
    session_id = first.api.create()
    order = {"place": str(place), "once": False, "waits": True}
    assert first.api.send(session_id, json.dumps(order)).status_code == 202
    eventually(lambda: lines(place, "waits"), 1)
    # Its workers are not: what they are at goes on.
    first.signal(signal.SIGSTOP)
    try:
        until_it_is_dead(second)
        eventually(lambda: lines(place, "waits"), 2)
        Path(f"{place}.begin").touch()
        eventually(lambda: lines(place, "came"), 2)
        Path(f"{place}.go").touch()
        assert second.api.wait(session_id)["response"]["content"] == "worked"
    finally:
        first.signal(signal.SIGCONT)
    assert first.wait() == 1
    assert runs(place) == 1


def test_a_server_without_its_database_serves_nobody_and_its_workers_are_gone_before_another_takes_over(
    serve: Serve, database: str, place: Path
) -> None:
    with Proxy(postgres.socket_of(database)) as proxy:
        # By the kernel its workers end with its zygote, and that with it: nobody else has a part in that.
        first, second = serve(through(proxy, database), checked=False, started=True), serve()
        session_id = begin_step(first.api, place)
        proxy.hold()
        first.wait_for_line("not reached for too long")
        with httpx2.Client(trust_env=False, verify=False) as client:
            assert problem(client.get(f"{first.url}/sessions/{session_id}", timeout=60), 503)
            assert client.get(f"{first.url}/healthz").status_code == 200
        # Its worker would end the step now, if it were there.
        Path(f"{place}.go").touch()
        until_it_is_dead(second)
        assert second.api.wait(session_id)["response"]["content"] == "worked"
        assert runs(place) == 2
        proxy.release()
        assert first.wait() == 1


def test_a_server_without_its_database_gives_no_turn_to_a_worker_that_comes_later(
    serve: Serve, database: str, place: Path
) -> None:
    with Proxy(postgres.socket_of(database)) as proxy:
        first = serve(through(proxy, database), checked=False, workers=1, started=True)
        second = serve(workers=1)
        # It has a turn, and no worker for it before it is cut off.
        (zygote,) = children(first.pid)
        os.kill(zygote, signal.SIGSTOP)
        for idle in children(zygote):
            os.kill(idle, signal.SIGKILL)
        session_id = first.api.create()
        assert first.api.send(session_id, json.dumps({"place": str(place), "once": False})).status_code == 202
        proxy.hold()
        first.wait_for_line("not reached for too long")
        os.kill(zygote, signal.SIGCONT)
        eventually(lambda: bool(children(zygote)), True)
        until_it_is_dead(second)
        eventually(lambda: runs(place) > 0, True)
        Path(f"{place}.go").touch()
        assert second.api.wait(session_id)["response"]["content"] == "worked"
        assert runs(place) == 1
        proxy.release()
        assert first.wait() == 1


def test_a_server_goes_on_when_it_reaches_its_database_again(serve: Serve, database: str, place: Path) -> None:
    with Proxy(postgres.socket_of(database)) as proxy:
        server = serve(through(proxy, database), checked=False)
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
