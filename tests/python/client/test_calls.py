"""Both clients make the same calls, read the same answers and raise the same errors."""

from __future__ import annotations

import inspect
import socket
from collections.abc import Callable
from typing import Any

import pytest

from hitl import ChatMessage, HitlError
from hitl.client import (
    ApiError,
    Client,
    ClientError,
    Conflict,
    ConnectionFailed,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Replay,
    ServerFault,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)
from tests.python.client.fake_server import Answer, FakeServer, problem
from tools import blocking_client

Connect = Callable[..., Any]
RUNNING = {"session_id": "s", "status": "running", "response": None, "error": None, "interrupts": None}


def test_the_blocking_client_is_what_is_made_of_the_one_for_asyncio() -> None:
    made = blocking_client.blocking(blocking_client.SOURCE.read_text(encoding="utf-8"))
    written = blocking_client.MADE.read_text(encoding="utf-8")
    assert written == made, "change async_client.py, then: python -m tools.blocking_client"


def test_a_rule_that_makes_nothing_blocking_any_more_is_told() -> None:
    with pytest.raises(ValueError, match=r"mend the rules"):
        blocking_client.blocking("import asyncio\n")


def test_methods_say_what_they_take() -> None:
    assert list(inspect.signature(Client("http://localhost").reject).parameters) == [
        "interrupt_id",
        "reason",
        "message",
        "always",
        "name",
    ]
    assert "reason" in (Client.reject.__doc__ or "")


async def test_a_turn_from_message_to_response(connect: Connect) -> None:
    async with connect() as client:
        session = await client.create_session()
        assert (session.status, session.interrupts) == ("idle", ())
        session = await client.ask(session.session_id, "hello")
        assert session.status == "idle"
        assert session.response == ChatMessage.assistant_message("HELLO")
        roles = [message.role for message in await client.get_messages(session.session_id)]
        assert roles == ["user", "assistant"]


async def test_of_a_conversation_that_is_known_the_rest_is_asked_for(connect: Connect, server: FakeServer) -> None:
    async with connect() as client:
        session_id = (await client.create_session()).session_id
        await client.get_messages(session_id)
        await client.get_messages(session_id, after=40)
        await client.get_messages(session_id, after=0, limit=100)
    assert [request.query for request in server.requests if request.method == "GET"] == [
        {},
        {"after": "40"},
        {"limit": "100"},
    ]


async def test_a_session_is_asked_for_under_a_key(connect: Connect, server: FakeServer) -> None:
    async with connect() as client:
        await client.create_session(idempotency_key="k")
        with pytest.raises(ValueError, match="idempotency_key is for a session without session_id"):
            await client.create_session(session_id="s", idempotency_key="k")
    (request,) = server.requests
    assert request.headers["idempotency-key"] == "k"


async def test_who_one_is(connect: Connect, server: FakeServer) -> None:
    ada = {"name": "ada", "scopes": ["read", "answer"], "groups": ["finance"], "max_body": 4096}
    server.override("GET", "/me", Answer(body={**ada, "authentication": True, "prevent_self_approval": True}))
    async with connect() as client:
        me = await client.me()
        assert (me.name, me.groups, me.authentication, me.prevent_self_approval) == ("ada", ("finance",), True, True)
        assert me.max_body == 4096
        assert [me.may(scope) for scope in ("read", "send", "answer", "admin")] == [True, False, True, False]
        # Without keys everybody is nobody, and may do everything.
        nobody = await client.me()
        assert (nobody.name, nobody.may("admin"), nobody.authentication) == (None, True, False)


