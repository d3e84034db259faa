"""A turn that leaves its process closes there what it has opened, and does nothing else in it any more."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import ChatMessage
from tests.python.support.api import PATIENCE, Api, ok, result
from tests.python.support.pooled import AGENT, Pooled
from tests.python.support.waiting import eventually

UNFORKED = "tests.python.support.threaded_pooled_agent:agent"
FOR_LONG = 1000

Serve = Callable[..., Pooled]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers, one after the other, of one store."""
    servers: list[Pooled] = []

    def start(isolation: str = "process", **options: Any) -> Pooled:
        servers.append(Pooled(tmp_path, isolation=isolation, **{"workers": 1, **options}))
        return servers[-1]

    yield start
    for server in servers:
        if server.served.is_running:
            server.served.stop()


class Peer:
    """What the pool connects to: it hears each connection to its end, and ends it then."""

    def __init__(self, path: Path) -> None:
        self.heard: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._listener.accept()[0] as connection, connection.makefile("rb") as lines:
                said = b""
                for line in lines:
                    said += line
                    if line == b"goodbye\n":
                        break
                self.heard.append(said)


def is_running(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("agent", [AGENT, UNFORKED])
def test_a_parked_turn_closes_what_it_has_opened_and_opens_it_anew_when_it_goes_on(serve: Serve, agent: str) -> None:
    server = serve(agent=agent, park_after=0)
    session = server.call(("look_up_and_ask", {"what": "a"}))
    eventually(server.noted, ["open", "look_up a", "close"])
    assert result(server.answer(session, "yes")) == ["heard yes"]
    eventually(server.noted, ["open", "look_up a", "close", "open", "look_up a", "heard yes", "close"])
    first, second = server.pids("open")
    assert first != second
    assert server.pids("close") == [first, second]


def test_the_peer_of_a_connection_is_told_goodbye_and_nothing_of_the_turn_runs_meanwhile(
    serve: Serve, tmp_path: Path
) -> None:
    peer = Peer(tmp_path / "peer")
    server = serve(park_after=0)
    session = server.call(("connect_and_ask", {}))
    eventually(lambda: peer.heard, [b"hello\ngoodbye\n"])
    eventually(server.noted, ["open", "close"])
    assert result(server.answer(session, "so")) == ["so"]
    assert [line for line in server.noted() if line == "left"] == ["left"]
    eventually(lambda: peer.heard, 2 * [b"hello\ngoodbye\n"])


def test_a_thread_that_waits_in_a_parked_turn_goes_no_further(serve: Serve) -> None:
    server = serve(park_after=0)
    session = server.call(("look_up_and_ask_in_thread", {}))
    eventually(server.noted, ["open", "look_up in thread", "close"])
    assert result(server.answer(session, "so")) == ["so"]
    assert server.noted().count("left") == 1


def test_a_pool_of_many_turns_stays_open_when_one_of_them_is_parked(serve: Serve) -> None:
    server = serve("task", park_after=0)
    session = server.call(("look_up_and_ask", {"what": "a"}))
    assert result(server.answer(session, "yes")) == ["heard yes"]
    server.served.stop()
    assert server.noted() == ["open", "look_up a", "look_up a", "heard yes", "close"]


@pytest.mark.parametrize("agent", [AGENT, UNFORKED])
@pytest.mark.parametrize("isolation", ["process", "task"])
def test_a_server_that_ends_lets_waiting_turns_close_what_they_have_opened(
    serve: Serve, isolation: str, agent: str
) -> None:
    server = serve(isolation, agent=agent, park_after=FOR_LONG)
    session = server.call(("look_up_and_ask", {"what": "a"}))
    assert server.noted() == ["open", "look_up a"]
    server.served.stop()
    assert server.noted() == ["open", "look_up a", "close"]
    again = serve(isolation, agent=agent)
    assert result(again.answer(session, "yes")) == ["heard yes"]
    assert again.noted()[:3] == ["open", "look_up a", "heard yes"]


def test_a_cancelled_turn_closes_what_it_has_opened(serve: Serve) -> None:
    server = serve(park_after=FOR_LONG)
    session = server.call(("look_up_and_ask", {"what": "a"}))
    ok(server.api.post(f"/sessions/{session['session_id']}/cancel"))
    eventually(server.noted, ["open", "look_up a", "close"])


def test_a_killed_process_closes_nothing_and_is_not_waited_for(serve: Serve) -> None:
    server = serve(park_after=FOR_LONG)
    session = server.call(("look_up_and_ask", {"what": "a"}))
    os.kill(int(server.pids("open")[0]), signal.SIGKILL)
    assert result(server.answer(session, "yes")) == ["heard yes"]
    assert server.noted()[:5] == ["open", "look_up a", "open", "look_up a", "heard yes"]


def test_an_end_that_hangs_is_told_and_ends_with_its_process_while_the_turn_goes_on_elsewhere(
    serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "hangs").touch()
    server = serve(park_after=0)
    session = server.call(("look_up_and_ask", {"what": "a"}))
    eventually(lambda: server.noted("closing"), ["open", "look_up a", "closing"])
    (tmp_path / "hangs").unlink()
    assert result(server.answer(session, "yes")) == ["heard yes"]
    server.served.wait_for_line("the resource 'pool' was not closed within 1.5 s")
    first = server.pids("open")[0]
    eventually(lambda: is_running(first), False)
    eventually(lambda: server.noted().count("close"), 1)
    assert server.pids("close") != [first]


def test_an_end_that_fails_is_told_without_what_it_holds(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "fails").touch()
    server = serve(park_after=0)
    server.call(("look_up_and_ask", {"what": "a"}))
    line = server.served.wait_for_line("closing the resource 'pool' failed: OSError")
    assert "secret" not in line
    eventually(lambda: is_running(server.pids("open")[0]), False)


def test_a_server_whose_live_agent_blocks_its_loop_ends_without_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hitl.serving.server._WORKER_ENDS", 0.1)
    is_blocked, may_go_on = threading.Event(), threading.Event()

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        is_blocked.set()
        may_go_on.wait()
        return message, state

    with hitl.Server(agent, port=0, store="memory", shutdown_timeout=0) as server, closing(Api(server.url)) as api:
        api.send(api.create(), "hello")
        assert is_blocked.wait(PATIENCE)
        assert server._worker is not None
        thread = server._worker._thread
    assert "a turn blocks the event loop of its agent" in capfd.readouterr().err
    assert thread.is_alive()
    may_go_on.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
