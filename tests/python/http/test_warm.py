"""A server that the tests fork (`tests.python.support.warm`) is, for what they say of servers, one that was started."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

import hitl
from hitl.client import Client
from tests.python.http.conftest import Serve
from tests.python.support.api import result, tool_results
from tests.python.support.gate import Gate
from tests.python.support.served import Served, fork, zygotes_python
from tests.python.support.waiting import eventually
from tests.python.support.warm import Forked

ECHO = """
from pathlib import Path
from hitl import ChatMessage

async def agent(message, state):
    return ChatMessage.assistant_message(content=str(Path.cwd())), state
"""


SAYS = """
import atexit, sys, threading
from pathlib import Path

def last():
    threading.main_thread().join(0.1)  # the program has ended, and this goes on
    print("in a thread")

sys.stdout.reconfigure(write_through=False)
atexit.register(print, "at its end")
print(Path.cwd(), sys.argv[1:])
threading.Thread(target=last).start()
sys.exit(3)
"""


CUTS = """
import atexit, socket, struct, sys

listening = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
connection, _ = listening.accept()
connection.recv(65536)
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
connection.close()
import asyncio  # which takes a moment
atexit.register(print, "its last words")
sys.exit(7)
"""


def children(pid: int) -> list[int]:
    """What a process has started, by whichever of its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


@pytest.fixture
def forked(serve: Serve) -> Served:
    server: Served = serve("playbook")
    if not isinstance(server._process, Forked):
        pytest.skip("servers are not forked here")
    return server


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_how_it_ended_is_told(forked: Served, number: signal.Signals, code: int) -> None:
    assert forked.is_running
    forked.signal(number)
    assert forked.wait() == code
    assert not forked.is_running


def test_whoever_cannot_ask_it_is_told_how_it_ended(forked: Served) -> None:
    forked.signal(signal.SIGSTOP)
    connected = threading.Event()

    def trace(event: str, _: object) -> None:
        if event == "connection.connect_tcp.complete":
            connected.set()

    with ThreadPoolExecutor(1) as somebody:
        asked = somebody.submit(forked.api.http.post, "/sessions", json={}, extensions={"trace": trace})
        assert connected.wait(100)
        forked.signal(signal.SIGKILL)
        error = asked.exception()
    assert isinstance(error, httpx2.TransportError)
    assert f"the server {forked.pid} at {forked.url} was ended by SIGKILL, and wrote:" in error.__notes__[0]


class Cutting(Served):
    """One that cuts the first connection, and ends a little later."""

    @staticmethod
    def command(agent: str, options: Mapping[str, Any]) -> list[str]:
        return [sys.executable, "-c", CUTS]

    @staticmethod
    def quick_program(agent: str, options: Mapping[str, Any]) -> None:
        return None


def test_one_that_ends_a_little_later_than_its_connections_is_not_said_to_run() -> None:
    with Cutting("none") as server:
        with pytest.raises(httpx2.TransportError) as raised:
            server.api.post("/sessions", {})
        (note,) = raised.value.__notes__
        assert f"the server {server.pid} at {server.url} has ended with 7, and wrote:" in note
        assert note.endswith("its last words")


def test_its_workers_end_with_it(forked: Served, gate: Gate) -> None:
    forked.api.play(forked.api.create(), "hold", gate.port)
    gate.wait_for_arrival()
    forked.kill()
    gate.wait_until_gone()


def test_what_it_takes_for_its_zygote_ends_with_the_zygote_and_is_replaced(forked: Served, gate: Gate) -> None:
    api = forked.api
    session = api.create()
    api.play(session, "hold", gate.port)
    gate.wait_for_arrival()
    (zygote,) = children(forked.pid)
    os.kill(zygote, signal.SIGKILL)
    gate.wait_until_gone()
    gate.wait_for_arrival()  # the turn goes on in a worker of the next one
    gate.release()
    api.wait(session)
    eventually(lambda: children(forked.pid) not in ([], [zygote]), True)


@pytest.mark.parametrize("started", [False, True])
def test_a_question_of_it_is_answered_on_one_that_was_started_and_the_other_way_round(
    serve: Serve, store: str, started: bool
) -> None:
    """To both, the agent's code is the same: nothing of the tests is taken for a part of it."""
    first = serve("playbook", store=store, started=started)
    session, interrupt = first.api.ask({"sure": True})
    first.stop()
    api = serve("playbook", store=store, started=not started).api
    assert api.resume(session, interrupt, 7).status_code == 200
    assert result(api.wait(session)) == 7


def test_what_it_reads_from_the_environment_is_what_the_test_has_now(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("playbook")
    monkeypatch.setenv("WHOSE", "this test's")
    assert not isinstance(serve("playbook")._process, Forked)


def test_what_only_agents_read_is_given_to_a_fork_and_with_anything_else_it_is_started(serve: Serve) -> None:
    serve("puppet")
    for variable, is_forked in (("NOTES", True), ("WHOSE", False)):
        server = serve("puppet", environment={variable: "this test's"})
        assert isinstance(server._process, Forked) is is_forked
        (environment,) = tool_results(server.api.call_tools([{"name": "environment_of_tool"}]))
        assert environment[variable] == "this test's"


def test_a_program_stands_where_it_is_said_and_ends_as_one_that_was_started(tmp_path: Path) -> None:
    """With what it has registered for its end, what it has not flushed, and its code."""
    (tmp_path / "says.py").write_text(SAYS)
    program = fork(("says", ["hello"]), {}, tmp_path)
    if program is None:
        pytest.skip("programs are not forked here")
    assert program.stdout is not None
    with program.stdout:
        assert program.stdout.read() == f"{tmp_path} ['hello']\nin a thread\nat its end\n"
    assert program.wait() == 3


def test_an_agent_is_found_where_its_server_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a zygote that is forked for a server of this process."""
    (tmp_path / "echo_of_its_own.py").write_text(ECHO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", zygotes_python())
    with hitl.Server("echo_of_its_own:agent", port=0, store="memory") as server, Client(server.url) as client:
        reply = client.ask(client.create_session().session_id, "hello").response
    assert reply is not None
    assert reply.content == str(tmp_path)
