"""POST and GET /sessions/{id}/messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.python.support.api import Api, Json, ok, problem, result
from tests.python.support.gate import Gate


def test_a_message_starts_a_turn(api: Api) -> None:
    session_id = api.create()
    response = api.send(session_id, "echo 7")
    assert response.status_code == 202
    assert response.headers["location"] == f"/sessions/{session_id}"
    assert response.json() == {"session_id": session_id, "status": "running"}
    assert result(api.wait(session_id)) == 7


def test_messages_are_what_was_said_without_what_is_null(api: Api) -> None:
    session_id = api.create()
    assert ok(api.get(f"/sessions/{session_id}/messages")) == []
    api.run(session_id, "echo", 1)
    api.run(session_id, "echo", 2)
    assert ok(api.get(f"/sessions/{session_id}/messages")) == [
        {"role": "user", "content": "echo 1"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "echo 2"},
        {"role": "assistant", "content": "2"},
    ]


def test_a_part_of_the_messages_is_read_from_where_one_stands(api: Api) -> None:
    said = [{"role": "user", "content": str(number)} for number in range(5)]
    path = f"/sessions/{api.create(said)}/messages"
    assert ok(api.get(path)) == said
    assert "next" not in api.get(path).links
    assert ok(api.get(path, after=3)) == said[3:]
    assert ok(api.get(path, after=5)) == ok(api.get(path, after=6)) == []
    first = api.get(path, limit=2)
    assert ok(first) == said[:2]
    second = api.http.get(first.links["next"]["url"])
    assert ok(second) == said[2:4]
    last = api.http.get(second.links["next"]["url"])
    assert ok(last) == said[4:]
    assert "next" not in last.links
    assert "next" not in api.get(path, after=3, limit=2).links


@pytest.mark.parametrize("query", [{"after": -1}, {"after": "last"}, {"after": ""}, {"limit": 0}, {"limit": 1001}])
def test_a_part_that_is_none_is_refused(api: Api, query: dict[str, Any]) -> None:
    errors = problem(api.get(f"/sessions/{api.create()}/messages", **query), 422)["errors"]
    assert [error["loc"] for error in errors] == [["query", *query]]


def test_every_field_of_a_message_reaches_the_agent(api: Api) -> None:
    message: Json = {
        "role": "assistant",
        "content": "echo 1",
        "reasoning": "because",
        "reasoning_details": [{"type": "summary"}],
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}],
        "tool_call_id": "c0",
        "name": "somebody",
        "base64_image": "aGk=",
        "user_params": {"TZ": "UTC", "deep": {"list": [1, None]}},
    }
    session_id = api.create()
    assert api.send(session_id, **message).status_code == 202
    assert api.wait(session_id)["status"] == "idle"
    assert ok(api.get(f"/sessions/{session_id}/messages"))[0] == message


def test_an_empty_object_is_a_message(api: Api) -> None:
    session_id = api.create()
    assert api.post(f"/sessions/{session_id}/messages", {}).status_code == 202
    assert result(api.wait(session_id)) is None
    assert ok(api.get(f"/sessions/{session_id}/messages"))[0] == {"role": "user"}


@pytest.mark.parametrize("text", ["", "日本語 🦀", "\u0000\u001f", '"\\', "x" * 100_000])
def test_any_text_is_kept_as_it_was(api: Api, text: str) -> None:
    session_id = api.create()
    assert api.send(session_id, content="echo 1", name=text).status_code == 202
    assert api.wait(session_id)["status"] == "idle"
    assert ok(api.get(f"/sessions/{session_id}/messages"))[0].get("name") == text


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ([], None),
        ("hello", None),
        (None, None),
        ({"role": "robot"}, "role"),
        ({"role": None}, "role"),
        ({"content": 7}, "content"),
        ({"content": [{"type": "text", "text": "hi"}]}, "content"),
        ({"tool_calls": {"id": 1}}, "tool_calls"),
        ({"tool_calls": [{"id": 1, "type": "function", "function": {"name": "f", "arguments": ""}}]}, "tool_calls"),
        ({"user_params": "TZ=UTC"}, "user_params"),
        ({"reasoning_details": "none"}, "reasoning_details"),
        ({"webhook": "http://example.com"}, "webhook"),
        ({"webhook": {}}, "webhook"),
        ({"webhook": {"url": "no url"}}, "webhook"),
        ({"webhook": {"url": "ftp://example.com"}}, "webhook"),
        ({"webhook": {"url": "https://example.com", "include_messages": "yes"}}, "webhook"),
    ],
)
def test_a_body_of_other_types_is_refused_and_starts_nothing(api: Api, body: Any, loc: str | None) -> None:
    session_id = api.create()
    refusal = problem(api.post(f"/sessions/{session_id}/messages", body), 422)
    if loc is not None:
        assert loc in refusal["errors"][0]["loc"]
    assert api.session(session_id)["status"] == "idle"


def test_one_turn_at_a_time(api: Api, gate: Gate) -> None:
    session_id = api.create()
    api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    problem(api.send(session_id, "echo 1"), 409, "Session is running")
    gate.release()
    api.wait(session_id)
    api.run(session_id, "ask", {"type": "question"})
    problem(api.send(session_id, "echo 1"), 409, "Session is interrupted")
    assert api.session(session_id)["status"] == "interrupted"


def test_a_failed_session_takes_new_messages_and_has_its_state_of_before(api: Api) -> None:
    session_id = api.create()
    api.run(session_id, "echo", 1)
    before = ok(api.get(f"/sessions/{session_id}/messages"))
    failed = api.run(session_id, "fail", "broken")
    assert (failed["status"], failed["error"]) == ("error", "ValueError: broken")
    assert ok(api.get(f"/sessions/{session_id}/messages")) == before
    assert result(api.run(session_id, "echo", 2)) == 2
    assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 4


def test_an_error_is_a_type_and_a_message_never_a_traceback(api: Api) -> None:
    session = api.run(api.create(), "fail", "line one\nline two")
    assert session["error"] == "ValueError: line one\nline two"
    assert "Traceback" not in session["error"]
    unknown = api.run(api.create(), "no_such_play")
    assert unknown["error"] == "KeyError: 'no_such_play'"


def test_unknown_fields_do_not_become_anything(api: Api) -> None:
    """What the peer would put into the environment stays a field of the message."""
    session_id = api.create()
    environment = result(api.run(session_id, "environment", None, user_params={"HITL_INJECTED": "yes"}))
    assert "HITL_INJECTED" not in environment


class TestIdempotencyKey:
    def test_the_same_request_again_gets_the_first_reply_again(self, api: Api) -> None:
        session_id = api.create()
        first = api.post(f"/sessions/{session_id}/messages", {"content": "echo 1"}, Idempotency_Key="k1")
        assert first.status_code == 202
        api.wait(session_id)
        again = api.post(f"/sessions/{session_id}/messages", {"content": "echo 1"}, Idempotency_Key="k1")
        assert again.status_code == 202
        assert again.json() == first.json()
        assert again.headers["location"] == first.headers["location"]
        assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2
        assert api.session(session_id)["status"] == "idle"

    def test_the_same_request_again_while_it_works(self, api: Api, gate: Gate) -> None:
        session_id = api.create()
        body = {"content": f"hold {gate.port}"}
        assert api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="k").status_code == 202
        gate.wait_for_arrival()
        assert api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="k").status_code == 202
        problem(api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="other"), 409, "Session is running")
        gate.release()
        assert result(api.wait(session_id)) == "go"

    def test_another_body_under_the_key_is_refused(self, api: Api) -> None:
        session_id = api.create()
        api.post(f"/sessions/{session_id}/messages", {"content": "echo 1"}, Idempotency_Key="k")
        api.wait(session_id)
        problem(api.post(f"/sessions/{session_id}/messages", {"content": "echo 2"}, Idempotency_Key="k"), 422)
        assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2

    def test_a_key_is_of_one_session(self, api: Api) -> None:
        for number in range(2):
            session_id = api.create()
            body = {"content": f"echo {number}"}
            assert api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="shared").status_code == 202
            assert result(api.wait(session_id)) == number

    def test_a_refused_request_leaves_the_key_free(self, api: Api) -> None:
        session_id, interrupt_id = api.ask({"type": "question"})
        body = {"content": "echo 1"}
        problem(api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="k"), 409)
        assert api.resume(session_id, interrupt_id, 1).status_code == 200
        api.wait(session_id)
        assert api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="k").status_code == 202
        assert result(api.wait(session_id)) == 1
