"""The client for asyncio. Each part has its blocking twin, under the same name, in `sync_client`, which is made
from this file: `python -m tools.blocking_client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx2

from hitl.client import calls
from hitl.client.call import Call, Plan
from hitl.client.core import (
    DEFAULT_URL,
    LARGEST_EVENT,
    RECONNECTED,
    EventFeed,
    check_stream,
    connection_settings,
    failures_of,
    look_like,
    read_answer,
    request_arguments,
)
from hitl.client.errors import ClientError, ConnectionFailed
from hitl.client.models import Event

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _method(
    plan_for: Callable[Parameters, Plan[Result]],
) -> Callable[Concatenate[AsyncClient, Parameters], Coroutine[Any, Any, Result]]:
    async def method(self: AsyncClient, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await self._carry_out(plan_for(*args, **kwargs))

    look_like(plan_for, method)
    return method


class AsyncClient:
    """Talks to a hitl server from asyncio. Arguments and errors are those of `Client`.

    Example:
        async with AsyncClient("http://127.0.0.1:8000") as client:
            created = await client.create_session()
            session = await client.ask(created.session_id, "hello")
    """

    def __init__(self, url: str = DEFAULT_URL, *, api_key: str | None = None, timeout: float = 30.0) -> None:
        self._timeout = timeout
        self._http = httpx2.AsyncClient(**connection_settings(url, api_key, timeout))

    health = _method(calls.health)
    me = _method(calls.me)
    create_session = _method(calls.create_session)
    list_sessions = _method(calls.list_sessions)
    get_session = _method(calls.get_session)
    delete_session = _method(calls.delete_session)
    get_messages = _method(calls.get_messages)
    send_message = _method(calls.send_message)
    resume = _method(calls.resume)
    resume_many = _method(calls.resume_many)
    cancel = _method(calls.cancel)
    retry = _method(calls.retry)
    list_interrupts = _method(calls.list_interrupts)
    get_interrupt = _method(calls.get_interrupt)
    answer = _method(calls.answer)
    approve = _method(calls.approve)
    reject = _method(calls.reject)
    edit = _method(calls.edit)
    respond = _method(calls.respond)
    claim = _method(calls.claim)
    release = _method(calls.release)
    snooze = _method(calls.snooze)
    unsnooze = _method(calls.unsnooze)
    get_journal = _method(calls.get_journal)
    list_audit = _method(calls.list_audit)
    list_grants = _method(calls.list_grants)
    revoke_grant = _method(calls.revoke_grant)
    list_keys = _method(calls.list_keys)
    create_key = _method(calls.create_key)
    revoke_key = _method(calls.revoke_key)
    list_webhooks = _method(calls.list_webhooks)
    retry_webhook = _method(calls.retry_webhook)
    wait = _method(calls.wait)
    ask = _method(calls.ask)

    @property
    def url(self) -> str:
        return str(self._http.base_url)

    def events(
        self, session_id: str | None = None, *, after: str | None = None, patience: float = 30.0
    ) -> AsyncEventStream:
        """What happens from now on, in one session or in all; iterate over it, or enter it to connect first.

        after: the id of the last event seen; what followed it comes first.
        patience: seconds of trying to connect again before the last failure is raised: `ConnectionFailed`, or the reply
        of a server that starts or is busy (429, 503), or is not there behind its proxy (502, 504). Any other refusal,
        what is no event stream (`UnexpectedResponse`) and any failure of the first connection is raised at once.
        """
        return AsyncEventStream(self._http, self._timeout, EventFeed(session_id, after, patience))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _carry_out(self, plan: Plan[Result]) -> Result:
        steps = iter(plan)
        try:
            call = next(steps)
            while True:
                try:
                    answer = await self._send(call)
                except ClientError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as finished:
            result: Result = finished.value
            return result

    async def _send(self, call: Call[Result]) -> Result:
        with failures_of(self._http.base_url):
            response = await self._http.request(**request_arguments(call, self._timeout))
        return read_answer(call, response)


class AsyncEventStream:
    """Server-sent events, connected again when the connection breaks. For one reader.

    A loop that was left can be followed by another one, which goes on where that stopped.

    Example:
        async with AsyncClient("http://127.0.0.1:8000") as client, client.events() as events:
            async for event in events:
                print(event.type)
    """

    def __init__(self, http: httpx2.AsyncClient, timeout: float, feed: EventFeed) -> None:
        self._http = http
        self._timeout = timeout
        self._feed = feed
        self._response: httpx2.Response | None = None
        self._reading: AsyncIterator[Event] | None = None
        self._was_open = False

    async def connect(self) -> None:
        """Open the stream, unless it is open. What happens after this returns is in it."""
        if self._response is not None:
            return
        with failures_of(self._http.base_url):
            request = self._http.build_request(**self._feed.request_arguments(self._timeout))
            response = await self._http.send(request, stream=True)
            if not response.is_success:
                await response.aread()
        try:
            check_stream(response)
        except ClientError:
            await response.aclose()
            raise
        self._response, self._was_open = response, True
        self._feed.connected(request)

    async def close(self) -> None:
        self._reading = None
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._reading is None:
            self._reading = self._read()
        try:
            return await anext(self._reading)
        except BaseException:  # also of whoever stops waiting: it has ended with this
            self._reading = None
            raise

    async def _read(self) -> AsyncIterator[Event]:
        if self._response is None and self._was_open:
            await self._connect_again(ConnectionFailed(f"the event stream of {self._http.base_url} was closed"))
            yield RECONNECTED
        await self.connect()
        while True:
            response = self._response
            assert response is not None
            try:
                async for event in self._events_of(response):
                    yield event
                failure: ClientError = ConnectionFailed(f"{self._http.base_url} ended the event stream")
            except ConnectionFailed as error:
                failure = error
            finally:
                await self._leave(response)
            await self._connect_again(failure)
            yield RECONNECTED

    async def _events_of(self, response: httpx2.Response) -> AsyncIterator[Event]:
        with failures_of(self._http.base_url):
            async for sent in httpx2.EventSource(response, LARGEST_EVENT):
                event = self._feed.read(sent)
                if event is not None:
                    yield event

    async def _leave(self, response: httpx2.Response) -> None:
        """Close a connection. There may be another one by now, where this is told late."""
        if self._response is response:
            self._response = None
        await response.aclose()

    async def _connect_again(self, failure: ClientError) -> None:
        while self._response is None:
            await asyncio.sleep(self._feed.next_delay(failure))
            try:
                await self.connect()
            except ClientError as error:
                failure = error
