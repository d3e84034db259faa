"""Following a session while it is at work, and noticing what others do to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from hitl.cli.chat.rendering import Screen
from hitl.client import Accepted, AsyncClient, ConnectionFailed, Event, Interrupt, NotFound, Session
from hitl.client.errors import ClientError
from hitl.errors import HitlError

Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds of trying to reach a server that was there before; a restart takes less."""

LAST_WORDS = 1.0
"""Seconds for the last deltas, which come on another connection than the news that the turn has ended."""

_SETTLED = ("interrupt.resolved", "interrupt.expired", "interrupt.cancelled")


class SessionGone(HitlError):
    """The session was deleted while the chat had it open."""

    code = "session_gone"


async def patiently(screen: Screen, attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Carry out something that is safe to repeat, again and again while the server cannot be reached."""
    clock = asyncio.get_running_loop().time
    deadline, delay = clock() + PATIENCE, 0.1
    while True:
        try:
            return await attempt()
        except ConnectionFailed:
            if clock() + delay > deadline:
                raise
            if delay == 0.1:
                screen.note("The connection is lost; trying again.")
            await asyncio.sleep(delay)
            delay = min(2.0, delay * 2)


class Follower:
    """One session, watched over one event stream. Enter it before the first message, so that no delta is missed."""

    def __init__(self, client: AsyncClient, session_id: str, screen: Screen) -> None:
        self._client = client
        self._session_id = session_id
        self._screen = screen
        # It only adds to what the requests tell, so it never gives up by itself.
        self._stream = client.events(session_id, patience=math.inf)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._settled: dict[str, asyncio.Future[Interrupt]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._heard = ""

    async def __aenter__(self) -> Follower:
        await self._stream.connect()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError, ClientError, SessionGone):
                await self._reading
        await self._stream.close()

    async def to_the_end(self) -> Session:
        """Print what the agent says, and what its tools do, until its turn ends or asks; the session as it is then."""
        waiting = asyncio.create_task(self.patiently(lambda: self._client.wait(self._session_id)))
        try:
            await self._print_events(waiting)
            session = await waiting
        finally:
            waiting.cancel()
        self._screen.end_turn(session)
        return session

    def note_accepted(self, accepted: Accepted) -> None:
        """Take in what the server replied, which the stream tells later: the status to follow from."""
        self._heard = accepted.status

    async def settled(self, interrupt_id: str) -> Interrupt:
        """Return the interrupt's record once it was answered, expired or withdrawn, by whomever."""
        assert self._reading is not None, "enter the follower first"
        news = self._news_of(interrupt_id)
        either: set[asyncio.Future[Any]] = {news, self._reading}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not news.done():
            await self._reading  # It ends only by raising why.
        return news.result()

    async def patiently(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """As the function: `SessionGone` where it asks for the session, and that was deleted."""
        try:
            return await patiently(self._screen, attempt)
        except NotFound as error:
            if error.code in ("session_not_found", "session_deleted"):
                raise SessionGone(error.detail) from error
            raise

    async def _print_events(self, turn: asyncio.Task[Session]) -> None:
        """Print what streams in until `turn` is done and its last words are printed."""
        while not (turn.done() and self._has_heard(turn)):
            event = await self._next_event(turn)
            if event is None:
                return
            if event.type == "message.delta":
                self._screen.delta(event)
            elif event.type == "tool.started":
                self._screen.tool_started(event)
            elif event.type == "tool.finished":
                self._screen.tool_finished(event)
            elif event.type.startswith("session."):
                self._heard = event.type.removeprefix("session.")

    def _has_heard(self, turn: asyncio.Task[Session]) -> bool:
        """Whether the stream has come to where the turn ended, so that no delta is left in it."""
        if turn.exception() is not None:
            return True
        return self._events.empty() and self._heard == turn.result().status

    async def _next_event(self, turn: asyncio.Task[Session]) -> Event | None:
        """The next event; None when the turn is done and nothing comes any more."""
        coming = asyncio.ensure_future(self._events.get())
        try:
            await asyncio.wait({coming, turn}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                await asyncio.wait({coming}, timeout=LAST_WORDS)
            return coming.result() if coming.done() else None
        finally:
            coming.cancel()

    async def _read(self) -> None:
        try:
            async for event in self._stream:
                if event.type in _SETTLED and event.interrupt_id is not None:
                    if "payload" not in event.data:
                        # The record went with its session, and the event only names it.
                        raise SessionGone("Session deleted")
                    news = self._news_of(event.interrupt_id)
                    if not news.done():
                        news.set_result(Interrupt.from_json(event.data))
                self._events.put_nowait(event)
        except NotFound as error:
            raise SessionGone(error.detail) from error

    def _news_of(self, interrupt_id: str) -> asyncio.Future[Interrupt]:
        return self._settled.setdefault(interrupt_id, asyncio.get_running_loop().create_future())
