"""Where webhooks arrive in a test."""

from __future__ import annotations

import json
import queue
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Delivery:
    """One POST as it came; header names in lower case."""

    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


class Receiver:
    """An HTTP server on loopback that keeps what is sent to it, and answers with `statuses` in turn, then with 200.

    port: 0 takes a free one.
    """

    def __init__(self, *statuses: int, location: str | None = None, port: int = 0) -> None:
        self._statuses = list(statuses)
        self._location = location
        self._deliveries: queue.Queue[Delivery] = queue.Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                # Before it is answered: whoever is may send the next one, which another thread takes.
                receiver._deliveries.put(Delivery(self.path, headers, content))
                self.send_response(receiver._statuses.pop(0) if receiver._statuses else 200)
                if receiver._location is not None:
                    self.send_header("location", receiver._location)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def next(self, timeout: float = 100.0) -> Delivery:
        """The next delivery; fails if none comes."""
        try:
            return self._deliveries.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no webhook came within {timeout:g} s") from None

    @property
    def is_empty(self) -> bool:
        return self._deliveries.empty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
