"""What costs the server something belongs to the work, not to the connection: who hangs up starts no more of it."""

from __future__ import annotations

import contextlib
import re
import socket
import sqlite3
import struct
import sys
import time
from pathlib import Path

import pytest

from tests.python.support.api import Api, ok
from tests.python.support.served import Served

ROWS = 60_000
TIMES = 50

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the clock of another process is Linux's")


def seconds_at_work(server: Served) -> float:
    # Linux' number for the clock of another process (clock_getcpuclockid(3)): /proc counts in hundredths of a second,
    # as long as one of these takes on a fast machine.
    return time.clock_gettime((~server.pid << 3) | 2)


def asked(api: Api, path: str) -> socket.socket:
    """A connection whose request nobody has answered yet."""
    address = (api.http.base_url.host, api.http.base_url.port)
    connection = socket.create_connection(address, timeout=100)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n\r\n".encode())
    return connection


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hang_up(api: Api, path: str) -> None:
    """As many clients that do not wait, one after the other: each has asked, and is gone while it is looked for."""
    for _ in range(TIMES):
        connection = asked(api, path)
        # What was sent before is read by the time that this is answered.
        assert api.get("/healthz").status_code == 200
        reset(connection)


def give_up(api: Api, path: str, patience: float) -> None:
    """As somebody who asks again and again, and never waits longer than that."""
    for _ in range(TIMES):
        connection = asked(api, path)
        connection.settimeout(patience)
        with contextlib.suppress(TimeoutError):
            connection.recv(1)
        reset(connection)


def fill(database: Path) -> None:
    """As many interrupts as after years, each a copy of the one there is."""
    with sqlite3.connect(database) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(interrupts)") if row[1] not in ("seq", "id")]
        listed = ", ".join(columns)
        connection.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {ROWS})"
            f" INSERT INTO interrupts (id, {listed}) SELECT randomblob(16), {listed}"
            " FROM numbers, (SELECT * FROM interrupts LIMIT 1)"
        )
    connection.close()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A database with many interrupts, all answered."""
    database = tmp_path / "hitl.db"
    with Served("playbook", store=f"sqlite:{database}") as server:
        session_id, interrupt_id = server.api.ask({"type": "question", "text": "What is it that takes so long?" * 20})
        ok(server.api.resume(session_id, interrupt_id, "this"))
        server.api.wait(session_id)
    fill(database)
    return f"sqlite:{database}"


@pytest.fixture
def pending(store: str) -> str:
    """The same, and nothing is answered; no session knows of it, so that nobody but the count looks at it."""
    with sqlite3.connect(store.removeprefix("sqlite:")) as connection:
        connection.execute("UPDATE interrupts SET status = 'pending'")
    connection.close()
    return store


@pytest.mark.slow
def test_searches_that_nobody_waits_for_are_not_made(store: str) -> None:
    with Served("playbook", store=store) as server:

        def search() -> float:
            began = seconds_at_work(server)
            assert ok(server.api.get("/interrupts", q="nowhere")) == []
            return seconds_at_work(server) - began

        search()
        one = search()
        assert one > 0.01, "too little to tell"
        before = seconds_at_work(server)
        hang_up(server.api, "/interrupts?q=nowhere")
        search()
        # The one that was at work, this one, and as many as may have ended while the others came; of all there are 50.
        assert seconds_at_work(server) - before < 10 * one


@pytest.mark.slow
def test_scrapes_that_nobody_waits_for_count_once(pending: str) -> None:
    def scrape(server: Served) -> None:
        text = server.api.get("/metrics").raise_for_status().text
        counted = re.search(r'^hitl_interrupts_pending\{type="question",age="\w+"\} ([1-9]\d{4})', text, re.MULTILINE)
        assert counted, text

    # A count is good for a while: each of these is the first of its server.
    with Served("playbook", store=pending, checked=False) as server:
        before, began = seconds_at_work(server), time.monotonic()
        scrape(server)
        one, took = seconds_at_work(server) - before, time.monotonic() - began
    assert one > 0.01, "too little to tell"
    with Served("playbook", store=pending, checked=False) as server:
        before = seconds_at_work(server)
        hang_up(server.api, "/metrics")
        give_up(server.api, "/metrics", took / 4)
        scrape(server)
        assert seconds_at_work(server) - before < 5 * one
