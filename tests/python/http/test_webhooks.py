"""Webhooks: what is sent, to whom, signed how, and tried again."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api, ok, problem
from tests.python.support.receiver import Delivery, Receiver
from tests.python.support.served import ROOT, Served, clean_environment
from tests.python.support.waiting import eventually

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


def secret_of(url: str) -> bytes:
    """The secret of a receiver that a client has named: made from the server's and the address."""
    return hmac.new(SECRET, url.encode(), hashlib.sha256).digest()


def is_signed(delivery: Delivery, secret: bytes) -> bool:
    """As Standard Webhooks says a receiver finds out."""
    signed = b".".join(
        (delivery.headers["webhook-id"].encode(), delivery.headers["webhook-timestamp"].encode(), delivery.content)
    )
    expected = "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert abs(time.time() - int(delivery.headers["webhook-timestamp"])) < 300
    return expected in delivery.headers["webhook-signature"].split()


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
    assert is_signed(delivery, secret_of(receiver.url))


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
        assert is_signed(delivery, secret_of(receiver.url))


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


def webhook_of(receiver: Receiver, *events: str) -> dict[str, Any]:
    return {"url": receiver.url, "events": list(events)}


def test_a_session_is_told_of_for_as_long_as_it_lives(server: Served, receiver: Receiver) -> None:
    api = server.api
    created = api.post("/sessions", {"webhook": webhook_of(receiver, "interrupt.created", "idle")}).json()
    session_id = created["session_id"]
    session = api.run(session_id, "ask", {"type": "question"})
    record = session["interrupts"][0]
    delivery = receiver.next()
    assert is_signed(delivery, secret_of(receiver.url))
    body = delivery.body
    assert (body["type"], body["data"]) == ("interrupt.created", record)
    assert body["timestamp"] == record["created_at"]
    api.resume(session_id, record["interrupt_id"], 1)
    assert receiver.next().body["status"] == "idle"
    api.run(session_id, "echo", 2)
    assert receiver.next().body["response"]["content"] == "2"


def test_a_session_with_a_webhook_that_must_not_be_called_is_not_made(api: Api) -> None:
    before = len(ok(api.get("/sessions", limit=1000)))
    refusal = problem(api.post("/sessions", {"webhook": {"url": "http://127.0.0.1/"}}), 422)
    assert (refusal["code"], refusal["errors"][0]["loc"]) == ("webhook_refused", ["body", "webhook", "url"])
    problem(api.post("/sessions", {"webhook": {"url": "https://example.com", "events": ["interrupt.creatd"]}}), 422)
    assert len(ok(api.get("/sessions", limit=1000))) == before


def test_a_server_tells_of_every_session(serve: Serve, receiver: Receiver) -> None:
    api = serve(webhook_allow_private=True, webhook=f"{receiver.url},interrupt.created,interrupt.resolved").api
    for _ in range(2):
        session_id = api.create()
        record = api.run(session_id, "ask", {"type": "question"})["interrupts"][0]
        api.resume(session_id, record["interrupt_id"], 1)
        told = [receiver.next().body for _ in range(2)]
        assert [body["type"] for body in told] == ["interrupt.created", "interrupt.resolved"]
        assert {body["data"]["interrupt_id"] for body in told} == {record["interrupt_id"]}


def test_a_receiver_that_a_client_names_gets_nothing_that_verifies_at_the_operators(receiver: Receiver) -> None:
    with Receiver() as operators:
        environment = {"HITL_WEBHOOK_SECRET": ENCODED}
        options = {"webhook_allow_private": True, "webhook": f"{operators.url},idle"}
        with Served("playbook", environment=environment, **options) as server:
            server.api.run(server.api.create(), "echo", 1, webhook={"url": receiver.url})
            named, own = receiver.next(), operators.next()
            assert is_signed(own, SECRET)
            assert not is_signed(named, SECRET)
            assert is_signed(named, secret_of(receiver.url))
            # What goes to the operator's address is the operator's, whoever has named it.
            server.api.run(server.api.create(), "echo", 2, webhook={"url": operators.url})
            assert is_signed(operators.next(), SECRET)


