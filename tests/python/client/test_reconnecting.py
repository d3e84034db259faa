"""How long an event stream tries to come back, against what, and what it takes for the end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpcore2
import httpx2
import pytest

from hitl.client import (
    ApiError,
    AsyncClient,
    ClientError,
    ConnectionFailed,
    RateLimited,
    Unavailable,
    UnexpectedResponse,
    async_client,
    core,
)
from hitl.client.async_client import AsyncEventStream
from hitl.client.core import EVENT_SILENCE, EventFeed
from tests.python.client.fake_server import Answer, FakeServer, problem

PAGE = "<html>The server behind this proxy is not there</html>"
PASSING = {
    "starting": problem(503, "This server does not serve yet", "standing_by"),
    "busy": problem(429, "Too many requests", "rate_limited"),
    "proxy-502": Answer(502, PAGE),
    "proxy-503": Answer(503, PAGE),
    "proxy-504": Answer(504, PAGE),
}
LASTING = {
    "unauthorized": problem(401, "This needs an API key", "unauthorized"),
    "forbidden": problem(403, "Not for you", "forbidden"),
    "gone": problem(404, "Session not found", "session_not_found"),
    "broken": problem(500, "Internal error", "internal_error"),
}


class Clock:
    """What `time.monotonic` says to a feed; it stands until a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(core, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def waits(feed: EventFeed) -> tuple[float, float]:
    """Seconds that the next request has to connect and to be answered."""
    limits = feed.request_arguments(30.0)["timeout"]
    return limits.connect, limits.read


def answered(feed: EventFeed) -> None:
    """The next request opens the stream."""
    limits = feed.request_arguments(30.0)["timeout"].as_dict()
    feed.connected(httpx2.Request("GET", "http://127.0.0.1/events", extensions={"timeout": limits}))


def began(feed: EventFeed, retry: int | None = None) -> None:
    """The stream says where it begins."""
    feed.read(httpx2.ServerSentEvent(id="7", retry=retry))


async def read_all(events: AsyncEventStream, read: list[str]) -> None:
    while True:
        read.append((await anext(events)).type)


@pytest.mark.parametrize("refusal", PASSING.values(), ids=PASSING)
async def test_a_refusal_that_passes_is_a_try_that_failed(server: FakeServer, refusal: Answer) -> None:
    async with AsyncClient(server.url) as client, client.events() as events:
        stream = aiter(events)
        server.override("GET", "/events", refusal, refusal)
        await asyncio.to_thread(server.cut_streams)
        assert (await anext(stream)).type == "reconnected"
    assert len(server.sent("GET", "/events")) == 4


@pytest.mark.parametrize("refusal", PASSING.values(), ids=PASSING)
async def test_a_refusal_that_does_not_pass_is_raised_when_patience_is_over(
    server: FakeServer, refusal: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last try hears its refusal, however slow the machine is.
    monkeypatch.setattr(EventFeed, "SHORTEST_TRY", 30.0)
    async with AsyncClient(server.url) as client, client.events(patience=1.0) as events:
        server.override("GET", "/events", *[refusal] * 100)
        await asyncio.to_thread(server.cut_streams)
        with pytest.raises(ClientError) as caught:
            await anext(aiter(events))
    assert caught.value.status == refusal.status
    assert len(server.sent("GET", "/events")) > 2


@pytest.mark.parametrize("refusal", LASTING.values(), ids=LASTING)
async def test_any_other_refusal_is_raised_at_once(server: FakeServer, refusal: Answer) -> None:
    async with AsyncClient(server.url) as client, client.events(patience=100.0) as events:
        server.override("GET", "/events", refusal)
        await asyncio.to_thread(server.cut_streams)
        with pytest.raises(ApiError) as caught:
            await anext(aiter(events))
    assert caught.value.status == refusal.status
    assert len(server.sent("GET", "/events")) == 2


async def test_a_refusal_of_the_first_connection_is_raised_at_once(server: FakeServer) -> None:
    server.override("GET", "/events", PASSING["starting"])
    async with AsyncClient(server.url) as client:
        with pytest.raises(Unavailable):
            await client.events(patience=100.0).connect()


@pytest.mark.parametrize("kind", [RateLimited, Unavailable])
def test_a_server_is_left_alone_for_as_long_as_it_asks(clock: Clock, kind: type[RateLimited | Unavailable]) -> None:
    feed = EventFeed(None, None, patience=30.0)
    refused = kind("later", "later", 503, {})
    assert feed.next_delay(refused) == 0.1
    refused.retry_after = 7.0
    assert feed.next_delay(refused) == 7.0
    refused.retry_after = 600.0
    assert feed.next_delay(refused) == 30.0


def test_patience_counts_what_tries_take_and_not_the_pauses_alone(clock: Clock) -> None:
    feed = EventFeed(None, None, patience=10.0)
    lost = ConnectionFailed("the connection broke")
    assert waits(feed) == (30.0, EVENT_SILENCE)
    assert feed.next_delay(lost) == 0.1
    clock.now += 4.0
    assert waits(feed) == (6.0, 6.0)
    assert feed.next_delay(lost) == 0.2
    clock.now += 5.9
    assert feed.next_delay(lost) == pytest.approx(0.1)
    clock.now += 0.1
    assert waits(feed) == (EventFeed.SHORTEST_TRY, EventFeed.SHORTEST_TRY)
    with pytest.raises(ConnectionFailed, match="broke"):
        feed.next_delay(lost)


def test_patience_begins_anew_with_each_loss(clock: Clock) -> None:
    feed = EventFeed(None, None, patience=10.0)
    lost = ConnectionFailed("the connection broke")
    feed.next_delay(lost)
    clock.now += 9.0
    answered(feed)
    began(feed)
    assert waits(feed) == (30.0, EVENT_SILENCE)
    clock.now += 9.0
    assert feed.next_delay(lost) == 0.1


def test_patience_does_not_begin_anew_with_a_stream_that_brings_nothing(clock: Clock) -> None:
    feed = EventFeed(None, None, patience=10.0)
    lost = ConnectionFailed("the event stream ended")
    assert feed.next_delay(lost) == 0.1
    answered(feed)
    assert feed.next_delay(lost) == 0.2
    answered(feed)
    clock.now += 10.0
    with pytest.raises(ConnectionFailed, match="ended"):
        feed.next_delay(lost)


def test_a_server_is_left_alone_for_as_long_as_its_stream_says(clock: Clock) -> None:
    feed = EventFeed(None, None, patience=30.0)
    lost = ConnectionFailed("the connection broke")
    began(feed, retry=1000)
    assert [feed.next_delay(lost) for _ in range(5)] == [1.0, 1.0, 1.0, 1.0, 1.6]
    began(feed)
    assert feed.next_delay(lost) == 1.0
    began(feed, retry=0)
    assert feed.next_delay(lost) == 0.1


async def test_a_stream_that_ends_at_once_again_and_again_is_the_end_when_patience_is_over(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventFeed, "SHORTEST_TRY", 30.0)
    empty = Answer(200, headers={"content-type": "text/event-stream"})
    read: list[str] = []
    async with AsyncClient(server.url) as client, client.events(patience=0.3) as events:
        server.override("GET", "/events", *[empty] * 100)
        await asyncio.to_thread(server.cut_streams)
        with pytest.raises(ConnectionFailed, match="ended the event stream"):
            await read_all(events, read)
    assert set(read) == {"reconnected"}


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "again"])
async def test_what_is_no_event_stream_is_none(server: FakeServer, is_first: bool) -> None:
    page = Answer(200, PAGE, {"content-type": "text/html; charset=utf-8"})
    async with AsyncClient(server.url) as client:
        events = client.events(patience=100.0)
        if not is_first:
            await events.connect()
        server.override("GET", "/events", page)
        await asyncio.to_thread(server.cut_streams)
        with pytest.raises(
            UnexpectedResponse, match="/events was asked for an event stream and answered with text/html"
        ):
            await anext(events)
        await events.close()
    assert len(server.sent("GET", "/events")) == (1 if is_first else 2)


async def test_an_event_that_is_too_large_is_not_fetched_again(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_client, "LARGEST_EVENT", 1000)
    read: list[str] = []
    async with AsyncClient(server.url) as client, client.events(patience=100.0) as events:
        session = await client.create_session()
        await client.ask(session.session_id, "stream " + "x" * 2000)
        with pytest.raises(UnexpectedResponse, match=r"none of a hitl server: .*1000 byte limit"):
            await read_all(events, read)
    assert read == ["session.running"]
    assert len(server.sent("GET", "/events")) == 1


async def test_a_server_that_takes_connections_and_says_nothing_is_waited_for_no_longer(server: FakeServer) -> None:
    async with AsyncClient(server.url) as client, client.events(patience=0.3) as events:
        await asyncio.to_thread(server.stop)
        taken: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, writer: taken.append(writer), "127.0.0.1", server.port)
        try:
            async with asyncio.timeout(EVENT_SILENCE - 10):
                with pytest.raises(ConnectionFailed) as caught:
                    await anext(aiter(events))
        finally:
            silent.close()
            for writer in taken:
                writer.close()
    assert caught.value.code == "timeout"
    assert taken


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[float]:
    """Seconds that each read from the network may take, as it begins."""
    reads: asyncio.Queue[float] = asyncio.Queue()
    connect = httpcore2.AnyIOBackend.connect_tcp

    async def noted(*args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        connection = await connect(*args, **options)
        read = connection.read

        async def noted_read(max_bytes: int, timeout: float) -> bytes:
            reads.put_nowait(timeout)
            return await read(max_bytes, timeout)

        monkeypatch.setattr(connection, "read", noted_read)
        return connection

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", noted)
    return reads


async def test_a_stream_that_is_back_may_be_silent_for_as_long_as_before(
    server: FakeServer, allowed: asyncio.Queue[float]
) -> None:
    async with AsyncClient(server.url) as client, client.events(patience=5.0) as events:
        stream = aiter(events)
        await asyncio.to_thread(server.cut_streams)
        assert (await anext(stream)).type == "reconnected"
        reads = [allowed.get_nowait() for _ in range(allowed.qsize())]
        assert reads[0] == EVENT_SILENCE
        assert reads[-1] <= 5.0
        more = asyncio.ensure_future(anext(stream))
        assert await allowed.get() == EVENT_SILENCE
        more.cancel()
        with pytest.raises(asyncio.CancelledError):
            await more
