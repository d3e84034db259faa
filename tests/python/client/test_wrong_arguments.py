"""What a caller gives by mistake is told by its name before anything is sent, in the words of the caller."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

import httpx2
import pytest
from pydantic import BaseModel

from hitl.client import Client
from tests.python.client.fake_server import FakeServer

Connect = Callable[..., Any]
Mistake = Callable[[Any], Any]

OF_NO_CLOCK = datetime.fromisoformat("2030-01-02T03:00:00")
ID = "01a22840-7d7c-7792-b057-23a603f119c2"

MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no id": (lambda it: it.approve(None), "interrupt_id is a str, got NoneType"),
    "an empty id": (lambda it: it.delete_session(""), "session_id is '', which is the id of nothing"),
    "an id that leads elsewhere": (
        lambda it: it.revoke_key(".."),
        "key_id is '..', which is the id of nothing",
    ),
    "always for yes": (lambda it: it.approve(ID, always="no"), "always is True or False, got 'no'"),
    "always for no": (lambda it: it.reject(ID, always=1), "always is True or False, got 1"),
    "arguments as text": (
        lambda it: it.edit(ID, '{"path": "x"}'),
        "args is a dict with all arguments of the tool",
    ),
    "a number to say": (
        lambda it: it.send_message(ID, 3),
        "a message is a str, a ChatMessage or a dict, got int",
    ),
    "nothing to ask": (
        lambda it: it.ask(ID, None),
        "a message is a str, a ChatMessage or a dict, got NoneType",
    ),
    "a webhook as text": (lambda it: it.ask(ID, "go", webhook="http://x"), "webhook is a dict, got 'http://x'"),
    "one rule": (lambda it: it.create_session(rules={"name": "dry-run"}), "rules is a list, got {'name': 'dry-run'}"),
    "a rule as text": (lambda it: it.create_session(rules=["dry-run"]), "each of rules is a dict, got 'dry-run'"),
    "answers without ids": (lambda it: it.resume_many(ID, [True]), "answers is a dict, got [True]"),
    "a number as key": (lambda it: it.ask(ID, "go", idempotency_key=7), "idempotency_key is a str, got 7"),
    "snoozed for yes": (lambda it: it.list_interrupts(snoozed="no"), "snoozed is True or False, got 'no'"),
    "a state of one text": (lambda it: it.create_session("hello"), "state is a list, got 'hello'"),
    "one group": (lambda it: it.create_key("ada", ["read"], "finance"), "groups is a list, got 'finance'"),
    "one scope": (lambda it: it.create_key("ada", "read"), "scopes is a list, got 'read'"),
    "a time-out as text": (lambda it: it.wait(ID, "5"), "timeout is a number of seconds, got '5'"),
    "a time-out of nothing": (
        lambda it: it.get_session(ID, timeout=30),
        "timeout is how long get_session(wait=True) waits\n\nhint: wait=True, or no timeout",
    ),
    "a time of no clock": (
        lambda it: it.list_interrupts(created_after=OF_NO_CLOCK),
        "created_after is a datetime without a time zone: 2030-01-02T03:00:00\n\nhint: datetime.now(UTC), or .astime",
    ),
    "a time of no clock in the audit": (
        lambda it: it.list_audit(after=OF_NO_CLOCK),
        "after is a datetime without a time zone: 2030-01-02T03:00:00",
    ),
    "a day for a time": (
        lambda it: it.list_audit(after=OF_NO_CLOCK.date()),
        "after is a datetime or a str, got datetime",
    ),
    "a time-out in the past": (
        lambda it: it.wait(ID, -1),
        "timeout is a number of seconds of 0 or more, got -1",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_wrong_argument_is_named_and_nothing_is_sent(
    connect: Connect, server: FakeServer, mistake: str
) -> None:
    make, text = MISTAKES[mistake]
    async with connect() as client:
        with pytest.raises((TypeError, ValueError), match=re.escape(text)):
            await make(client)
    assert server.sent("", "") == []


async def test_who_gives_the_record_for_its_id_is_told_where_the_id_is(connect: Connect) -> None:
    async with connect() as client:
        session = await client.create_session()
        session = await client.ask(session.session_id, "ask /tmp/x")
        (interrupt,) = session.interrupts
        with pytest.raises(TypeError, match=r"interrupt_id is a str, got Interrupt\n\nhint: give its \.interrupt_id"):
            await client.approve(interrupt)
        with pytest.raises(TypeError, match=r"session_id is a str, got Session\n\nhint: give its \.session_id"):
            await client.wait(session)
        with pytest.raises(TypeError, match=r"session_id is a str or a number, got Session\n\nhint: give its"):
            await client.list_interrupts(session_id=session)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": None}, "the URL of a server is a str, got NoneType; it looks like http://127.0.0.1:8000"),
        ({"api_key": 3}, "the API key is a str, got int"),
        ({"timeout": "5"}, "timeout is a number of seconds, got '5'"),
        ({"timeout": None}, "timeout is a number of seconds, got None"),
    ],
)
def test_what_a_client_is_made_of_is_looked_at_when_it_is_made(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        Client(**{"url": "http://127.0.0.1:8000", **options})


class Told(BaseModel):
    url: str


async def test_what_is_as_good_as_what_is_wanted_is_taken(connect: Connect, server: FakeServer) -> None:
    Client(httpx2.URL("http://127.0.0.1:8000"), timeout=Fraction(1, 2)).close()
    async with connect() as client:
        session = await client.create_session(webhook=Told(url="https://example.com/told"))
        await client.list_interrupts(session_id=UUID(session.session_id))
        assert (await client.get_session(UUID(session.session_id))).session_id == session.session_id
