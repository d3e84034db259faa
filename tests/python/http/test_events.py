"""GET /sessions/{id}/events and GET /events."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from hitl.client import Client
from tests.python.support.api import Api, problem
from tests.python.support.event_stream import Stream, listen

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve


def names(stream: Stream, until: str) -> list[str]:
    return [event.event for event in stream.until(until)]


def test_what_happens_in_a_session(either_api: Api) -> None:
    session_id = either_api.create()
    with listen(either_api, f"/sessions/{session_id}/events") as stream:
        either_api.play(session_id, "ask", {"type": "question"})
        assert names(stream, "session.interrupted") == ["session.running", "interrupt.created", "session.interrupted"]
        created = stream.seen[1].data
        assert created["session_id"] == session_id
        either_api.resume(session_id, created["interrupt_id"], 1)
        assert names(stream, "session.idle") == ["interrupt.resolved", "session.running", "session.idle"]
        assert stream.seen[3].data["interrupt_id"] == created["interrupt_id"]
        assert all(event.data["session_id"] == session_id for event in stream.seen)


def test_errors_and_cancellations(api: Api) -> None:
    session_id = api.create()
    with listen(api, f"/sessions/{session_id}/events") as stream:
        api.play(session_id, "fail", "broken")
        assert names(stream, "session.error") == ["session.running", "session.error"]
        api.play(session_id, "ask", {"type": "question"})
        stream.until("session.interrupted")
        api.post(f"/sessions/{session_id}/cancel")
        assert names(stream, "session.error") == ["interrupt.cancelled", "session.error"]


def test_only_the_sessions_own(api: Api) -> None:
    mine, other = api.create(), api.create()
    with listen(api, f"/sessions/{mine}/events") as stream:
        api.run(other, "echo", 1)
        api.play(mine, "echo", 2)
        assert names(stream, "session.idle") == ["session.running", "session.idle"]
        assert {event.data["session_id"] for event in stream.seen} == {mine}


def test_all_sessions_at_once(api: Api) -> None:
    with listen(api, "/events") as stream:
        ids = {api.create() for _ in range(3)}
        for session_id in ids:
            api.play(session_id, "echo", 1)
        done: set[str] = set()
        while not ids <= done:
            event = stream.next()
            if event.event == "session.idle":
                done.add(event.data["session_id"])


def test_an_event_does_not_come_before_the_state_it_tells_of(api: Api) -> None:
    session_id = api.create()
    with listen(api, f"/sessions/{session_id}/events") as stream:
        for number in range(10):
            api.play(session_id, "echo", number)
            stream.until("session.idle")
            assert api.session(session_id)["response"]["content"] == str(number)


def test_from_now_on_unless_told_otherwise(api: Api) -> None:
    session_id = api.create()
    api.run(session_id, "echo", 1)
    with listen(api, f"/sessions/{session_id}/events") as stream:
        api.play(session_id, "fail", "x")
        assert names(stream, "session.error") == ["session.running", "session.error"]


def test_after_the_last_event_that_was_seen(api: Api) -> None:
    session_id = api.create()
    with listen(api, f"/sessions/{session_id}/events") as stream:
        api.play(session_id, "echo", 1)
        running = stream.next()
    assert running.event == "session.running"
    api.wait(session_id)
    api.run(session_id, "echo", 2)
    for path in (f"/sessions/{session_id}/events", "/events"):
        with listen(api, path, after=running.id) as stream:
            own: list[str] = []
            while own.count("session.idle") < 2:
                event = stream.next()
                if event.data["session_id"] == session_id:
                    own.append(event.event)
            assert own == ["session.idle", "session.running", "session.idle"]


def test_every_id_is_a_place_to_go_on_from(api: Api) -> None:
    session_id = api.create()
    with listen(api, f"/sessions/{session_id}/events") as stream:
        for number in range(3):
            api.play(session_id, "echo", number)
            stream.until("session.idle")
        events = stream.seen
    assert len({event.id for event in events}) == len(events) == 6
    for position, event in enumerate(events[:-1]):
        with listen(api, f"/sessions/{session_id}/events", after=event.id) as stream:
            assert [stream.next().id for _ in events[position + 1 :]] == [later.id for later in events[position + 1 :]]


@pytest.mark.parametrize("of_one", [True, False], ids=["session", "all"])
def test_a_client_that_has_heard_nothing_misses_nothing_while_it_is_away(
    serve: Serve, store: str, of_one: bool
) -> None:
    first = serve(store=store)
    session_id = first.api.create()
    first.api.run(session_id, "echo", 1)
    with Client(first.url) as client, client.events(session_id if of_one else None) as events:
        first.stop()
        # At another address, so that the client is not there to hear it.
        second = serve(store=store)
        second.api.run(session_id, "fail", "x")
        second.stop()
        serve(store=store, port=urlsplit(first.url).port)
        told = list(itertools.islice(events, 3))
    assert [event.type for event in told] == ["reconnected", "session.running", "session.error"]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_after_the_last_event_that_was_seen_also_across_a_restart(serve: Serve, store: str, how: str) -> None:
    first = serve(store=store)
    session_id = first.api.create()
    with listen(first.api, f"/sessions/{session_id}/events") as stream:
        first.api.play(session_id, "echo", 1)
        running = stream.next()
        stream.until("session.idle")
    first.api.run(session_id, "fail", "x")
    first.kill() if how == "kill" else first.stop()
    second = serve(store=store)
    with listen(second.api, f"/sessions/{session_id}/events", after=running.id) as stream:
        assert names(stream, "session.error") == ["session.idle", "session.running", "session.error"]
        second.api.play(session_id, "echo", 2)
        assert names(stream, "session.idle") == ["session.running", "session.idle"]


def test_deltas_carry_what_the_model_says(puppet: Api) -> None:
    session_id = puppet.create()
    text = json.dumps([])
    with listen(puppet, f"/sessions/{session_id}/events") as stream:
        puppet.send(session_id, "[]")
        deltas = []
        while (event := stream.next()).event != "session.idle":
            if event.event == "message.delta":
                deltas.append(event.data)
    assert "".join(delta["delta"]["content"] for delta in deltas) == text
    for delta in deltas:
        assert delta["session_id"] == session_id
        assert isinstance(delta["step_id"], str)
        assert isinstance(delta["attempt"], int)


def test_a_deleted_session_ends_its_stream(api: Api) -> None:
    session_id = api.create()
    with listen(api, f"/sessions/{session_id}/events") as stream:
        api.delete(session_id)
        assert list(stream) == []


def test_whoever_comes_back_from_a_store_that_was_here_before_hears_what_happens_from_now_on(api: Api) -> None:
    session_id = api.create()
    api.run(session_id, "echo", 1)
    with listen(api, f"/sessions/{session_id}/events", after="999999999999999999") as stream:
        api.play(session_id, "echo", 2)
        assert names(stream, "session.idle") == ["session.running", "session.idle"]
        last = stream.seen[-1].id
    with listen(api, f"/sessions/{session_id}/events", after=last) as stream:
        api.play(session_id, "echo", 3)
        assert names(stream, "session.idle") == ["session.running", "session.idle"]


@pytest.mark.parametrize("last_event_id", ["garbage", "-1", "9" * 30])
def test_an_id_that_is_none_is_refused(api: Api, last_event_id: str) -> None:
    response = api.http.get("/events", headers={"last-event-id": last_event_id})
    problem(response, 422)


def test_an_unknown_parameter_is_refused(api: Api) -> None:
    problem(api.get("/events", colour="blue"), 422)
