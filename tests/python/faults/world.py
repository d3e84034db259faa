"""What tests that kill servers have in common: clients that try again until they are told, the reckoning at the end."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.processes import children
from tests.python.faults import programs
from tests.python.faults.programs import Program
from tests.python.faults.server import Process
from tests.python.support.ports import ReservedPort

Json = dict[str, Any]

AGENT = "tests.python.faults.programs:agent"
IS_FULL = bool(os.environ.get("HITL_TEST_FULL"))
"""Whether the long form of these tests is wanted."""

PATIENCE = 120.0
"""Seconds in which a client gets an answer, however often the server dies meanwhile."""


def full(reduced: Any, complete: Any) -> Any:
    """One size in CI, another with `HITL_TEST_FULL=1`."""
    return complete if IS_FULL else reduced


class Gone(Exception):
    """The server does not answer any more, and nobody is going to start it again."""


class Client:
    """Says everything again until a server has said what came of it: 503 and a lost connection tell nothing.

    It says it at one of the addresses, and again at the next one; what they are may change.
    """

    def __init__(
        self, addresses: Callable[[], Sequence[str]], first: int = 0, key: str | None = None, timeout: float = 100
    ) -> None:
        self._addresses = addresses
        self._place = first
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._connection: http.client.HTTPConnection | None = None
        self.given_up = threading.Event()
        """Set when a lost connection is the end."""

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> tuple[int, Any]:
        return self._request("POST", path, body, {} if key is None else {"Idempotency-Key": key})

    def put(self, path: str) -> tuple[int, Any]:
        return self._request("PUT", path, None, {})

    def get(self, path: str) -> tuple[int, Any]:
        return self._request("GET", path, None, {})

    def delete(self, path: str) -> tuple[int, Any]:
        return self._request("DELETE", path, None, {})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def elsewhere(self) -> None:
        """Go on at the next address."""
        self.close()
        self._place += 1

    def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if self._connection is None:
                    addresses = self._addresses()
                    address = addresses[self._place % len(addresses)]
                    self._connection = http.client.HTTPConnection(address, timeout=self._timeout)
                self._connection.request(method, path, content, {**self._headers, **headers})
                response = self._connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException):
                self.elsewhere()
                if self.given_up.is_set():
                    raise Gone from None
                time.sleep(0.05)
                continue
            if response.status != 503:
                return response.status, json.loads(text) if text else None
            if len(self._addresses()) > 1:
                self.elsewhere()
            time.sleep(min(float(response.headers["Retry-After"]), 1.0))
        raise AssertionError(f"{method} {path}: no word from the server in {PATIENCE:g} s")


@dataclass
class Session:
    """A session as its client sees it, and what the client was told."""

    ledger: str
    program: Program
    session_id: str | None = None
    sent: bool = False
    cancels: bool = False
    """Whether the client cancels it at its first question."""
    cancelled: bool = False
    turns: int = 1
    done: bool = False
    last: Json = field(default_factory=dict)
    answered: dict[str, Any] = field(default_factory=dict)
    """Answers that were acknowledged, by interrupt."""
    _key: str = field(default_factory=lambda: str(uuid.uuid4()))

    def open(self, client: Client) -> None:
        """Create it and start its turn; what was done is not done again."""
        if self.session_id is None:
            status, body = client.post("/sessions")
            assert status == 201, body
            self.session_id = body["session_id"]
        if not self.sent:
            content = json.dumps({"ledger": self.ledger, "program": self.program})
            path, message = f"/sessions/{self.session_id}/messages", {"content": content}
            status, body = client.post(path, message, key=self._key)
            assert status == 202, body
            self.sent = True

    def look(self, client: Client, wait: float = 0) -> Json:
        query = f"?wait=true&timeout={wait:g}" if wait else ""
        status, body = client.get(f"/sessions/{self.session_id}{query}")
        assert status == 200, body
        self.last = body
        return self.last

    def advance(self, client: Client, wait: float = 0) -> bool:
        """Do what the session waits for; whether its turn is over."""
        self.open(client)
        session = self.look(client, wait)
        match session["status"]:
            case "interrupted":
                if self.cancels:
                    self._cancel(client)
                for record in session["interrupts"]:
                    self.answer(client, record)
            case "error" if self.cancelled or (self.cancels and session["error_code"] == "turn_cancelled"):
                self.done = True
            case "error":
                # The worker died under it more often than it is taken up by itself.
                assert session["error_code"] == "worker_exited", session
                status, body = client.post(f"/sessions/{self.session_id}/retry")
                assert status in (202, 409), body
            case "idle":
                assert programs.fits(self.program, json.loads(session["response"]["content"])), session
                self.done = True
        return self.done

    def answer(self, client: Client, record: Json) -> None:
        value = programs.answer_to(record["payload"])
        if value is None:
            return
        interrupt_id = record["interrupt_id"]
        status, body = client.post(f"/interrupts/{interrupt_id}/resume", {"value": value})
        # 409: its worker was lost, or the session was cancelled, before the answer came.
        assert status in (200, 409), body
        if status == 200:
            self.answered[interrupt_id] = value

    def check(self, client: Client) -> None:
        """It is over, and what its client was told is there."""
        assert self.done, self
        state = self.look(client)
        assert state["status"] == ("error" if self.cancelled else "idle") or self.cancels, state
        for interrupt_id, value in self.answered.items():
            status, record = client.get(f"/interrupts/{interrupt_id}")
            assert status == 200, record
            assert (record["status"], record["value"]) == ("resolved", value), record

    def again(self, program: Program) -> None:
        """Another message to the session, which is idle."""
        self.program, self.sent, self.done = program, False, False
        self._key = str(uuid.uuid4())
        self.turns += 1
        self.ledger = f"{self.ledger.rpartition('.')[0]}.{self.turns}"

    def _cancel(self, client: Client) -> None:
        status, body = client.post(f"/sessions/{self.session_id}/cancel")
        assert status in (200, 409), body
        self.cancelled = self.cancelled or status == 200


class Sessions:
    """Sessions of one test, each with a ledger for each of its turns."""

    def __init__(self, directory: Path) -> None:
        self.ledgers = directory / "ledgers"
        self.ledgers.mkdir()
        self.sessions: list[Session] = []
        self._numbers = itertools.count()
        self._directory_lock = threading.Lock()

    def session(self, program: Program, *, cancels: bool = False) -> Session:
        with self._directory_lock:
            ledger = str(self.ledgers / f"{next(self._numbers)}.1")
            session = Session(ledger, program, cancels=cancels)
            self.sessions.append(session)
        return session

    def check_ledgers(self) -> None:
        for ledger in self.ledgers.iterdir():
            check_ledger(programs.ledger_lines(str(ledger)))


class World(Sessions):
    """A store, the server on it, which is killed and started again at the same address, and its sessions."""

    def __init__(self, directory: Path, agent: str = AGENT, **options: Any) -> None:
        super().__init__(directory)
        self.directory = directory
        self.database = directory / "hitl.db"
        self._agent = agent
        self._options = {"store": f"sqlite:{self.database}", "log_level": "warning", "log_format": "json", **options}
        # For as long as the world is there: nobody else gets the port between two servers.
        self._port = ReservedPort()
        self.processes: list[Process] = []

    @property
    def server(self) -> Process:
        return self.processes[-1]

    @property
    def address(self) -> str:
        """The same for all servers."""
        return f"127.0.0.1:{self._port.number}"

    def start(self, environment: dict[str, str] | None = None, **options: Any) -> Process:
        """Start the server; it may die at once where the environment says so."""
        everything = {**self._options, **options, "port": self._port.number}
        self.processes.append(Process(self._agent, environment or {}, **everything))
        return self.server

    def begin(self, environment: dict[str, str] | None = None, **options: Any) -> Process:
        """The same, and it listens."""
        server = self.start(environment, **options)
        assert server.url() is not None, "\n".join(server.lines)
        return server

    def client(self) -> Client:
        return Client(lambda: [self.address])

    def workers(self) -> list[int]:
        """The worker processes, children of the zygote, oldest first."""
        return [child for zygote in children(self.server.pid) for child in children(zygote)]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        self._port.close()

    def describe(self, sessions: list[Session]) -> str:
        """What is known about them, for a failure's message."""
        told = [f"{self.server.lines}"]
        for session in sessions:
            told += [
                f"{session}",
                f"{programs.ledger_lines(session.ledger)}",
                *map(str, self.journal(session.session_id)),
            ]
        return "\n".join(told)

    def last_entry(self, session: Session) -> str | None:
        """What kind of entry is the last one of its journal."""
        journal = self.journal(session.session_id)
        return journal[-1][0] if journal else None

    def journal(self, session_id: str | None) -> list[tuple[str, str | None]]:
        """The kind and the path of each entry of its turns."""
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            rows = connection.execute(
                "SELECT journal.entry, journal.path FROM journal JOIN turns ON turns.seq = journal.turn"
                " JOIN sessions ON sessions.seq = turns.session WHERE sessions.id = ? ORDER BY journal.turn, idx",
                (bytes.fromhex((session_id or "").replace("-", "")),),
            )
            return [(entry, path) for entry, path in rows]

    def reckon(self) -> None:
        """Stop the server. Every acknowledged thing is there, nothing was done twice."""
        client = self.client()
        for session in self.sessions:
            session.check(client)
        client.close()
        assert self.server.stop() == 0, "\n".join(self.server.lines)
        check_store(self.database)
        self.check_ledgers()


