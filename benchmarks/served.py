"""A server to measure: started as a user would start it, spoken to with as little client as possible."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from benchmarks.processes import family, family_cpu, family_memory, memory

ROOT = Path(__file__).resolve().parents[1]


class Busy(Exception):
    """The server has no place for it now; `retry_after` in seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"busy for {retry_after:g} s")
        self.retry_after = retry_after


class Http:
    """One connection, kept open. httpx would cost more than what is measured."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        self.next_page: str | None = None
        """Where the list that was read last goes on."""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a successful answer; Busy for a 503, RuntimeError for every other."""
        return json.loads(self.text(method, path, body))

    def text(self, method: str, path: str, body: Any = None) -> str:
        """What a successful answer says."""
        content = None if body is None else json.dumps(body).encode()
        headers = {} if content is None else {"content-type": "application/json"}
        self._connection.request(method, path, content, headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        link = re.match(r'<([^>]*)>; rel="next"', response.headers.get("link") or "")
        self.next_page = None if link is None else link.group(1)
        if response.status == 503:
            raise Busy(float(response.headers.get("retry-after", "1")))
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text}")
        return text

    def new_session(self) -> str:
        session_id: str = self.call("POST", "/sessions")["session_id"]
        return session_id

    def send(self, session_id: str, content: str = "go") -> None:
        self.call("POST", f"/sessions/{session_id}/messages", {"content": content})

    def settle(self, session_id: str, expected: str) -> Any:
        """The session once it does not run any more; RuntimeError unless it is in the expected status."""
        session = self.call("GET", f"/sessions/{session_id}?wait=true")
        if session["status"] != expected:
            raise RuntimeError(f"the session is {session['status']}, not {expected}: {session['error']}")
        return session

    def count(self, status: str) -> int:
        """How many sessions have that status."""
        return len(self.pages(f"/sessions?status={status}&limit=1000"))

    def pages(self, path: str, most: int | None = None) -> list[Any]:
        """The items of a list, up to `most` pages."""
        items: list[Any] = []
        following: str | None = path
        while following is not None and (most is None or most > 0):
            items += self.call("GET", following)
            following = self.next_page
            most = None if most is None else most - 1
        return items

    def resume(self, session_id: str, interrupt_id: str) -> None:
        self.call("POST", f"/sessions/{session_id}/resume", {"interrupt_id": interrupt_id, "value": True})


class Served:
    """`hitl serve` in a process of its own, on a store of its own, until the end of the `with` block.

    `seconds_to_health`: from before its process is made to the first 200 of `/health`. `store` is a file, or what
    is beside the log where `address` names another store. `flags` are more flags of `hitl serve`.
    """

    def __init__(self, agent: str, store: Path, isolation: str, *flags: str, address: str | None = None) -> None:
        command = [sys.executable, "-m", "hitl", "serve", f"benchmarks.agents:{agent}", "--port", "0"]
        command += ["--store", address or f"sqlite:{store}", "--isolation", isolation]
        command += ["--log-level", "warning", *flags]
        self._log = (store.parent / f"{store.stem}.log").open("w+")
        started = time.perf_counter()
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"https?://\S+", line)
        if found is None:
            self._process.kill()
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"the server did not start: {line}{self._log.read()}")
        self.url = found.group(0)
        self.connect().call("GET", "/health")
        self.seconds_to_health = time.perf_counter() - started
        time.sleep(1)  # idle workers are forked meanwhile
        self.idle_processes = self.processes()

    def connect(self) -> Http:
        return Http(self.url)

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def memory(self) -> int:
        """Bytes that the server and all its workers hold; a page that several share counts once."""
        return family_memory(self._process.pid)

    def own_memory(self) -> int:
        """Bytes that the server process holds by itself."""
        return memory(self._process.pid, "Rss")

    def processes(self) -> int:
        """The server, its zygote and its workers."""
        return len(family(self._process.pid))

    def wait_until_parked(self, patience: float) -> None:
        """Until no turn is in memory, and no process is left but those of an idle server; RuntimeError when that takes
        longer than `patience` seconds."""
        client, deadline = self.connect(), time.monotonic() + patience
        while _turns_in_memory(client) or self.processes() > self.idle_processes:
            if time.monotonic() > deadline:
                raise RuntimeError(f"turns are still in memory after {patience:g} s; hint: --park-after")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL, as a power cut of the process."""
        self._process.kill()
        self._process.wait()

    def cpu_seconds(self) -> float:
        """User and system time of the server and all its workers, those that have ended included."""
        return family_cpu(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


def _turns_in_memory(client: Http) -> int:
    found = re.search(r"^hitl_turns_in_memory (\d+)", client.text("GET", "/metrics"), re.MULTILINE)
    if found is None:
        raise RuntimeError("/metrics does not tell hitl_turns_in_memory")
    return int(found.group(1))
