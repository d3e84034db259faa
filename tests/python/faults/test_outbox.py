"""Receivers fail and the server dies, and still every event is told: at least once, under one id, in order."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hitl import _core
from tests.python.faults.programs import Maker
from tests.python.faults.world import Client, Gone, Session, World, full
from tests.python.support.ports import ReservedPort
from tests.python.support.waiting import eventually

EVENTS = (
    "interrupt.created",
    "interrupt.resolved",
    "interrupt.expired",
    "interrupt.cancelled",
    "session.idle",
    "session.error",
    "session.interrupted",
    "session.running",
)
WORDS = {"pending": "created"}
"""What the name of an interrupt's event says for its status."""

PLACES = [place for place in _core.FAILPOINTS if place.startswith("outbox.")]
RETRIES = [place for place in PLACES if place.startswith("outbox.retry")]
SESSIONS, KILLS = full((170, 5), (1_700, 50))
"""Sessions of six events each, and how often their server is killed."""


@dataclass(frozen=True)
class Call:
    """One POST as it came."""

    id: str
    content: bytes
    taken: bool

    @property
    def is_reminder(self) -> bool:
        return "_r" in self.id

    @property
    def session_id(self) -> str:
        body = json.loads(self.content)
        found: str = body["session_id"] if "session_id" in body else body["data"]["session_id"]
        return found

    @property
    def event(self) -> str:
        body = json.loads(self.content)
        return str(body["type"]) if "type" in body else f"session.{body['status']}"


