"""A message after a turn that came to no answer, to a server: what that did is told, over SIGKILL too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api, Json, ok, problem
from tests.python.support.chat_completions import ChatCompletionsServer, Failure, Reply, Silence
from tests.python.support.receiver import Receiver
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

AWAY = Failure(529, "Overloaded")
PAY = Reply(calls=[("c1", "pay", '{"cents": 5}')])
TOLD = [("user", "pay"), ("assistant", None), ("tool", "paid 5")]

Start = Callable[..., Served]


@pytest.fixture
def provider() -> Iterator[ChatCompletionsServer]:
    with ChatCompletionsServer().serving() as serving:
        yield serving


@pytest.fixture
def start(serve: Serve, provider: ChatCompletionsServer, tmp_path: Path, store: str) -> Start:
    """A server of an agent that pays, whose model the test plays."""
    environment = {"PROVIDER": provider.url, "LEDGER": str(tmp_path / "ledger")}

    def begin(**options: Any) -> Served:
        agent = "tests.python.support.paying_agent:agent"
        return serve(agent, **{"store": store, "environment": environment, **options})

    return begin


def paid(folder: Path) -> list[str]:
    ledger = folder / "ledger"
    return ledger.read_text().split() if ledger.exists() else []


def suspended(api: Api, provider: ChatCompletionsServer, **body: Any) -> str:
    """A session whose payment was approved and made before its model was away."""
    provider.replies = [PAY, AWAY]
    session_id = api.create()
    assert api.send(session_id, "pay", **body).status_code == 202
    asked = api.wait(session_id)["interrupts"][0]["interrupt_id"]
    ok(api.resume(session_id, asked, {"approved": True}))
    assert api.wait(session_id)["error_code"] == "model_unavailable"
    return session_id


def contents(messages: list[Json]) -> list[tuple[str, str | None]]:
    return [(message["role"], message.get("content")) for message in messages]


def asked_for(provider: ChatCompletionsServer, text: str) -> list[Any]:
    """The messages of each request whose last one is the user's `text`."""
    sent = [received.body["messages"] for received in provider.received]
    return [messages for messages in sent if messages[-1]["content"] == text]


def test_the_model_is_told_and_the_messages_of_the_session_have_it(
    start: Start, provider: ChatCompletionsServer, tmp_path: Path, isolation: str
) -> None:
    api = start(isolation=isolation).api
    session_id = suspended(api, provider)
    provider.replies = [Reply("yes")]
    assert api.send(session_id, "did you?").status_code == 202
    assert api.wait(session_id)["response"]["content"] == "yes"
    [messages] = asked_for(provider, "did you?")
    assert contents(messages) == [*TOLD, ("user", "did you?")]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "pay", "arguments": '{"cents": 5}'}
    kept = ok(api.get(f"/sessions/{session_id}/messages"))
    assert contents(kept) == [*TOLD, ("user", "did you?"), ("assistant", "yes")]
    assert paid(tmp_path) == ["5"]


@pytest.mark.parametrize("end", ["step_error", "turn_cancelled"])
def test_what_a_turn_did_that_failed_or_was_cancelled_is_told(
    start: Start, provider: ChatCompletionsServer, tmp_path: Path, end: str
) -> None:
    api = start().api
    refusal = Failure(400, "no")
    provider.replies = [PAY, refusal if end == "step_error" else (silence := Silence())]
    session_id = api.create()
    asked = api.settled(session_id, "pay", 1)["interrupts"][0]["interrupt_id"]
    ok(api.resume(session_id, asked, {"approved": True}))
    if end == "turn_cancelled":
        eventually(lambda: len(provider.received), 2)
        ok(api.post(f"/sessions/{session_id}/cancel"))
        silence.over.set()
    assert api.wait(session_id)["error_code"] == end
    assert ok(api.get(f"/sessions/{session_id}/messages")) == []
    provider.replies = [Reply("yes")]
    assert api.send(session_id, "did you?").status_code == 202
    assert api.wait(session_id)["response"]["content"] == "yes"
    assert contents(asked_for(provider, "did you?")[0]) == [*TOLD, ("user", "did you?")]
    assert paid(tmp_path) == ["5"]


def test_a_server_that_dies_before_the_new_turn_s_first_step_tells_the_same_again(
    start: Start, provider: ChatCompletionsServer, tmp_path: Path
) -> None:
    server = start()
    session_id = suspended(server.api, provider)
    silence = Silence()
    provider.replies = [silence, Reply("yes")]
    assert server.api.send(session_id, "did you?").status_code == 202
    eventually(lambda: len(asked_for(provider, "did you?")), 1)
    server.kill()
    silence.over.set()
    api = start().api
    assert api.wait(session_id)["response"]["content"] == "yes"
    first, again = asked_for(provider, "did you?")
    assert first == again
    assert (contents(again), paid(tmp_path)) == ([*TOLD, ("user", "did you?")], ["5"])


def test_what_is_told_is_kept_where_the_server_dies_between_the_suspension_and_the_message(
    start: Start, provider: ChatCompletionsServer
) -> None:
    server = start()
    session_id = suspended(server.api, provider)
    server.kill()
    api = start().api
    provider.replies = [Reply("yes")]
    assert api.send(session_id, "did you?").status_code == 202
    assert api.wait(session_id)["status"] == "idle"
    assert contents(asked_for(provider, "did you?")[0]) == [*TOLD, ("user", "did you?")]


def test_after_suspended_ttl_a_turn_cannot_be_retried_and_its_message_s_webhook_hears_why(
    start: Start, provider: ChatCompletionsServer, tmp_path: Path
) -> None:
    told = "Turn cancelled: nobody retried it for 0.5 s after: ModelUnavailable"
    with Receiver() as receiver:
        server = start(webhook_allow_private=True)
        session_id = suspended(server.api, provider, webhook={"url": receiver.url})
        assert receiver.next().body["error"].startswith("ModelUnavailable")
        server.stop()  # what is suspended is found by a server that did not suspend it
        api = start(suspended_ttl=0.5, webhook_allow_private=True).api
        assert receiver.next().body["error"].startswith(told)
    given_up = api.session(session_id)
    assert (given_up["status"], given_up["error_code"]) == ("error", "turn_cancelled")
    assert given_up["error"].startswith(told)
    assert problem(api.post(f"/sessions/{session_id}/retry"), 409)["code"] == "nothing_to_retry"
    assert ok(api.get(f"/sessions/{session_id}/messages")) == []
    provider.replies = [Reply("yes")]
    assert api.send(session_id, "did you?").status_code == 202
    assert api.wait(session_id)["response"]["content"] == "yes"
    assert contents(asked_for(provider, "did you?")[0]) == [*TOLD, ("user", "did you?")]
    assert paid(tmp_path) == ["5"]
