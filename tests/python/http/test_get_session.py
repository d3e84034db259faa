"""GET /sessions/{id} without waiting, and DELETE."""

from __future__ import annotations

import pytest

from tests.python.support.api import Api, ok, problem
from tests.python.support.gate import Gate

MESSAGE_FIELDS = {
    "role",
    "content",
    "reasoning",
    "reasoning_details",
    "tool_calls",
    "tool_call_id",
    "name",
    "base64_image",
    "user_params",
}


@pytest.mark.parametrize("session_id", ["0196f9a4-7a07-7d33-8f0e-111111111111", "no-uuid", "%20", "a" * 300])
def test_an_unknown_session_is_not_found(api: Api, session_id: str) -> None:
    for response in (
        api.get(f"/sessions/{session_id}"),
        api.get(f"/sessions/{session_id}/messages"),
        api.http.delete(f"/sessions/{session_id}"),
        api.send(session_id, "echo 1"),
        api.resume(session_id, "x", 1),
        api.post(f"/sessions/{session_id}/cancel"),
        api.get(f"/sessions/{session_id}/events"),
    ):
        problem(response, 404, "Session not found")


def test_a_response_has_every_key_also_those_that_are_null(api: Api) -> None:
    session = api.run(api.create(), "echo", "hello")
    assert session["status"] == "idle"
    assert session.keys() >= {"session_id", "status", "response", "error", "interrupts"}
    assert session["response"].keys() == MESSAGE_FIELDS
    assert session["response"]["role"] == "assistant"
    assert session["response"]["content"] == '"hello"'
    assert session["error"] is None
    assert session["interrupts"] is None


def test_response_and_error_are_of_the_last_turn(api: Api, gate: Gate) -> None:
    session_id = api.create()
    api.run(session_id, "echo", 1)
    api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    running = api.session(session_id)
    assert (running["status"], running["response"], running["error"]) == ("running", None, None)
    gate.release()
    assert api.wait(session_id)["response"]["content"] == '"go"'
    failed = api.run(session_id, "fail", "broken")
    assert (failed["status"], failed["response"], failed["error"]) == ("error", None, "ValueError: broken")
    asking = api.run(session_id, "ask", {"type": "question"})
    assert (asking["status"], asking["response"], asking["error"]) == ("interrupted", None, None)


def test_a_deleted_session_is_gone(api: Api) -> None:
    session_id = api.create()
    api.run(session_id, "echo", 1)
    response = api.delete(session_id)
    assert response.status_code == 204
    assert response.content == b""
    problem(api.get(f"/sessions/{session_id}"), 404, "Session not found")
    problem(api.delete(session_id), 404, "Session not found")


def test_deleting_stops_the_turn(either_api: Api, gate: Gate) -> None:
    session_id = either_api.create()
    either_api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    assert either_api.delete(session_id).status_code == 204
    gate.wait_until_gone()


def test_deleting_takes_the_interrupts_along(api: Api) -> None:
    session_id, interrupt_id = api.ask({"type": "question"})
    assert api.delete(session_id).status_code == 204
    problem(api.post(f"/interrupts/{interrupt_id}/resume", {"value": 1}), 404, f"Unknown interrupt_id: {interrupt_id}")
    assert ok(api.get("/interrupts", session_id=session_id)) == []
