"""POST /sessions and PUT /sessions/{id}."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api, ok, problem
from tests.python.support.served import Served

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

IDLE = {"status": "idle", "response": None, "error": None, "interrupts": None}
STATE = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi", "reasoning": "be polite"}]


@pytest.mark.parametrize("content", [None, b"null", b"{}", b'{"state": []}', b'{"state": null}'])
def test_a_session_starts_idle(api: Api, content: bytes | None) -> None:
    headers = {} if content is None else {"content-type": "application/json"}
    response = api.http.post("/sessions", content=content, headers=headers)
    assert response.status_code == 201
    body = response.json()
    assert {name: body[name] for name in IDLE} == IDLE
    assert response.headers["location"] == f"/sessions/{body['session_id']}"
    assert str(uuid.UUID(body["session_id"])) == body["session_id"]
    assert api.session(body["session_id"]) == body


def test_a_session_can_start_with_messages(api: Api) -> None:
    session_id = api.create(STATE)
    assert ok(api.get(f"/sessions/{session_id}/messages")) == STATE


def test_no_client_says_what_an_agent_reads_in_the_place_of_a_reply(api: Api) -> None:
    native = {"form": "pydantic_ai", "stands_for": 1, "messages": [{"kind": "request", "parts": []}]}
    reply = {"role": "assistant", "content": "hi", "user_params": {"native": native, "mood": "good"}}
    session_id = api.create([reply])
    assert ok(api.get(f"/sessions/{session_id}/messages")) == [{**reply, "user_params": {"mood": "good"}}]


@pytest.mark.parametrize(
    "body",
    [
        [],
        "text",
        7,
        {"state": {}},
        {"state": "text"},
        {"state": ["text"]},
        {"state": [{"content": "no role is a user, but 7 is no role", "role": 7}]},
        {"state": [{"role": "nobody", "content": "x"}]},
        {"state": [{"role": "user", "content": {"type": "text"}}]},
        {"state": [{"role": "assistant", "tool_calls": "all of them"}]},
    ],
)
def test_a_body_of_other_types_is_refused(api: Api, body: Any) -> None:
    body = problem(api.post("/sessions", body), 422)
    assert body["errors"]


def test_where_a_value_is_wrong_is_said(api: Api) -> None:
    body = problem(api.post("/sessions", {"state": [{"role": "user"}, {"role": "user", "content": 7}]}), 422)
    assert body["errors"][0]["loc"][-3:] == ["state", 1, "content"]


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"state": NaN}'])
def test_a_body_that_is_no_json_is_refused(api: Api, content: bytes) -> None:
    response = api.http.post("/sessions", content=content, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    problem(response, response.status_code)


def test_no_more_sessions_than_allowed(serve: Serve) -> None:
    api = serve(max_sessions=2).api
    first = api.create()
    api.create()
    problem(api.post("/sessions"), 503, "Maximum number of sessions reached")
    assert api.delete(first).status_code == 204
    api.create()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    """Takes ids of the client's own, and no more than three sessions."""
    with Served("playbook", allow_custom_ids=True, max_sessions=3) as server:
        yield server


class TestCustomIds:
    def test_are_off_unless_allowed_whatever_the_id(self, api: Api) -> None:
        refusals = [
            problem(api.http.put(f"/sessions/{session_id}"), 405, "Custom session IDs are not enabled")
            for session_id in (uuid.uuid4(), "no-uuid", api.create())
        ]
        # A client must be able to tell this from a method that no server has here.
        wrong_method = problem(api.http.put("/sessions"), 405)
        assert refusals[0]["code"] != wrong_method["code"]

    def test_create_that_session_once(self, server: Served) -> None:
        api = server.api
        session_id = str(uuid.uuid4())
        response = api.http.put(f"/sessions/{session_id}", json={"state": STATE})
        assert response.status_code == 201
        assert response.headers["location"] == f"/sessions/{session_id}"
        assert {name: response.json()[name] for name in IDLE} == IDLE
        assert response.json()["session_id"] == session_id
        assert ok(api.get(f"/sessions/{session_id}/messages")) == STATE
        problem(api.http.put(f"/sessions/{session_id}"), 409, "Session already exists")
        problem(api.http.put("/sessions/no-uuid"), 400, "Session ID must be a valid UUID")
        assert api.delete(session_id).status_code == 204
        assert api.http.put(f"/sessions/{session_id}").status_code == 201
        assert api.delete(session_id).status_code == 204

    def test_an_existing_session_is_told_before_a_full_server(self, server: Served) -> None:
        api = server.api
        ids = [str(uuid.uuid4()) for _ in range(3)]
        for session_id in ids:
            assert api.http.put(f"/sessions/{session_id}").status_code == 201
        problem(api.http.put("/sessions/no-uuid"), 400, "Session ID must be a valid UUID")
        problem(api.http.put(f"/sessions/{ids[0]}"), 409, "Session already exists")
        problem(api.http.put(f"/sessions/{uuid.uuid4()}"), 503, "Maximum number of sessions reached")
        for session_id in ids:
            assert api.delete(session_id).status_code == 204

    def test_a_uuid_is_one_session_however_it_is_written(self, server: Served) -> None:
        api = server.api
        session_id = uuid.uuid4()
        written = str(session_id).upper()
        response = api.http.put(f"/sessions/{written}")
        assert response.status_code == 201
        assert api.http.put(f"/sessions/{session_id}").status_code == 409
        stored = response.json()["session_id"]
        assert response.headers["location"] == f"/sessions/{stored}"
        assert api.delete(stored).status_code == 204