class Fickle:
    """A receiver at one address that refuses, takes without saying so, or is away, as chance wants it."""

    def __init__(self, seed: int, *, refuses: float = 0.0, is_silent: float = 0.0) -> None:
        self.refuses, self.is_silent = refuses, is_silent
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._server: ThreadingHTTPServer | None = None
        # Nobody else gets the port while it is away.
        self._port = ReservedPort()
        self.arrive()

    @property
    def option(self) -> str:
        """What `--webhook` is given."""
        return ",".join([f"http://127.0.0.1:{self._port.number}/hook", *EVENTS])

    @property
    def calls(self) -> list[Call]:
        with self._lock:
            return list(self._calls)

    def arrive(self) -> None:
        fickle = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                answer = fickle._hear(self.headers["webhook-id"], content)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port.number), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def leave(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        self.leave()
        self._port.close()

    def _hear(self, id: str, content: bytes) -> int | None:
        with self._lock:
            drawn = self._chance.random()
            taken = drawn >= self.refuses
            self._calls.append(Call(id, content, taken))
            if not taken:
                return self._chance.choice([500, 503, 429])
            return None if drawn < self.refuses + self.is_silent else 200


@contextlib.contextmanager
def fickle(seed: int, **chances: float) -> Iterator[Fickle]:
    receiver = Fickle(seed, **chances)
    try:
        yield receiver
    finally:
        receiver.close()


def happened(world: World) -> dict[str, list[str]]:
    """The events of each session in order, as the store has them."""
    events: dict[str, list[str]] = {}
    with closing(sqlite3.connect(f"file:{world.database}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT session, status, interrupt FROM events ORDER BY number")
        for session, status, interrupt in rows:
            kind = "session" if interrupt is None else "interrupt"
            events.setdefault(str(uuid.UUID(bytes=session)), []).append(f"{kind}.{WORDS.get(status, status)}")
    return events


def told(calls: list[Call]) -> dict[str, list[str]]:
    """The events of each session in the order in which they came first; every one was taken, under one id."""
    contents: dict[str, bytes] = {}
    events: dict[str, list[str]] = {}
    for call in calls:
        assert contents.setdefault(call.id, call.content) == call.content, "an id came with another body"
    taken = {call.id for call in calls if call.taken}
    assert contents.keys() == taken, "it went on without this one"
    seen: set[str] = set()
    for call in calls:
        if call.id not in seen and not call.is_reminder:
            events.setdefault(call.session_id, []).append(call.event)
        seen.add(call.id)
    return events


def go_on(client: Client, sessions: list[Session], is_over: Callable[[], bool] = lambda: False) -> None:
    deadline = time.monotonic() + full(600, 1_500)  # seconds: to end what hangs, however busy the machine
    while not all(session.done for session in sessions):
        for session in sessions:
            if not session.done:
                session.advance(client, wait=0.02)
            if is_over():
                return
        assert time.monotonic() < deadline, [session for session in sessions if not session.done]


def until_settled(client: Client) -> None:
    def left(status: str) -> int:
        return len(client.get(f"/webhooks?status={status}&limit=1")[1])

    eventually(lambda: left("pending"), 0)
    assert left("failed") == 0


@pytest.mark.slow
@pytest.mark.timeout(full(900, 3_600))
def test_wherever_the_server_dies_everything_is_told_in_order(make_world: Callable[..., World]) -> None:
    maker = Maker("outbox")
    with fickle(1, refuses=0.2, is_silent=0.1) as receiver:
        world = make_world(webhooks=[receiver.option], webhook_allow_private=True, remind_after=0.3, webhook_retries=30)
        for place in [place for place in PLACES if place not in RETRIES]:
            server = world.start({"HITL_FAILPOINT": f"{place}@1"})
            session = world.session(maker.paused())
            client = world.client()
            client.given_up.set()
            with closing(client), contextlib.suppress(Gone):
                if server.url() is not None:
                    # Where reminders are what it dies of, nobody answers before one comes.
                    patient = place == "outbox.remind_written"
                    while server.returncode is None:
                        session.open(client) if patient else session.advance(client, wait=0.05)
            server.wait()
            assert server.returncode != 0, f"nothing died at {place}"
        world.begin(remind_after=0.0)
        with closing(world.client()) as client:
            go_on(client, world.sessions)
            until_settled(client)
        world.reckon()
        assert told(receiver.calls) == happened(world)


@pytest.mark.slow
@pytest.mark.timeout(full(900, 3_600))
def test_what_was_given_up_is_told_on_request_wherever_the_server_dies(make_world: Callable[..., World]) -> None:
    maker = Maker("retries")
    with fickle(2, refuses=1.0) as receiver:
        world = make_world(webhooks=[receiver.option], webhook_allow_private=True, webhook_retries=0)
        world.begin()
        session = world.session(maker.paused())
        with closing(world.client()) as client:
            go_on(client, [session])
            eventually(lambda: len(client.get("/webhooks?status=failed")[1]), 6)
            failed = [notice["notice_id"] for notice in reversed(client.get("/webhooks?status=failed")[1])]
        assert world.server.stop() == 0
        for place in RETRIES:
            server = world.begin({"HITL_FAILPOINT": f"{place}@1"})
            client = world.client()
            client.given_up.set()
            with closing(client), pytest.raises(Gone):
                client.post(f"/webhooks/{failed[0]}/retry")
            assert server.wait() != 0
        receiver.refuses = 0.0
        world.begin()
        with closing(world.client()) as client:
            for notice_id in failed:
                status, body = client.post(f"/webhooks/{notice_id}/retry")
                # 409: one of the servers that died had taken it in.
                assert status in (202, 409), body
            eventually(lambda: {call.id for call in receiver.calls if call.taken}, set(failed))
            until_settled(client)
        world.reckon()


@pytest.mark.slow
@pytest.mark.timeout(full(900, 3_600))
def test_a_thousand_events_arrive_whatever_the_receiver_and_the_server_do(make_world: Callable[..., World]) -> None:
    maker, chance = Maker("thousand"), random.Random(3)
    with fickle(3, refuses=0.1, is_silent=0.05) as receiver:
        world = make_world(
            workers=4, queue=20_000, webhooks=[receiver.option], webhook_allow_private=True, webhook_retries=50
        )
        world.begin()
        sessions = [world.session(maker.paused()) for _ in range(SESSIONS)]
        over = threading.Event()

        def blow() -> None:
            for number in range(KILLS):
                if over.wait(chance.uniform(1, 2)):
                    return
                if number % 2:
                    receiver.leave()
                world.server.kill()
                world.begin()
                if number % 2:
                    receiver.arrive()

        storm = threading.Thread(target=blow)
        storm.start()
        try:
            with closing(world.client()) as client:
                go_on(client, sessions)
                storm.join()
                until_settled(client)
        finally:
            over.set()
            storm.join()
        world.reckon()
        events = happened(world)
        assert sum(map(len, events.values())) >= 1_000
        assert told(receiver.calls) == events
        print(f"{sum(map(len, events.values()))} events in {len(receiver.calls)} calls, {KILLS} servers killed")
