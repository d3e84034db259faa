"""Event streams: what they give, and that they come back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from hitl.client import AsyncClient, Client, ConnectionFailed, NotFound
from hitl.client.core import EventFeed
from tests.python.client.fake_server import FakeServer

Connect = Callable[..., Any]


async def test_after_an_id_come_the_events_that_followed_it(connect: Connect) -> None:
    async with connect() as client:
        session = await client.create_session()
        await client.ask(session.session_id, "hello")
        events = await client.first_events(1, session_id=session.session_id, after="1")
    assert [(event.id, event.type, event.session_id) for event in events] == [("2", "session.idle", session.session_id)]


async def test_an_unknown_session_is_refused(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(NotFound):
            await client.first_events(1, session_id="nobody")


async def test_what_happens_after_connecting_is_in_the_stream(server: FakeServer) -> None:
    async with AsyncClient(server.url) as client, client.events() as events:
        session = await client.create_session()
        await client.ask(session.session_id, "ask x")
        stream = aiter(events)
        types = [(await anext(stream)).type for _ in range(3)]
    assert types == ["session.running", "interrupt.created", "session.interrupted"]


async def test_many_open_streams_leave_room_for_other_calls(server: FakeServer) -> None:
    """As a chat page has one open for each of its visitors."""
    async with AsyncClient(server.url) as client, AsyncExitStack() as open_streams:
        session = await client.create_session()
        for _ in range(101):
            await open_streams.enter_async_context(client.events(session.session_id))
        assert (await client.get_session(session.session_id)).status == "idle"


async def test_a_loop_after_another_goes_on_where_that_stopped(server: FakeServer) -> None:
    """A delta is sent once: a stream that was opened anew would not have it."""
    read: list[str] = []
    async with AsyncClient(server.url) as client:
        session = await client.create_session()
        async with client.events(session.session_id) as events:
            await client.ask(session.session_id, "stream a b c")
            async for event in events:
                read.append(event.type)
                break
            async for event in events:
                read.append(event.type)
                if event.type == "session.idle":
                    break
    assert read == ["session.running", *["message.delta"] * 3, "session.idle"]
    assert len(server.sent("GET", "/events")) == 1


def test_so_does_a_blocking_one(server: FakeServer) -> None:
    with Client(server.url) as client:
        session = client.create_session()
        with client.events(session.session_id) as events:
            client.ask(session.session_id, "stream a b c")
            first = next(event.type for event in events)
            rest = [event.type for event in itertools.islice(events, 4)]
    assert [first, *rest] == ["session.running", *["message.delta"] * 3, "session.idle"]
    assert len(server.sent("GET", "/events")) == 1


async def test_who_stopped_waiting_is_told_that_deltas_may_be_missing(server: FakeServer) -> None:
    async with AsyncClient(server.url) as client:
        session = await client.create_session()
        async with client.events(session.session_id) as events:
            waiting = asyncio.ensure_future(anext(events))
            await client.ask(session.session_id, "one")
            read = [(await waiting).type, (await anext(events)).type]
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await client.ask(session.session_id, "two")
            read += [(await anext(events)).type for _ in range(3)]
    assert read == ["session.running", "session.idle", "reconnected", "session.running", "session.idle"]


async def test_a_cut_stream_comes_back_where_it_was(server: FakeServer) -> None:
    async with AsyncClient(server.url) as client:
        session = await client.create_session()
        async with client.events(session.session_id) as events:
            stream = aiter(events)
            await client.ask(session.session_id, "one")
            before = [(await anext(stream)).type for _ in range(2)]
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            await client.ask(session.session_id, "two")
            after = [(await anext(stream)).type for _ in range(3)]
    assert before == ["session.running", "session.idle"]
    assert after == ["reconnected", "session.running", "session.idle"]
    assert server.sent("GET", "/events")[-1].headers["last-event-id"] == "2"


def test_a_stream_that_has_heard_nothing_comes_back_where_it_began() -> None:
    feed = EventFeed(None, None, patience=30.0)
    assert "Last-Event-ID" not in feed.request_arguments(1.0)["headers"]
    assert feed.read(httpx2.ServerSentEvent(id="7", retry=1000)) is None
    assert feed.request_arguments(1.0)["headers"]["Last-Event-ID"] == "7"


async def test_patience_ends(server: FakeServer) -> None:
    async with AsyncClient(server.url) as client, client.events(patience=0.15) as events:
        stream = aiter(events)
        await asyncio.to_thread(server.stop)
        with pytest.raises(ConnectionFailed):
            await anext(stream)


async def test_a_session_deleted_meanwhile_ends_the_stream(server: FakeServer) -> None:
    async with AsyncClient(server.url) as client:
        session = await client.create_session()
        async with client.events(session.session_id) as events:
            stream = aiter(events)
            await client.delete_session(session.session_id)
            with pytest.raises(NotFound):
                await anext(stream)