@pytest.mark.parametrize("webhook", ["", ",idle", "example.com", "http://127.0.0.1/", "https://example.com,creatd"])
def test_a_server_does_not_start_with_a_webhook_that_is_none(webhook: str) -> None:
    command = Served.command("playbook", {"port": 0, "store": "memory", "webhook": webhook})
    ended = subprocess.run(
        command, check=False, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 2
    assert "--webhook" in ended.stderr
    assert "hint:" in ended.stderr


def test_what_still_waits_is_told_again(serve: Serve, receiver: Receiver) -> None:
    url = f"{receiver.url},interrupt.created,interrupt.resolved"
    api = serve(webhook_allow_private=True, webhook=url, remind_after=0.2).api
    session_id = api.create()
    record = api.run(session_id, "ask", {"type": "question"})["interrupts"][0]
    first, again, third = (receiver.next() for _ in range(3))
    assert "reminder" not in first.body
    assert (again.body["reminder"], third.body["reminder"]) == (1, 2)
    assert first.body["data"] == again.body["data"] == record
    ids = [delivery.headers["webhook-id"] for delivery in (first, again, third)]
    assert ids[1:] == [f"{ids[0]}_r1", f"{ids[0]}_r2"]
    api.resume(session_id, record["interrupt_id"], 1)
    while (delivery := receiver.next()).body["type"] != "interrupt.resolved":
        assert delivery.body["reminder"] > 2


def test_what_was_given_up_is_listed_and_told_on_request(serve: Serve) -> None:
    api = serve(webhook_allow_private=True, webhook_retries=0).api
    session_id = api.create()
    with Receiver(500) as receiver:
        api.run(session_id, "echo", 1, webhook={"url": f"{receiver.url}?key=secret", "token": "t0k"})
        lost = receiver.next()
        eventually(lambda: len(ok(api.get("/webhooks", status="failed", session_id=session_id))), 1)
        (notice,) = ok(api.get("/webhooks", status="failed"))
        assert notice["notice_id"] == lost.headers["webhook-id"]
        assert (notice["event"], notice["attempts"], notice["reminder"]) == ("session.idle", 1, 0)
        assert notice["last_error"] == "it answered 500 Internal Server Error"
        assert notice["url"] == receiver.url
        assert not re.search("secret|t0k", str(notice))
        retried = api.post(f"/webhooks/{notice['notice_id']}/retry")
        assert (retried.status_code, retried.json()["status"]) == (202, "pending")
        again = receiver.next()
    assert (again.headers["webhook-id"], again.content) == (lost.headers["webhook-id"], lost.content)
    eventually(lambda: ok(api.get("/webhooks"))[0]["status"], "delivered")
    assert problem(api.post(f"/webhooks/{notice['notice_id']}/retry"), 409)["code"] == "notice_not_failed"
    assert problem(api.post("/webhooks/msg_1/retry"), 404)["code"] == "unknown_notice"
    for query in ({"status": "lost"}, {"stauts": "failed"}, {"session_id": "1"}, {"limit": "0"}):
        problem(api.get("/webhooks", **query), 422)


def test_what_was_not_told_is_told_by_the_next_server(serve: Serve, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Receiver() as receiver:
        url = receiver.url
    first = serve(webhook_allow_private=True, store=store)
    session_id = first.api.create()
    first.api.run(session_id, "echo", 1, webhook={"url": url})
    first.kill()
    with Receiver(port=int(url.split(":")[2].partition("/")[0])) as receiver:
        serve(webhook_allow_private=True, store=store)
        assert receiver.next().body["session_id"] == session_id


@pytest.mark.parametrize("name", ["localhost.", "LOCALHOST", "foo.localhost"])
def test_a_name_that_leads_to_this_machine_is_refused(api: Api, name: str) -> None:
    problem(api.send(api.create(), "echo 1", webhook={"url": f"http://{name}:9/"}), 422)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fec0::1]/",
        "http://example.com@127.0.0.1/",
        "http://user:password@[::1]/",
        "http://127.0.0.1#@example.com/",
        "http://127.0.0.1\\@example.com/",
        "http://0177.0.0.1/",
    ],
)
def test_an_address_in_disguise_is_refused(api: Api, url: str) -> None:
    assert problem(api.send(api.create(), "echo 1", webhook={"url": url}), 422)["code"] == "webhook_refused"
