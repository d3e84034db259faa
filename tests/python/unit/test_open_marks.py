"""What a worker has open that runs no turn: it tells the process that kills it, and closes it when it is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import as_agent
from hitl.worker.protocol import Worker
from tests.python.unit.server_end import ServerEnd


class Opened:
    """What can be open, and what became of it."""

    def __init__(self) -> None:
        self.did: list[str] = []

        @hitl.resources
        async def pool() -> AsyncIterator[str]:
            yield "a pool"
            self.did.append("closed")

        self.pool = pool


@pytest.fixture
def opened() -> Opened:
    return Opened()


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    return ChatMessage.assistant_message(content="done"), state


async def served(opened: Opened, *, is_open: bool) -> tuple[list[bool], list[Exception | None]]:
    """What a worker says that runs two turns, the second of which it cannot read, and is let go then; and how it lost
    its channel."""
    said: list[bool] = []
    lost: list[Exception | None] = []
    with ServerEnd() as server:
        worker = Worker(as_agent(agent), single=False, code="", on_lost=lost.append, mark_open=said.append)
        if is_open:
            await opened.pool.open()
        serving = asyncio.ensure_future(worker.serve(server.worker.detach()))
        await asyncio.to_thread(server.expect, "hello")
        server.turn("t1")
        server.ack(await asyncio.to_thread(server.expect, "end"))
        server.turn("t2", journal=[{"entry": "nothing that is known", "at": 0}])
        await asyncio.to_thread(server.expect, "end")
        server.socket.close()
        if is_open:
            await asyncio.wait_for(serving, 60)
        else:
            while not lost:
                await asyncio.sleep(0)
            serving.cancel()
    return said, lost


async def test_it_says_whether_it_runs_none_and_closes_what_is_open_when_it_is_let_go(opened: Opened) -> None:
    assert await served(opened, is_open=True) == ([False, True, False, True], [])
    assert opened.did == ["closed"]


async def test_one_that_has_nothing_open_says_that_and_ends_at_once(opened: Opened) -> None:
    assert await served(opened, is_open=False) == ([False, False, False, False], [None])
