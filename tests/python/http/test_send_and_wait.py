"""POST /sessions/{id}/messages?wait=true: the message and the long poll for what comes of it, in one request."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.python.support.api import Api, Json, ok, problem, result
from tests.python.support.gate import Gate


def ask(api: Api, session_id: str, play: str, argument: Any = None, key: str = "", **query: Any) -> httpx2.Response:
    return api.http.post(
        f"/sessions/{session_id}/messages",
        params={"wait": "true", "timeout": "60", **query},
        json={"content": f"{play} {json.dumps(argument)}"},
        headers={"Idempotency-Key": key} if key else {},
    )


@pytest.mark.parametrize("play", ["echo", "ask", "fail"])
def test_the_reply_is_that_of_a_get_with_wait(either_api: Api, play: str) -> None:
    session_id = either_api.create()
    asked = {"type": "question"} if play == "ask" else "x"
    waited = ok(ask(either_api, session_id, play, asked))
    assert waited["status"] == {"echo": "idle", "ask": "interrupted", "fail": "error"}[play]
    assert waited == ok(either_api.get(f"/sessions/{session_id}", wait="true"))


@pytest.mark.parametrize("query", [{"wait": "false"}, {"timeout": "0"}, {"timeout": "-1"}])
def test_who_does_not_wait_is_told_that_it_was_taken(api: Api, query: Json) -> None:
    session_id = api.create()
    response = ask(api, session_id, "echo", 7, **query)
    assert (response.status_code, response.json()) == (202, {"session_id": session_id, "status": "running"})
    assert result(api.wait(session_id)) == 7


def test_at_the_timeout_the_session_is_told_as_it_is_and_the_turn_goes_on(api: Api, gate: Gate) -> None:
    session_id = api.create()
    running = ok(ask(api, session_id, "hold", gate.port, timeout="0.01"))
    assert (running["status"], running["response"]) == ("running", None)
    gate.wait_for_arrival()
    gate.release("done")
    assert result(api.wait(session_id)) == "done"


def test_hanging_up_cancels_nothing(api: Api, gate: Gate) -> None:
    session_id = api.create()
    body = json.dumps({"content": f"hold {gate.port}"}).encode()
    head = (
        f"POST /sessions/{session_id}/messages?wait=true HTTP/1.1\r\nHost: {api.http.base_url.netloc.decode()}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((api.http.base_url.host, api.http.base_url.port or 80)) as connection:
        connection.sendall(head.encode() + body)
        gate.wait_for_arrival()
    gate.release("done")
    assert result(api.wait(session_id)) == "done"


def test_the_same_key_sends_nothing_again_and_tells_what_came_of_it(api: Api) -> None:
    session_id = api.create()
    first = ok(ask(api, session_id, "echo", 7, key="once"))
    assert ok(ask(api, session_id, "echo", 7, key="once")) == first
    assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2
    # Whether somebody waits is no part of what is sent.
    assert ask(api, session_id, "echo", 7, key="once", wait="false").status_code == 202
    assert problem(ask(api, session_id, "echo", 8, key="once"), 422)["code"] == "idempotency_key_reused"


def test_a_key_that_is_used_again_while_the_turn_is_at_work_waits_with_the_first(api: Api, gate: Gate) -> None:
    session_id = api.create()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(ask, api, session_id, "hold", gate.port, key="once")
        gate.wait_for_arrival()
        second = threads.submit(ask, api, session_id, "hold", gate.port, key="once")
        assert ok(ask(api, session_id, "hold", gate.port, key="once", timeout="0.01"))["status"] == "running"
        gate.release("done")
        assert ok(first.result()) == ok(second.result())
    assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2


def test_what_is_refused_is_refused_before_anybody_waits(api: Api, gate: Gate) -> None:
    session_id = api.create()
    wrong = problem(ask(api, session_id, "echo", wait="perhaps", timeout="long"), 422)
    assert [error["loc"] for error in wrong["errors"]] == [["query", "wait"], ["query", "timeout"]]
    assert ok(api.get(f"/sessions/{session_id}/messages")) == []
    api.play(session_id, "hold", gate.port)
    assert problem(ask(api, session_id, "echo"), 409)["code"] == "session_busy"
    gate.wait_for_arrival()
    gate.release()
