"""A local server that takes runs as LangSmith does: `POST /runs/batch`, and `POST` and `PATCH` of single ones."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.python.support.waiting import eventually

_BATCHES = {
    "use_multipart_endpoint": False,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 2,
    "scale_down_nempty_trigger": 4,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
}
"""How the client is to send."""


class LangSmithServer:
    """Keeps what was sent of each run, and how often it was said to begin, and to end."""

    def __init__(self) -> None:
        self.url = ""
        self.runs: dict[str, dict[str, Any]] = {}
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()

    def take(self, run: dict[str, Any], *, is_new: bool) -> None:
        known = self.runs.setdefault(run["id"], {})
        known |= {name: value for name, value in run.items() if value is not None}
        self.begun[run["id"]] += is_new
        self.ended[run["id"]] += run.get("end_time") is not None

    @property
    def environment(self) -> dict[str, str]:
        """Of a program that sends here."""
        return {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": self.url, "LANGSMITH_API_KEY": "key"}

    @property
    def names(self) -> Counter[str]:
        """How often runs of a kind and name have ended."""
        return self._by_name(self.ended)

    def _by_name(self, counts: Counter[str]) -> Counter[str]:
        names: Counter[str] = Counter()
        for run_id, count in counts.items():
            names[f"{self.runs[run_id]['run_type']} {self.runs[run_id]['name']}"] += count
        return +names

    @property
    def open(self) -> Counter[str]:
        """The same of those that have begun, and not ended."""
        return self._by_name(self.begun) - self.names

    def wait_for(self, is_so: Callable[[Self], bool]) -> None:
        """Until that is so: a client sends what it has a few times a second."""
        eventually(lambda: is_so(self), True)

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Listen, on loopback."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _handler_of(kept: LangSmithServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"version": "0.1", "batch_ingest_config": _BATCHES})

        def do_POST(self) -> None:
            said = self._said()
            for run in said.get("post", [] if self.path.endswith("/batch") else [said]):
                kept.take(run, is_new=True)
            for run in said.get("patch", ()):
                kept.take(run, is_new=False)
            self._answer({})

        def do_PATCH(self) -> None:
            kept.take({"id": self.path.rpartition("/")[2], **self._said()}, is_new=False)
            self._answer({})

        def _said(self) -> dict[str, Any]:
            said: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            return said

        def _answer(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler
