"""Local servers that speak a provider's wire format, for driving its real package: what they have in common."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

API_KEY = "test-key"


@dataclass
class Failure:
    """An HTTP error."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "server_error"


@dataclass
class Silence:
    """No answer: the connection is closed once it is `over`."""

    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Stream:
    """A stream as it is: events as text. `is_lost`: the connection breaks where they end."""

    events: list[str]
    is_lost: bool = False


@dataclass
class Body:
    """A response as it is, whatever was asked for."""

    text: str
    kind: str = "application/json"


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ModelServer:
    """Answers request after request from `replies`; keeps what it received."""

    path: str
    prefix = ""
    """What clients are told to put before `path`."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.received: list[Received] = []
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                server._answer(self, json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}{self.prefix}"

    # -- what each of them has of its own ----------------------------------------------------------------------------

    def key_of(self, headers: dict[str, str]) -> str | None:
        raise NotImplementedError

    def wrong(self, body: dict[str, Any]) -> str | None:
        """What the real API says to such a request; None where it takes it."""
        raise NotImplementedError

    def error(self, failure: Failure) -> dict[str, Any]:
        raise NotImplementedError

    def events(self, reply: Any, body: dict[str, Any]) -> list[str]:
        """A reply as the text of its stream's events."""
        raise NotImplementedError

    def whole(self, reply: Any) -> dict[str, Any]:
        """A reply that is not streamed."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------------------

    def _answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            self.received.append(Received(handler.path, headers, body))
            if handler.path != self.path:
                reply: Any = Failure(404, f"Unknown path {handler.path}")
            elif self.key_of(headers) != API_KEY:
                reply = Failure(401, "Incorrect API key provided")
            elif (wrong := self.wrong(body)) is not None:
                reply = Failure(400, wrong)
            else:
                reply = self.replies.pop(0) if self.replies else Failure(400, "the test has no more replies")
        if isinstance(reply, Silence):
            reply.over.wait()
            handler.close_connection = True
        elif isinstance(reply, Failure):
            send(handler, reply.status, json.dumps(self.error(reply)).encode(), "application/json", reply.headers)
        elif isinstance(reply, Body):
            send(handler, 200, reply.text.encode(), reply.kind, {})
        elif body.get("stream"):
            stream = reply if isinstance(reply, Stream) else Stream(self.events(reply, body))
            said = "".join(stream.events).encode()
            promised = {"content-length": str(len(said) + 1)} if stream.is_lost else {}
            send(handler, 200, said, "text/event-stream; charset=utf-8", promised)
            handler.close_connection = stream.is_lost
        else:
            send(handler, 200, json.dumps(self.whole(reply)).encode(), "application/json", {})

    @contextmanager
    def serving(self) -> Iterator[Self]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
