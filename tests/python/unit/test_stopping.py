"""How long `Server.stop()` waits for turns at work."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from hitl import ChatMessage, Server
from hitl.client import Client

LIMIT = 100.0


class Endless:
    """An agent that works for as long as a test lasts."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Any:
        self.began.set()
        await asyncio.to_thread(self.may_end.wait)


@pytest.mark.parametrize("timeout", [-1, -0.5, 0])
def test_a_deadline_that_has_passed_waits_no_longer(timeout: float) -> None:
    agent = Endless()
    server = Server(agent, port=0, store="memory").start()
    with Client(server.url) as client:
        client.send_message(client.create_session().session_id, "go")
        assert agent.began.wait(LIMIT)
    stopping = threading.Thread(target=server.stop, args=(timeout,), daemon=True)
    stopping.start()
    stopping.join(LIMIT)
    is_over = not stopping.is_alive()
    agent.may_end.set()
    assert is_over


@pytest.mark.parametrize(("timeout", "error"), [(float("nan"), ValueError), ("5", TypeError), (True, TypeError)])
def test_what_is_no_time_is_refused_and_the_server_goes_on(timeout: Any, error: type[Exception]) -> None:
    with Server(Endless(), port=0, store="memory") as server:
        with pytest.raises(error, match=r"stop\(\): timeout is a number of seconds or None"):
            server.stop(timeout)
        with Client(server.url) as client:
            assert client.create_session().status == "idle"
