"""POST /sessions/{id}/cancel."""

from __future__ import annotations

import uuid

import pytest

from tests.python.support.api import Api, ok, problem, result
from tests.python.support.gate import Gate


def test_cancelling_stops_a_turn_at_work(either_api: Api, gate: Gate) -> None:
    session_id = either_api.create()
    either_api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    ok(either_api.post(f"/sessions/{session_id}/cancel"))
    gate.wait_until_gone()
    session = either_api.session(session_id)
    assert (session["status"], session["error"]) == ("error", "Turn cancelled")
    assert result(either_api.run(session_id, "echo", "alive")) == "alive"


def test_cancelling_withdraws_the_turns_questions(either_api: Api) -> None:
    session_id, interrupts = either_api.asked("ask_all", [{"type": "question", "n": n} for n in range(2)])
    ok(either_api.post(f"/sessions/{session_id}/cancel"))
    session = either_api.session(session_id)
    assert (session["status"], session["error"], session["interrupts"]) == ("error", "Turn cancelled", None)
    for entry in interrupts:
        assert either_api.interrupt(entry["interrupt_id"])["status"] == "cancelled"
        problem(either_api.resume(session_id, entry["interrupt_id"], 1), 409, "Interrupt was cancelled")


def test_a_turn_that_does_not_let_itself_be_cancelled_is_over_all_the_same(api: Api, gate: Gate) -> None:
    session_id = api.create()
    api.play(session_id, "hold_stubbornly", gate.port)
    gate.wait_for_arrival()
    ok(api.post(f"/sessions/{session_id}/cancel"))
    gate.wait_until_gone()
    assert api.session(session_id)["error"] == "Turn cancelled"
    assert result(api.run(session_id, "echo", "alive")) == "alive"


@pytest.mark.parametrize("play", ["none", "echo", "fail"])
def test_where_there_is_no_turn_there_is_nothing_to_cancel(api: Api, play: str) -> None:
    session_id = api.create()
    if play != "none":
        api.run(session_id, play, "x")
    before = api.session(session_id)
    problem(api.post(f"/sessions/{session_id}/cancel"), 409)
    assert api.session(session_id) == before


def test_an_unknown_session(api: Api) -> None:
    problem(api.post(f"/sessions/{uuid.uuid4()}/cancel"), 404, "Session not found")
