from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hitl.client import AsyncClient, Client
from tests.python.client.fake_server import FakeServer, Turn


async def scripted_agent(turn: Turn) -> str:
    """Does what the message says: fails, asks for approval, says its words one by one, or echoes."""
    if turn.text == "fail":
        raise ValueError("no such luck")
    if turn.text.startswith("ask"):
        path = turn.text.removeprefix("ask ")
        answer = await turn.ask({"type": "tool_approval", "tool_name": "delete_file", "tool_args": {"path": path}})
        return f"answer: {answer}"
    if turn.text.startswith("stream "):
        for word in turn.text.split()[1:]:
            turn.delta(word)
    return turn.text.upper()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(scripted_agent) as running:
        yield running


class Blocking:
    """A `Client` behind the interface of `AsyncClient`, so that one test checks both."""

    def __init__(self, url: str, **options: Any) -> None:
        self._client = Client(url, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(getattr(self._client, name), *args, **kwargs)

        return call

    async def first_events(self, count: int, **options: Any) -> list[Any]:
        def read() -> list[Any]:
            with self._client.events(**options) as events:
                return list(itertools.islice(events, count))

        return await asyncio.to_thread(read)

    async def __aenter__(self) -> Blocking:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()


class Asynchronous(AsyncClient):
    async def first_events(self, count: int, **options: Any) -> list[Any]:
        found = []
        async with self.events(**options) as events:
            async for event in events:
                found.append(event)
                if len(found) == count:
                    break
        return found


@pytest.fixture(params=[Blocking, Asynchronous], ids=["Client", "AsyncClient"])
def connect(request: pytest.FixtureRequest, server: FakeServer) -> Callable[..., Any]:
    """Makes a client of either kind for the server."""
    return lambda **options: request.param(options.pop("url", server.url), **options)
