"""A server lives within the limit of open files: what connections have, nothing else can have."""

from __future__ import annotations

import http.client
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.python.support.api import ok, problem, result
from tests.python.support.gate import Gate
from tests.python.support.served import ROOT, Served, clean_environment
from tests.python.support.waiting import eventually

PLACES = 60
SMALL: dict[str, Any] = {"workers": 2, "max_warm": 4, "max_connections": PLACES, "max_connections_per_address": 1000}


def limited(limit: str) -> tuple[str, ...]:
    """What starts a program with that limit, as `ulimit` takes it."""
    return ("sh", "-c", f'ulimit {limit}; exec "$@"', "sh")


class Held:
    """A connection that has its place, and keeps it."""

    def __init__(self, url: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=100)
        # The place of one that was closed may not be free at once.
        eventually(lambda: self.ask("GET", "/me")[0], 200)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body)
        self.connection.request(method, path, content, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())


@contextmanager
def all_held(url: str) -> Iterator[list[Held]]:
    with ExitStack() as stack:
        held = []
        for _ in range(PLACES):
            one = Held(url)
            stack.callback(one.connection.close)
            held.append(one)
        yield held


@pytest.mark.parametrize("isolation", ["process", "task"])
def test_with_every_connection_held_the_server_goes_on(tmp_path: Path, gate: Gate, isolation: str) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served("playbook", prefix=limited("-n 400"), store=store, isolation=isolation, **SMALL) as server:
        with all_held(server.url) as (first, *others):
            at_work = first.ask("POST", "/sessions", {})[1]["session_id"]
            message = {"content": f"hold {gate.port}"}
            assert first.ask("POST", f"/sessions/{at_work}/messages", message)[0] == 202
            gate.wait_for_arrival()
            for probe in ("/healthz", "/readyz", "/readyz"):
                assert ok(server.api.get(probe)) == {"status": "ok"}
            refused = server.api.get("/me")
            assert problem(refused, 503)["code"] == "too_many_connections"
            assert refused.headers["retry-after"] == "5"
            # The turn goes on, and new ones find workers, more than were kept; all of it is written.
            gate.release()
            assert first.ask("GET", f"/sessions/{at_work}?wait=true")[1]["status"] == "idle"
            for number, one in enumerate(reversed(others[-8:])):
                session_id = one.ask("POST", "/sessions", {})[1]["session_id"]
                path = f"/sessions/{session_id}"
                assert one.ask("POST", f"{path}/messages", {"content": 'ask {"type": "question"}'})[0] == 202
                session = one.ask("GET", f"{path}?wait=true")[1]
                assert session["status"] == "interrupted", session
                answer = {"interrupt_id": session["interrupts"][0]["interrupt_id"], "value": number}
                assert one.ask("POST", f"{path}/resume", answer)[0] == 200
                assert result(one.ask("GET", f"{path}?wait=true")[1]) == number
        eventually(lambda: server.api.get("/me").status_code, 200)
        assert not [line for line in server.lines if "os error 24" in line or "Too many open files" in line]


def test_the_limit_is_raised_for_the_server_and_not_for_agents() -> None:
    options: dict[str, Any] = {"workers": 2, "max_connections": 300}
    with Served("tests.python.support.open_files:agent", prefix=limited("-S -n 200"), **options) as server:
        session_id = server.api.create()
        server.api.send(session_id, "how many?")
        assert result(server.api.wait(session_id)) == [200, 200]


@pytest.mark.parametrize(
    ("limit", "options"), [("-n 128", {}), ("-n 512", {"max_connections": 500})], ids=["too low", "too many asked for"]
)
def test_a_server_that_could_not_live_with_it_does_not_start(
    tmp_path: Path, limit: str, options: dict[str, Any]
) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    command = [*limited(limit), *Served.command("playbook", {"port": 0, "workers": 2, "store": store, **options})]
    ended = subprocess.run(
        command, check=False, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 2, ended.stderr
    assert "may have to be open at once" in ended.stderr
    assert "ulimit -Hn" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit")
def test_without_a_descriptor_left_it_waits_for_one_and_does_not_spin() -> None:
    with Served("playbook", workers=2) as server:
        before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        began = time.monotonic()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        waiting = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=100)
        waiting.request("GET", "/healthz")

        def tries() -> int:
            return sum("cannot accept connections" in line for line in server.lines)

        eventually(lambda: tries() >= 3, True)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
        assert waiting.getresponse().status == 200
        waiting.close()
        # A pause after each, of a tenth of a second.
        assert tries() <= (time.monotonic() - began) / 0.1 + 2