async def test_an_approval(connect: Connect) -> None:
    async with connect() as client:
        session = await client.create_session()
        session = await client.ask(session.session_id, "ask /tmp/x")
        (interrupt,) = session.interrupts
        assert (interrupt.id, interrupt.tool_name) == (interrupt.interrupt_id, "delete_file")
        assert interrupt.tool_args == {"path": "/tmp/x"}
        accepted = await client.approve(interrupt.id)
        assert (accepted.status, accepted.replayed) == ("running", False)
        session = await client.wait(session.session_id)
        assert session.response.content == "answer: {'approved': True}"
        assert (await client.get_interrupt(interrupt.id)).status == "resolved"


async def test_a_rejection_sends_its_reason_only_when_there_is_one(connect: Connect, server: FakeServer) -> None:
    async with connect() as client:
        for reason in (None, "too early"):
            session = await client.create_session()
            session = await client.ask(session.session_id, "ask /tmp/x")
            await client.reject(session.interrupts[0].id, reason)
    sent = [request.body["value"] for request in server.sent("POST", "/resume")]
    assert sent == [{"approved": False}, {"approved": False, "reason": "too early"}]


@pytest.mark.parametrize("value", [None, False, 0, "", []])
async def test_falsy_values_are_answers(connect: Connect, server: FakeServer, value: Any) -> None:
    async with connect() as client:
        session = await client.create_session()
        session = await client.ask(session.session_id, "ask x")
        await client.resume(session.session_id, session.interrupts[0].id, value)
    assert server.sent("POST", "/resume")[0].body == {"interrupt_id": session.interrupts[0].id, "value": value}


async def test_several_answers_go_in_one_request(connect: Connect, server: FakeServer) -> None:
    server.override("POST", "/sessions/s/resume", Answer(body={"session_id": "s", "status": "running"}))
    async with connect() as client:
        await client.resume_many("s", {"a": 1, "b": None}, idempotency_key="k")
    (request,) = server.sent("POST", "/resume")
    assert request.body == {"resume": [{"interrupt_id": "a", "value": 1}, {"interrupt_id": "b", "value": None}]}
    assert request.headers["idempotency-key"] == "k"


async def test_waiting_ends_at_the_timeout_with_a_running_session(connect: Connect, server: FakeServer) -> None:
    server.override("GET", "/sessions/s", Answer(body=RUNNING), Answer(body=RUNNING))
    async with connect() as client:
        assert (await client.wait("s", timeout=0)).status == "running"
    assert server.requests[0].query == {"wait": "true", "timeout": "0.0"}


async def test_waiting_goes_on_while_the_session_runs(connect: Connect, server: FakeServer) -> None:
    server.override("GET", "/sessions/s", Answer(body=RUNNING), Answer(body={**RUNNING, "status": "idle"}))
    async with connect() as client:
        assert (await client.wait("s")).status == "idle"
    assert len(server.requests) == 2


async def test_asking_takes_one_request(connect: Connect, server: FakeServer) -> None:
    server.override("POST", "/sessions/s/messages", Answer(body={**RUNNING, "status": "idle"}))
    async with connect() as client:
        assert (await client.ask("s", "hello", idempotency_key="k")).status == "idle"
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/sessions/s/messages")
    assert request.query == {"wait": "true", "timeout": "30.0"}
    assert request.body == {"role": "user", "content": "hello"}
    assert request.headers["idempotency-key"] == "k"


async def test_asking_goes_on_waiting_while_the_session_runs(connect: Connect, server: FakeServer) -> None:
    server.override("POST", "/sessions/s/messages", Answer(body=RUNNING))
    server.override("GET", "/sessions/s", Answer(body=RUNNING), Answer(body={**RUNNING, "status": "idle"}))
    async with connect() as client:
        assert (await client.ask("s", "hello")).status == "idle"
    assert [request.method for request in server.requests] == ["POST", "GET", "GET"]


async def test_asking_ends_at_the_timeout_with_a_running_session(connect: Connect, server: FakeServer) -> None:
    server.override("POST", "/sessions/s/messages", Answer(body=RUNNING))
    async with connect() as client:
        assert (await client.ask("s", "hello", timeout=0)).status == "running"
    assert len(server.requests) == 1


