"""Webhooks: what is sent, to whom, signed how, and tried again."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api, problem
from tests.python.support.receiver import Delivery, Receiver
from tests.python.support.served import Served

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

SECRET = b"a secret of thirty-two bytes...."
ENCODED = "whsec_" + base64.b64encode(SECRET).decode()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served("playbook", webhook_allow_private=True, environment={"HITL_WEBHOOK_SECRET": ENCODED}) as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def verify(delivery: Delivery) -> None:
    """As Standard Webhooks says a receiver does."""
    signed = b".".join(
        (delivery.headers["webhook-id"].encode(), delivery.headers["webhook-timestamp"].encode(), delivery.content)
    )
    expected = "v1," + base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    assert expected in delivery.headers["webhook-signature"].split()
    assert abs(time.time() - int(delivery.headers["webhook-timestamp"])) < 300


def test_told_when_the_turn_is_done(server: Served, receiver: Receiver) -> None:
    api = server.api
    session_id = api.create()
    api.run(session_id, "echo", "hi", webhook={"url": receiver.url})
    delivery = receiver.next()
    assert delivery.path == "/hook"
    assert delivery.headers["content-type"].split(";")[0] == "application/json"
    assert "authorization" not in delivery.headers
    body = delivery.body
    assert (body["session_id"], body["status"]) == (session_id, "idle")
    assert body["response"] == {"role": "assistant", "content": '"hi"'}
    assert not {"error", "messages", "interrupts"} & body.keys()
    verify(delivery)


def test_told_when_the_turn_failed(server: Served, receiver: Receiver) -> None:
    session_id = server.api.create()
    server.api.run(session_id, "fail", "broken", webhook={"url": receiver.url})
    body = receiver.next().body
    assert (body["session_id"], body["status"], body["error"]) == (session_id, "error", "ValueError: broken")
    assert "response" not in body


def test_a_token_and_the_messages_when_asked_for(server: Served, receiver: Receiver) -> None:
    webhook = {"url": receiver.url, "token": "t0k", "include_messages": True}
    server.api.run(server.api.create(), "echo", 1, webhook=webhook)
    delivery = receiver.next()
    assert delivery.headers["authorization"] == "Bearer t0k"
    assert delivery.body["messages"] == [{"role": "user", "content": "echo 1"}, {"role": "assistant", "content": "1"}]


def test_not_told_of_questions_unless_asked_for(server: Served, receiver: Receiver) -> None:
    api = server.api
    session_id = api.create()
    session = api.run(session_id, "ask", {"type": "question"}, webhook={"url": receiver.url})
    api.resume(session_id, session["interrupts"][0]["interrupt_id"], 1)
    assert receiver.next().body["status"] == "idle"
    assert receiver.is_empty


def test_told_of_questions_when_asked_for(server: Served, receiver: Receiver) -> None:
    api = server.api
    session_id = api.create()
    webhook = {"url": receiver.url, "events": ["interrupted"]}
    session = api.run(session_id, "ask", {"type": "question"}, webhook=webhook)
    body = receiver.next().body
    assert (body["session_id"], body["status"]) == (session_id, "interrupted")
    api.resume(session_id, session["interrupts"][0]["interrupt_id"], 1)
    api.wait(session_id)
    assert receiver.is_empty


@pytest.mark.parametrize("status", [500, 503, 429])
def test_tried_again_with_the_same_id_until_it_is_taken(server: Served, status: int) -> None:
    with Receiver(status, status) as receiver:
        server.api.run(server.api.create(), "echo", 1, webhook={"url": receiver.url})
        deliveries = [receiver.next() for _ in range(3)]
    assert len({delivery.headers["webhook-id"] for delivery in deliveries}) == 1
    assert len({delivery.content for delivery in deliveries}) == 1
    for delivery in deliveries:
        verify(delivery)


def test_a_receiver_that_is_away_does_not_hold_the_turn_up(server: Served) -> None:
    with Receiver() as receiver:
        url = receiver.url
    assert server.api.run(server.api.create(), "echo", 1, webhook={"url": url})["status"] == "idle"


def test_a_redirect_is_not_followed(server: Served, receiver: Receiver) -> None:
    """It could lead where the URL itself may not."""
    with Receiver(302, location=receiver.url) as first:
        server.api.run(server.api.create(), "echo", 1, webhook={"url": first.url})
        first.next()
        first.next()  # tried again in its own place
    assert receiver.is_empty


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://localhost:9/",
        "http://[::1]:9/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://172.16.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0.0.0.0/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://100.64.0.1/",
        "http://user@127.0.0.1/",
    ],
)
def test_a_private_address_is_refused(api: Api, url: str) -> None:
    session_id = api.create()
    refusal = problem(api.send(session_id, "echo 1", webhook={"url": url}), 422)
    assert "webhook" in refusal["errors"][0]["loc"]
    assert api.session(session_id)["status"] == "idle"


@pytest.mark.parametrize("events", ["interrupted", ["interupted"], [1], ["idle", "idle", None]])
def test_events_that_are_none_are_refused(server: Served, receiver: Receiver, events: Any) -> None:
    session_id = server.api.create()
    problem(server.api.send(session_id, "echo 1", webhook={"url": receiver.url, "events": events}), 422)


def test_a_turn_is_told_of_once(serve: Serve, receiver: Receiver) -> None:
    api = serve(webhook_allow_private=True).api
    session_id = api.create()
    api.run(session_id, "echo", 1, webhook={"url": receiver.url})
    receiver.next()
    # The webhook was of that turn, not of the session.
    api.run(session_id, "echo", 2)
    other = api.create()
    api.run(other, "echo", 3, webhook={"url": receiver.url})
    assert receiver.next().body["session_id"] == other
