"""What both clients share: addresses and headers, the way from an HTTP answer to a result or an error, and the
bookkeeping of an event stream. Nothing here does I/O."""

from __future__ import annotations

import functools
import inspect
import ipaddress
import json
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx2

from hitl.client.arguments import query_value, seconds
from hitl.client.call import ABSENT, Call, session_path
from hitl.client.errors import ClientError, ConnectionFailed, ErrorClasses, RateLimited, Unavailable, UnexpectedResponse
from hitl.client.models import Event

Result = TypeVar("Result")

DEFAULT_URL = "http://127.0.0.1:8000"
EVENT_SILENCE = 90.0
"""Seconds without a byte after which an event stream is taken for dead and opened again."""

_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
"""Each open event stream has a connection to itself: of httpx2's hundred, none might be left for a call. The idle ones
that are kept are as many as its."""

LARGEST_EVENT = 8 * 1024 * 1024
"""Bytes. Messages and results are shortened to 64 KiB in an event, and the record of an interrupt has a few payloads
and schemas: what is larger is of no hitl server."""


def look_like(plan_for: Callable[..., object], method: Callable[..., object]) -> None:
    """Give a client's method the name, the documentation and, after `self`, the parameters of what makes its plan."""
    functools.update_wrapper(method, plan_for)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    taken = inspect.signature(plan_for).parameters.values()
    method.__signature__ = inspect.Signature([own, *taken])  # type: ignore[attr-defined]


def check_key(api_key: str) -> None:
    """Raise `ValueError` for a key that no server has, such as one with the line end of its file. It is not shown."""
    if not isinstance(api_key, str):
        raise TypeError(f"the API key is a str, got {type(api_key).__name__}")
    if not (api_key and api_key.isascii() and api_key.isprintable() and api_key == api_key.strip()):
        raise ValueError("the API key is empty, or not printable ASCII, or has a space or a line end around it")


def connection_settings(url: str | httpx2.URL, api_key: str | None, timeout: float) -> dict[str, Any]:
    """Arguments for an httpx2 client; raises `ValueError` for what is no URL of a server, and no key.

    A server on this machine is never reached through a proxy, whatever the environment says.
    """
    if not isinstance(url, str | httpx2.URL):
        raise TypeError(f"the URL of a server is a str, got {type(url).__name__}; it looks like {DEFAULT_URL}")
    headers = {"Accept": "application/json"}
    if api_key is not None:
        check_key(api_key)
        headers["Authorization"] = f"Bearer {api_key}"
    try:
        base_url = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ValueError(f"{url!r} is not a URL: {error}") from error
    if base_url.scheme not in ("http", "https") or not base_url.host:
        raise ValueError(f"{url!r} is not the URL of a server; it looks like {DEFAULT_URL}")
    settings: dict[str, Any] = {
        "base_url": base_url,
        "headers": headers,
        "timeout": seconds("timeout", timeout),
        "limits": _LIMITS,
    }
    if _is_loopback(base_url.host):
        settings["trust_env"] = False
        if base_url.scheme == "http":
            # It trusts nobody, and is not needed. To read the machine's authorities takes longer than many requests.
            settings["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return settings


def request_arguments(call: Call[Any], timeout: float) -> dict[str, Any]:
    """What httpx2's `request` takes, for a client whose own time-out is `timeout` seconds."""
    reading = None if call.patience is None else timeout + call.patience
    arguments: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "params": {name: query_value(name, value) for name, value in call.query.items() if value is not None},
        "headers": dict(call.headers),
        "timeout": httpx2.Timeout(timeout, read=reading),
    }
    if call.body is not ABSENT:
        # Strict JSON: httpx2 would do too, but our errors should say so before anything is sent.
        arguments["content"] = json.dumps(call.body, allow_nan=False, ensure_ascii=False).encode()
        arguments["headers"]["Content-Type"] = "application/json"
    return arguments


def read_answer(call: Call[Result], response: httpx2.Response) -> Result:
    """The result of a call whose body has been read; raises the `ApiError` the server meant."""
    raise_for_problem(response)
    if response.status_code == 204:
        return call.read(None, response)
    try:
        return call.read(response.json(), response)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnexpectedResponse(
            f"{call.method} {response.url} was answered by something that is not a hitl server",
            status=response.status_code,
        ) from error


def raise_for_problem(response: httpx2.Response) -> None:
    """Raise the error of an answer that is none, from its problem object; the body must have been read."""
    if response.is_success:
        return
    status = response.status_code
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, Mapping) or status < 400:
        raise UnexpectedResponse(f"{response.url} answered {status} without saying why", status=status)
    detail = problem.get("detail")
    error = ErrorClasses.of(status)(
        # A server of the base contract alone has a `detail` that may be a list, and no code.
        detail if isinstance(detail, str) else json.dumps(detail),
        code=str(problem.get("code") or f"http_{status}"),
        status=status,
        problem=problem,
    )
    if isinstance(error, RateLimited | Unavailable):
        error.retry_after = _seconds(response.headers.get("retry-after"))
    raise error