async def test_a_server_that_takes_the_message_and_does_not_wait_is_polled(
    connect: Connect, server: FakeServer
) -> None:
    accepted = {"session_id": "s", "status": "running"}
    server.override("POST", "/sessions/s/messages", Answer(202, accepted, {"location": "/sessions/s"}))
    server.override("GET", "/sessions/s", Answer(body={**RUNNING, "status": "idle"}))
    async with connect() as client:
        assert (await client.ask("s", "hello")).status == "idle"
    assert server.requests[1].query == {"wait": "true", "timeout": "30.0"}


async def test_a_failed_turn_is_a_result_and_no_exception(connect: Connect) -> None:
    async with connect() as client:
        session = await client.create_session()
        session = await client.ask(session.session_id, "fail")
        assert (session.status, session.error) == ("error", "ValueError: no such luck")


async def test_a_failed_turn_is_taken_up_again(connect: Connect, server: FakeServer) -> None:
    accepted = {"session_id": "s", "status": "running"}
    refusal = problem(409, "Nothing to retry", "nothing_to_retry")
    server.override("POST", "/sessions/s/retry", Answer(202, accepted, {"location": "/sessions/s"}), refusal)
    async with connect() as client:
        assert (await client.retry("s")).status == "running"
        with pytest.raises(Conflict) as refused:
            await client.retry("s")
    assert refused.value.code == "nothing_to_retry"
    assert [request.body for request in server.requests] == [None, None]


@pytest.mark.parametrize(
    ("status", "code", "can_be_retried"),
    [("error", "replay_mismatch", True), ("error", "agent_error", False), ("running", None, False)],
)
async def test_a_session_tells_whether_its_turn_can_be_retried(
    connect: Connect, server: FakeServer, status: str, code: str | None, can_be_retried: bool
) -> None:
    server.override("GET", "/sessions/s", Answer(body={"session_id": "s", "status": status, "error_code": code}))
    async with connect() as client:
        session = await client.get_session("s")
    assert (session.error_code, session.can_be_retried, session.replay) == (code, can_be_retried, None)


async def test_a_session_tells_what_there_is_to_say_about_replays(connect: Connect, server: FakeServer) -> None:
    waits_for = [{"what": "raw I/O", "location": "agent.py:31"}, {"what": "a thread", "location": None}]
    told = {"pure": False, "impure_at": "agent.py:12", "warnings": ["a prompt differs"]}
    replay = {**told, "waits_for": waits_for}
    server.override("GET", "/sessions/s", Answer(body={"session_id": "s", "status": "running", "replay": replay}))
    async with connect() as client:
        session = await client.get_session("s")
    waits = ("raw I/O at agent.py:31", "a thread")
    assert session.replay == Replay(False, "agent.py:12", warnings=("a prompt differs",), waits_for=waits)


async def test_lists_come_in_pages(connect: Connect) -> None:
    async with connect() as client:
        created = [(await client.create_session()).session_id for _ in range(3)]
        first = await client.list_sessions(limit=2)
        second = await client.list_sessions(limit=2, cursor=first.next_cursor)
        assert [session.session_id for session in [*first, *second]] == created
        assert (len(first), second.next_cursor) == (2, None)


async def test_filters_that_are_not_given_are_not_sent(connect: Connect, server: FakeServer) -> None:
    async with connect() as client:
        await client.list_interrupts(status="pending", tool="delete_file")
        await client.list_sessions(order="newest")
        await client.list_sessions(q="a hat")
    assert [request.query for request in server.requests] == [
        {"status": "pending", "tool": "delete_file"},
        {"order": "newest"},
        {"q": "a hat"},
    ]


async def test_ids_are_escaped_in_paths(connect: Connect, server: FakeServer) -> None:
    async with connect() as client:
        with pytest.raises(NotFound):
            await client.get_session("../health?x=1")
    assert server.requests[0].path == "/sessions/..%2Fhealth%3Fx%3D1"


