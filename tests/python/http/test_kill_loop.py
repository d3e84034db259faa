"""SIGKILL right after a 2xx, two hundred times: sessions that are made and deleted, messages, answers and cancels.

All of it must be there after.

While the request under test is on its way, others create sessions as fast as they can, so that commits are grouped and
the kill hits some of them half way.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.python.support.api import Api, ok
from tests.python.support.served import Program, Served
from tests.python.support.waiting import eventually

KILLS = 25
Check = Callable[[Api], None]


class QuickServed(Served):
    @staticmethod
    def quick_program(agent: str, options: Mapping[str, Any]) -> Program:
        return agent, [str(options["store"])]


class Crowd:
    """Clients that create sessions until the server is gone, and are at it; `acknowledged` are those it said yes to."""

    def __init__(self, url: str, size: int = 3) -> None:
        self.acknowledged: list[str] = []
        address = url.removeprefix("http://")
        self._threads = [threading.Thread(target=self._create, args=(address,)) for _ in range(size)]
        for thread in self._threads:
            thread.start()
        eventually(lambda: self.acknowledged != [], True)

    def _create(self, address: str) -> None:
        with contextlib.closing(http.client.HTTPConnection(address, timeout=30)) as connection:
            while True:
                try:
                    connection.request("POST", "/sessions")
                    response = connection.getresponse()
                    status, body = response.status, response.read()
                except (OSError, http.client.HTTPException):
                    return
                if status == 201:
                    self.acknowledged.append(json.loads(body)["session_id"])

    def join(self) -> list[str]:
        for thread in self._threads:
            thread.join(100)
            assert not thread.is_alive()
        return self.acknowledged


# Each of these does one thing that is acknowledged, and returns what must hold after the restart. Whatever has to be
# there before is made by `prepare_...`, so that nothing stands between the acknowledgement and the kill.


def create_session(api: Api) -> Check:
    state = [{"role": "user", "content": str(uuid.uuid4())}]
    session_id = api.create(state)

    def check(after: Api) -> None:
        assert after.session(session_id)["status"] == "idle"
        assert ok(after.get(f"/sessions/{session_id}/messages")) == state

    return check


def create_session_of_that_id(api: Api) -> Check:
    session_id = str(uuid.uuid4())
    assert api.http.put(f"/sessions/{session_id}").status_code == 201
    return lambda after: _is(after.session(session_id)["status"], "idle")


def delete_session(api: Api, prepared: tuple[str, list[str]]) -> Check:
    session_id, interrupts = prepared
    assert api.delete(session_id).status_code == 204

    def check(after: Api) -> None:
        assert after.get(f"/sessions/{session_id}").status_code == 404
        assert after.get(f"/interrupts/{interrupts[0]}").status_code == 404

    return check


def send_message(api: Api, prepared: tuple[str, list[str]]) -> Check:
    session_id, _ = prepared
    key = str(uuid.uuid4())
    path, body = f"/sessions/{session_id}/messages", {"content": "0"}
    assert api.post(path, body, Idempotency_Key=key).status_code == 202

    def check(after: Api) -> None:
        session = after.wait(session_id)
        assert session["status"] in ("idle", "error")
        assert (session["response"] or {}).get("content") == "[]" or session["error"]
        assert after.post(path, body, Idempotency_Key=key).status_code == 202
        assert after.session(session_id) == session

    return check


def resume(api: Api, prepared: tuple[str, list[str]]) -> Check:
    session_id, (first, *_) = prepared
    answer = {"answer": str(uuid.uuid4())}
    assert api.resume(session_id, first, answer).status_code == 200
    return lambda after: _is_answered(after, {first: answer})


def resume_several(api: Api, prepared: tuple[str, list[str]]) -> Check:
    session_id, interrupts = prepared
    answers = {interrupt_id: str(uuid.uuid4()) for interrupt_id in interrupts}
    assert api.resume_all(session_id, answers).status_code == 200
    return lambda after: _is_answered(after, answers)


def resume_interrupt(api: Api, prepared: tuple[str, list[str]]) -> Check:
    _, (first, *_) = prepared
    assert api.post(f"/interrupts/{first}/resume", {"value": None}).status_code == 200
    return lambda after: _is_answered(after, {first: None})


def cancel(api: Api, prepared: tuple[str, list[str]]) -> Check:
    session_id, interrupts = prepared
    assert api.post(f"/sessions/{session_id}/cancel").status_code == 200

    def check(after: Api) -> None:
        session = after.session(session_id)
        assert (session["status"], session["error"]) == ("error", "Turn cancelled")
        assert [after.interrupt(interrupt_id)["status"] for interrupt_id in interrupts] == ["cancelled"] * 2

    return check


def _is(actual: Any, expected: Any) -> None:
    assert actual == expected


def _is_answered(api: Api, answers: Mapping[str, Any]) -> None:
    for interrupt_id, value in answers.items():
        record = api.interrupt(interrupt_id)
        assert (record["status"], record["value"]) == ("resolved", value)


def prepare_idle(api: Api) -> tuple[str, list[str]]:
    return api.create(), []


def prepare_interrupted(api: Api) -> tuple[str, list[str]]:
    session_id = api.create()
    return session_id, [entry["interrupt_id"] for entry in api.settled(session_id, "2", 2)["interrupts"]]


PREPARE: dict[Callable[..., Check], Callable[[Api], tuple[str, list[str]]]] = {
    delete_session: prepare_interrupted,
    send_message: prepare_idle,
    resume: prepare_interrupted,
    resume_several: prepare_interrupted,
    resume_interrupt: prepare_interrupted,
    cancel: prepare_interrupted,
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "change", [create_session, create_session_of_that_id, *PREPARE], ids=lambda change: change.__name__
)
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path, change: Callable[..., Check]) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    check: Check | None = None
    created: list[str] = []
    for round_ in range(KILLS + 1):
        with QuickServed("tests.python.support.quick_server", store=store) as server:
            api = server.api
            if check is not None:
                check(api)
                for session_id in created:
                    assert api.session(session_id)["status"] == "idle"
            if round_ == KILLS:
                break
            prepared = (PREPARE[change](api),) if change in PREPARE else ()
            crowd = Crowd(server.url)
            check = change(api, *prepared)
            server.kill()
            created = crowd.join()
