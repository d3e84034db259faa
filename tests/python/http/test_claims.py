"""Claims, snoozes, what is searched for, and the journal: through the client, against the real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from hitl.client import Accepted, Client, Conflict
from tests.python.support.api import Api, ok

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

ClientOf = Callable[[Api], Client]


@pytest.fixture
def client_of() -> Iterator[Callable[[Api], Client]]:
    """A client of a server, for as long as the test."""
    with ExitStack() as clients:
        yield lambda api: clients.enter_context(Client(str(api.http.base_url)))


@pytest.fixture
def client(api: Api, client_of: ClientOf) -> Client:
    return client_of(api)


def test_who_has_claimed_it_answers_it(api: Api, client: Client) -> None:
    _, interrupt_id = api.ask({"type": "question"})
    claimed = client.claim(interrupt_id, name="ada", seconds=3600)
    assert claimed.claimed_by == "ada"
    assert claimed.created_at is not None
    assert claimed.claimed_until is not None
    assert claimed.claimed_until > claimed.created_at
    for refused in (lambda: client.claim(interrupt_id, name="bob"), lambda: client.answer(interrupt_id, 1)):
        with pytest.raises(Conflict, match="claimed by ada") as conflict:
            refused()
        assert conflict.value.code == "interrupt_claimed"
    assert client.answer(interrupt_id, 1, name="ada").replayed is False
    assert client.get_interrupt(interrupt_id).claimed_by is None


@pytest.mark.parametrize("several", [False, True])
def test_who_has_claimed_it_answers_it_by_its_session_too(api: Api, client: Client, several: bool) -> None:
    session, interrupt_id = api.ask({"type": "question"})

    def answer(**by: str) -> Accepted:
        if several:
            return client.resume_many(session, {interrupt_id: 1}, **by)
        return client.resume(session, interrupt_id, 1, **by)

    client.claim(interrupt_id, name="ada")
    with pytest.raises(Conflict, match="claimed by ada"):
        answer()
    assert answer(name="ada").replayed is False


def test_what_is_released_is_anybodys(api: Api, client: Client) -> None:
    _, interrupt_id = api.ask({"type": "question"})
    client.claim(interrupt_id, name="ada")
    with pytest.raises(Conflict):
        client.release(interrupt_id)
    assert client.release(interrupt_id, name="ada").claimed_by is None
    client.answer(interrupt_id, 1)


def test_a_claim_and_a_snooze_outlive_the_server(serve: Serve, store: str, client_of: ClientOf) -> None:
    first = serve(store=store)
    _, interrupt_id = first.api.ask({"type": "question"})
    client_of(first.api).claim(interrupt_id, name="ada")
    held = client_of(first.api).snooze(interrupt_id, 3600, name="bob")
    first.kill()
    second = serve(store=store)
    assert client_of(second.api).get_interrupt(interrupt_id) == held


def test_what_is_snoozed_is_listed_apart_and_still_answered(serve: Serve, client_of: ClientOf) -> None:
    api = serve().api
    client = client_of(api)
    _, late = api.ask({"type": "question"})
    _, now = api.ask({"type": "question"})
    client.snooze(late, 3600)
    assert [it.id for it in client.list_interrupts(snoozed=True)] == [late]
    assert [it.id for it in client.list_interrupts(snoozed=False)] == [now]
    client.answer(late, 1)
    assert [it.id for it in client.list_interrupts(snoozed=True)] == []
    client.snooze(now, 3600)
    assert client.unsnooze(now).snoozed_until is None


def test_listeners_hear_of_it(api: Api, client: Client) -> None:
    session_id, interrupt_id = api.ask({"type": "question"})
    with client.events(session_id) as events:
        client.claim(interrupt_id, name="ada")
        client.release(interrupt_id, name="ada")
        client.snooze(interrupt_id, 60)
        client.unsnooze(interrupt_id)
        stream = iter(events)
        heard = [next(stream) for _ in range(4)]
    names = ["interrupt.claimed", "interrupt.released", "interrupt.snoozed", "interrupt.unsnoozed"]
    assert [event.type for event in heard] == names
    assert {event.interrupt_id for event in heard} == {interrupt_id}


def test_what_is_said_is_found(serve: Serve, client_of: ClientOf) -> None:
    api = serve().api
    client = client_of(api)
    _, first = api.ask({"type": "question", "about": ["the Öresund bridge"]})
    _, second = api.ask({"type": "question"}, message="100 % sure?")
    found = {text: [it.id for it in client.list_interrupts(q=text)] for text in ("öresund", "100 %", "%", "sund_b")}
    assert found == {"öresund": [first], "100 %": [second], "%": [second], "sund_b": []}


def test_the_journal_tells_what_happened_and_no_more_than_the_messages(api: Api, client: Client) -> None:
    session_id, interrupt_id = api.ask({"type": "question"})
    client.answer(interrupt_id, {"yes": True})
    api.wait(session_id)
    entries = list(client.get_journal(session_id))
    assert [entry.index for entry in entries] == list(range(len(entries)))
    assert (entries[0].entry, entries[-1].entry) == ("start", "end")
    (asked,) = (entry for entry in entries if entry.entry == "ask")
    assert (asked.kind, asked.interrupt_id) == ("interrupt", interrupt_id)
    assert asked.location is not None
    assert ".py:" in asked.location
    (answer,) = (entry for entry in entries if entry.entry == "answer")
    assert answer.result == {"yes": True}
    page = client.get_journal(session_id, limit=1)
    assert [entry.index for entry in client.get_journal(session_id, limit=1, cursor=page.next_cursor)] == [1]
    assert ok(api.get(f"/sessions/{session_id}/journal")) == [entry.raw for entry in entries]