async def test_the_key_is_sent_as_a_bearer_token(connect: Connect, server: FakeServer) -> None:
    async with connect(api_key="sesame") as client:
        await client.health()
    assert server.requests[0].headers["authorization"] == "Bearer sesame"


@pytest.mark.parametrize("key", ["", " ", "sesame\n", " sesame", "ses\name", "s\u00e9same"])
def test_a_key_that_no_server_has_is_refused_and_not_shown(connect: Connect, key: str) -> None:
    with pytest.raises(ValueError, match="the API key is empty, or not printable ASCII") as refused:
        connect(api_key=key)
    assert "same" not in str(refused.value)


async def test_a_value_that_is_not_json_never_leaves(connect: Connect, server: FakeServer) -> None:
    async with connect() as client:
        with pytest.raises(ValueError, match="not JSON compliant"):
            await client.answer("i", float("nan"))
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Unauthorized),
        (404, NotFound),
        (405, MethodNotAllowed),
        (409, Conflict),
        (410, Gone),
        (418, ApiError),
        (422, Invalid),
        (500, ServerFault),
        (503, Unavailable),
    ],
)
async def test_a_refusal_is_an_error_of_its_kind(
    connect: Connect, server: FakeServer, status: int, kind: type[ApiError]
) -> None:
    server.override("GET", "/health", problem(status, "No.", "some_code"))
    async with connect() as client:
        with pytest.raises(kind) as caught:
            await client.health()
    assert type(caught.value) is kind
    assert isinstance(caught.value, HitlError)
    assert (caught.value.status, caught.value.code, caught.value.detail) == (status, "some_code", "No.")
    assert str(caught.value) == "No."


async def test_errors_carry_what_the_server_added(connect: Connect, server: FakeServer) -> None:
    wrong = [{"loc": ["value", "approved"], "msg": "must be a boolean", "type": "wrong_type"}]
    busy = problem(503, "Full", "queue_full")
    busy.headers["retry-after"] = "2"
    who = {"resolved_by": "ann", "resolved_at": "2026-11-21T12:00:00.000Z"}
    server.override(
        "GET", "/health", problem(422, "Bad", "invalid", errors=wrong), problem(409, "Late", "late", **who), busy
    )
    async with connect() as client:
        with pytest.raises(Invalid) as invalid:
            await client.health()
        with pytest.raises(Conflict) as conflict:
            await client.health()
        with pytest.raises(Unavailable) as unavailable:
            await client.health()
    assert invalid.value.errors == wrong
    assert conflict.value.resolved_by == "ann"
    assert conflict.value.resolved_at is not None
    assert conflict.value.resolved_at.isoformat() == "2026-11-21T12:00:00+00:00"
    assert unavailable.value.retry_after == 2.0


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, ["not", "an", "object"]),
        Answer(200, {"status": "ok"}),
        Answer(404, "nothing here"),
        Answer(302, {}, {"location": "/elsewhere"}),
    ],
)
async def test_another_program_at_the_address_is_told_apart(
    connect: Connect, server: FakeServer, answer: Answer
) -> None:
    server.override("GET", "/health", answer)
    async with connect() as client:
        with pytest.raises(UnexpectedResponse):
            await client.health()


async def test_nobody_there_is_a_failed_connection(connect: Connect) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with connect(url=url) as client:
            with pytest.raises(ConnectionFailed, match=r"cannot connect to http://127\.0\.0\.1") as caught:
                await client.health()
    assert (caught.value.status, caught.value.code) == (None, "connection_failed")
    assert isinstance(caught.value, ClientError)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://"])
def test_what_is_no_url_is_a_value_error(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        Client(url)


async def test_a_server_on_this_machine_is_not_reached_through_a_proxy(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with connect() as client:
        assert (await client.health()).status == "ok"