def check_stream(response: httpx2.Response) -> None:
    """Raise the error of an answer that is no event stream; where it is none that succeeded its body must have been
    read."""
    raise_for_problem(response)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        raise UnexpectedResponse(
            f"{response.url} was asked for an event stream and answered with {kind or 'something of no type'}; "
            "it is no hitl server's",
            status=response.status_code,
        )


@contextmanager
def failures_of(base_url: httpx2.URL) -> Iterator[None]:
    """Turn the transport's errors into `ConnectionFailed`, which names the server."""
    try:
        yield
    except httpx2.ConnectError as error:
        raise ConnectionFailed(f"cannot connect to {base_url}: {error}") from error
    except httpx2.TimeoutException as error:
        raise ConnectionFailed(f"{base_url} did not answer in time", code="timeout") from error
    except httpx2.SSEError as error:  # a transport's error by its class; another try would bring the same
        raise UnexpectedResponse(f"the event stream of {base_url} is none of a hitl server: {error}") from error
    except httpx2.RequestError as error:
        raise ConnectionFailed(f"the connection to {base_url} broke: {error}") from error


class EventFeed:
    """Where an event stream stands: what was read last, and how long to wait before the next attempt to connect.

    session_id: the session whose events are wanted; None for those of all sessions.
    after: the id of the last event that is known already; None starts with what happens from now on.
    patience: seconds without a connection after which the stream gives up. One that brings nothing is none.
    """

    FIRST_DELAY = 0.1
    LONGEST_DELAY = 2.0
    SHORTEST_TRY = 0.5
    """Seconds for which a server is waited for in the last try, which begins when patience is over."""

    def __init__(self, session_id: str | None, after: str | None, patience: float) -> None:
        self._path = "/events" if session_id is None else session_path(session_id, "events")
        self._last_id = after
        self._patience = patience
        self._deadline: float | None = None
        """While nothing comes: until when a connection is tried for, from `time.monotonic`."""
        self._delay = self.FIRST_DELAY
        self._retry = 0.0
        """Seconds for which the server wants to be left alone when a stream has ended."""

    def request_arguments(self, timeout: float) -> dict[str, Any]:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        most = math.inf if self._deadline is None else max(self.SHORTEST_TRY, self._deadline - time.monotonic())
        return {
            "method": "GET",
            "url": self._path,
            "headers": headers,
            "timeout": httpx2.Timeout(min(timeout, most), read=min(EVENT_SILENCE, most)),
        }

    def connected(self, request: httpx2.Request) -> None:
        """Note that `request` has opened the stream, which may be silent for as long as ever from now on: what was left
        of patience was for the reply's head. A transport asks for the time-out at each read. Patience begins anew only
        when something is read: what takes every request and says nothing would be asked for ever."""
        request.extensions["timeout"]["read"] = EVENT_SILENCE

    def next_delay(self, failure: ClientError) -> float:
        """Seconds to wait before connecting again; raises `failure` where that does not help, and when patience has run
        out."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._patience
        if not _may_pass(failure) or now >= self._deadline:
            raise failure
        asked = failure.retry_after if isinstance(failure, RateLimited | Unavailable) else None
        delay = max(self._delay, self._retry, asked or 0.0)
        self._delay = min(self.LONGEST_DELAY, self._delay * 2)
        return min(delay, self._deadline - now)

    def read(self, sent: httpx2.ServerSentEvent) -> Event | None:
        """What was sent; None where a block has no data, which is no event."""
        self._deadline, self._delay = None, self.FIRST_DELAY
        if sent.retry is not None:
            self._retry = sent.retry / 1000
        # Also that of a block without data: the first one says where the stream begins, so that nothing is missed if it
        # breaks before anything is heard. A decoder remembers the last id, so an event without one of its own (a delta)
        # carries it too: still right.
        self._last_id = sent.id or self._last_id
        if not sent.data:
            return None
        try:
            data = sent.json()
        except ValueError as error:
            raise UnexpectedResponse(f"an event of type {sent.event!r} is no JSON") from error
        if not isinstance(data, Mapping):
            raise UnexpectedResponse(f"an event of type {sent.event!r} is no JSON object")
        return Event(id=sent.id or None, type=sent.event, data=data)


_PASSING_STATUSES = frozenset({429, 502, 503, 504})

RECONNECTED = Event(id=None, type="reconnected", data={})


def _may_pass(failure: ClientError) -> bool:
    """Whether another try may go better: nobody answered, a server refused that starts, stops or has too much to do, or
    a proxy did that had no server behind it."""
    return isinstance(failure, ConnectionFailed) or failure.status in _PASSING_STATUSES


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