def check_ledger(lines: list[str]) -> None:
    """A finished step never runs again; a `once` step never runs twice, finished or not."""
    seen: set[str] = set()
    effects: Counter[str] = Counter()
    for line in lines:
        what, name = line.split()
        if what == "seen":
            seen.add(name)
        else:
            assert name not in seen, f"{name} had finished and ran again: {lines}"
            effects[name] += 1
    for name, count in effects.items():
        assert count == 1 or not name.startswith("once"), f"{name} ran {count} times: {lines}"


def check_store(database: Path) -> None:
    """What `check_journals` says, and that no turn is open."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        entries = connection.execute("SELECT turn, entry, path, interrupt FROM journal ORDER BY turn, idx").fetchall()
        (open_turns,) = connection.execute("SELECT count(*) FROM turns WHERE ended_at IS NULL").fetchone()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert open_turns == 0
    check_journals(entries)


def check_journals(entries: Iterable[Sequence[Any]]) -> None:
    """In every journal: one start, one result for a step, one outcome for a question, one end and nothing after it.

    entries: turn, kind, path and interrupt of each, those of a turn in their order.
    """
    journals: dict[Any, list[Sequence[Any]]] = {}
    for turn, *entry in entries:
        journals.setdefault(turn, []).append(entry)
    for journal in journals.values():
        kinds = [kind for kind, _, _ in journal]
        assert kinds.count("start") == 1, kinds
        assert kinds.index("end") == len(kinds) - 1, kinds
        steps = Counter(path for kind, path, _ in journal if kind == "step")
        asks = Counter(path for kind, path, _ in journal if kind == "ask")
        settled = Counter(interrupt for kind, _, interrupt in journal if kind in ("answer", "expire", "withdraw"))
        for name, count in [*(steps + asks).items(), *settled.items()]:
            assert count == 1, (name, journal)
