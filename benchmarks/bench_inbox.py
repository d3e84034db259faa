"""The inbox when much waits and many listen: its first page, and one event to everybody.

    python -m benchmarks.bench_inbox                                   # 100,000 interrupts, 1,000 listeners
    python -m benchmarks.bench_inbox --interrupts 2000 --listeners 50  # a quick look

The interrupts are made by a server and then multiplied in SQL (see bench_scale). The page is opened by a fresh context
of the chromium that the tests open, each time with nothing cached. Listeners are plain sockets on
`GET /events`, read by one thread with epoll, so that what is measured is the server. Linux only.
"""

from __future__ import annotations

import argparse
import random
import resource
import selectors
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from benchmarks.bench_scale import MEBIBYTE, SAMPLES, Report, multiply, p50_ms
from benchmarks.bench_server import timed
from benchmarks.served import Http, Served
from tests.python.ui.browser import launch

AGENT = "question_or_trivial"
PAGES = [
    ("pending", "status=pending", 20),
    ("pending, not snoozed", "status=pending&snoozed=false", 20),
    ("pending, of one agent", "status=pending&type=question", None),
    ("claimed by somebody", "status=pending&claimed_by=ada", None),
    ("that say something all of them say", "status=pending&q=question", None),
]
OPENINGS = 10
"""How often the page is opened."""
RARE = "status=pending&q=nobody+says+this"
"""No row says it, so all of them are looked at."""


def ask(client: Http) -> None:
    session_id = client.new_session()
    client.send(session_id)
    client.settle(session_id, "interrupted")


def make_store(directory: Path, count: int) -> Path:
    store = directory / "inbox.db"
    with Served(AGENT, store, "task") as server:
        ask(server.connect())
    # A server that stops parks what waits, and only that is multiplied.
    multiply(store, count)
    return store


def part_pages(report: Report, server: Served) -> None:
    client = server.connect()
    first = client.call("GET", "/interrupts?status=pending&limit=1")[0]["interrupt_id"]
    client.call("POST", f"/interrupts/{first}/claim", {"as": "ada"})
    for what, query, goal in PAGES:
        path = f"/interrupts?{query}&limit=100"
        client.call("GET", path)
        figure = p50_ms(lambda path=path: client.call("GET", path), SAMPLES)
        report(f"first page of 100, {what}: p50", figure, "ms", goal)
    rare = statistics.median(timed(lambda: client.call("GET", f"/interrupts?{RARE}")) for _ in range(5))
    report("a search that nothing answers: p50", 1000 * rare, "ms")
    report("one interrupt: p50", p50_ms(lambda: client.call("GET", f"/interrupts/{first}"), SAMPLES), "ms")
    report("server resident after that", server.own_memory() / MEBIBYTE, "MiB")


def part_browser(report: Report, server: Served) -> None:
    took, opened = [], []
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for _ in range(OPENINGS):
            context = browser.new_context(viewport={"width": 1280, "height": 820})
            page = context.new_page()
            started = time.perf_counter()
            page.goto(server.url, wait_until="commit")
            page.locator(".rows .row").nth(5).wait_for()
            took.append(time.perf_counter() - started)
            row = page.locator(".rows .row").nth(3)
            started = time.perf_counter()
            row.click()
            page.get_by_role("region", name="Answer").wait_for()
            opened.append(time.perf_counter() - started)
            context.close()
        browser.close()
    report("the page in a browser, address entered -> requests shown: median", statistics.median(took), "s", 1)
    report(f"  worst of {OPENINGS}", max(took), "s", 1)
    report("a click on a request -> it can be answered: median", statistics.median(opened), "s", 1)


class Listeners:
    """Many event streams, read by one thread."""

    def __init__(self, url: str, count: int) -> None:
        address = urlsplit(url)
        self._selector = selectors.EpollSelector()
        self._seen: dict[socket.socket, bytes] = {}
        request = f"GET /events HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode()
        for _ in range(count):
            connection = socket.create_connection((address.hostname or "", address.port or 0))
            connection.sendall(request)
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
            self._seen[connection] = b""
        self.until(b": listening", 60)

    def until(self, text: bytes, patience: float) -> float:
        """When the last of them has read `text`; RuntimeError where one has not."""
        missing = set(self._seen)
        deadline = time.perf_counter() + patience
        while missing:
            ready = self._selector.select(max(0.0, deadline - time.perf_counter()))
            if not ready:
                raise RuntimeError(f"{len(missing)} listeners have not heard {text!r}")
            for key, _ in ready:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                read = connection.recv(65536)
                if not read:
                    raise RuntimeError("the server ended a stream")
                self._seen[connection] += read
                if text in self._seen[connection]:
                    self._seen[connection] = b""
                    missing.discard(connection)
        return time.perf_counter()

    def close(self) -> None:
        self._selector.close()
        for connection in self._seen:
            connection.close()


def part_listeners(report: Report, server: Served, count: int) -> None:
    client = server.connect()
    waiting = client.call("GET", "/interrupts?status=pending&limit=20")
    before = server.own_memory()
    listeners = Listeners(server.url, count)
    report(f"{count:,} listeners: memory", (server.own_memory() - before) / MEBIBYTE, "MiB", 100)
    took = []
    for item in waiting[-10:]:
        path = f"/interrupts/{item['interrupt_id']}/snooze"
        started = time.perf_counter()
        # Beside the reading: the last listener may have it before the reply is here.
        teller = threading.Thread(target=lambda path=path: client.call("POST", path, {"seconds": 60}))
        teller.start()
        took.append(listeners.until(item["interrupt_id"].encode(), 60) - started)
        teller.join()
    report("one event, request sent -> all have it: median", statistics.median(took), "s")
    report("one event, request sent -> all have it: worst of 10", max(took), "s", 1)
    report("  memory after that", (server.own_memory() - before) / MEBIBYTE, "MiB", 100)
    listeners.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interrupts", type=int, default=100_000, help="how many are pending")
    parser.add_argument("--listeners", type=int, default=1_000, help="how many listen")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the server inherits it
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="hitl-inbox-") as directory:
        report = Report()
        store = make_store(Path(directory), options.interrupts)
        with Served(AGENT, store, "task") as server:
            part_pages(report, server)
            part_browser(report, server)
            part_listeners(report, server, options.listeners)


if __name__ == "__main__":
    main()
