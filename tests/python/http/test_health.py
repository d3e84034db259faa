"""GET /health, /healthz, /readyz and /metrics."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.python.http.test_warm import children
from tests.python.support.api import Api, ok, problem
from tests.python.support.gate import Gate
from tests.python.support.waiting import eventually

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve


def test_health_says_how_many_turns_work_and_may_work_and_how_many_sessions_there_are(serve: Serve, gate: Gate) -> None:
    api = serve(workers=3).api
    health = ok(api.get("/health"))
    assert health["status"] == "ok"
    assert (health["max_workers"], health["running_workers"], health["total_sessions"]) == (3, 0, 0)
    session_id = api.create()
    api.create()
    api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    health = ok(api.get("/health"))
    assert (health["max_workers"], health["running_workers"], health["total_sessions"]) == (3, 1, 2)
    gate.release()
    assert api.wait(session_id)["status"] == "idle"
    eventually(lambda: ok(api.get("/health"))["running_workers"], 0)


def test_a_turn_that_waits_for_a_person_is_not_at_work(serve: Serve) -> None:
    api = serve(workers=2).api
    for _ in range(3):
        api.ask({"type": "question"})
    # A session is interrupted when its question is stored; that its turn then awaits nothing else is told after.
    eventually(lambda: ok(api.get("/health"))["running_workers"], 0)
    assert ok(api.get("/health"))["total_sessions"] == 3


def test_alive_and_ready(api: Api) -> None:
    assert api.get("/healthz").status_code == 200
    assert api.get("/readyz").status_code == 200


FAILS_LATER = """
from pathlib import Path
from hitl import ChatMessage

if Path("broken").exists():
    raise RuntimeError("not today")

async def agent(message, state):
    return ChatMessage.assistant_message(content="done"), state
"""


def test_a_server_that_cannot_start_workers_is_not_ready_until_it_can(
    serve: Serve, tmp_path: Path, isolation: str
) -> None:
    (tmp_path / "fails_later.py").write_text(FAILS_LATER)
    broken = tmp_path / "broken"
    server = serve("fails_later:agent", directory=tmp_path, isolation=isolation)
    api = server.api
    assert ok(api.get("/readyz")) == {"status": "ok"}
    broken.touch()
    (zygote,) = children(server.pid)
    os.kill(zygote, signal.SIGKILL)
    eventually(lambda: api.get("/readyz").status_code, 503)
    assert problem(api.get("/readyz"), 503)["code"] == "workers_fail"
    assert api.get("/healthz").status_code == 200
    broken.unlink()
    eventually(lambda: api.get("/readyz").status_code, 200)
    session_id = api.create()
    api.send(session_id, "hello")
    assert api.wait(session_id)["status"] == "idle"


def test_metrics_are_prometheus_text(api: Api) -> None:
    session_id = api.create()
    api.run(session_id, "echo", 1)
    response = api.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    samples = [line for line in lines if line and not line.startswith("#")]
    assert samples
    for sample in samples:
        name, value = sample.rsplit(" ", 1)
        assert name.startswith("hitl_"), sample
        float(value)
    documented = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert documented
    # A label that holds an id makes a series for each session.
    assert session_id not in response.text
