"""Events of steps: what models said and what tools did, out of the journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api
from tests.python.support.event_stream import Sent, Stream, listen

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

Json = dict[str, Any]


@pytest.fixture
def puppets(shared_servers: Any, isolation: str) -> Api:
    """The agent that calls the tools it is told to, in both isolations."""
    api: Api = shared_servers.get("puppet", isolation).api
    return api


def call(name: str, **args: Any) -> Json:
    return {"name": name, "args": args}


def names(events: list[Sent]) -> list[str]:
    return [event.event for event in events]


def only(events: list[Sent], name: str) -> Json:
    [found] = [event.data for event in events if event.event == name]
    return found


def numbered(events: list[Sent]) -> list[Sent]:
    """Those with an id of their own."""
    before = ["", *(event.id for event in events)]
    return [event for event, last in zip(events, before, strict=False) if event.id != last]


def test_a_tool_at_work_and_what_models_say(puppets: Api, tmp_path: Path) -> None:
    session_id, ledger = puppets.create(), str(tmp_path / "ledger")
    with listen(puppets, f"/sessions/{session_id}/events") as stream:
        puppets.send(session_id, json.dumps([[call("note", ledger=ledger, text="one")]]))
        events = stream.until("session.idle")
    assert names(events) == [
        "session.running",
        "message.completed",
        "tool.started",
        "tool.finished",
        "message.completed",
        "session.idle",
    ]
    said, started, finished, last = (event.data for event in events[1:5])
    [asked] = said["message"]["tool_calls"]
    assert (said["message"]["role"], asked["function"]["name"]) == ("assistant", "note")
    assert started["args"] == json.loads(asked["function"]["arguments"]) == {"ledger": ledger, "text": "one"}
    for data in (started, finished):
        assert (data["tool_call_id"], data["name"]) == (asked["id"], "note")
    assert started["step_id"] == finished["step_id"] != said["step_id"]
    assert (finished["result"], finished.get("error")) == ("one", None)
    assert last["message"] == {"role": "assistant", "content": json.dumps(["one"])}
    for data in (said, started, finished, last):
        assert (data["session_id"], data["turn_id"]) == (session_id, said["turn_id"])
    # It may run again after a crash: nothing is stored before it is done.
    assert names(numbered(events)) == [name for name in names(events) if name != "tool.started"]
    with listen(puppets, f"/sessions/{session_id}/events", after=events[0].id) as stream:
        assert stream.until("session.idle") == numbered(events)[1:]


def test_a_tool_that_waits_for_a_yes_is_started_when_it_has_that(puppets: Api, tmp_path: Path) -> None:
    session_id, ledger = puppets.create(), str(tmp_path / "ledger")
    with listen(puppets, f"/sessions/{session_id}/events") as stream:
        puppets.send(session_id, json.dumps([[call("charge", ledger=ledger, cents=100)]]))
        events = stream.until("session.interrupted")
        assert names(events) == ["session.running", "message.completed", "interrupt.created", "session.interrupted"]
        edited = {"ledger": ledger, "cents": 7}
        puppets.resume(session_id, events[2].data["interrupt_id"], {"type": "edit", "args": edited})
        events = stream.until("session.idle")
    assert names(events) == [
        "interrupt.resolved",
        "session.running",
        "tool.started",
        "tool.finished",
        "message.completed",
        "session.idle",
    ]
    assert numbered(events) == events
    assert only(events, "tool.started")["args"] == edited
    assert only(events, "tool.finished")["result"] == "charged 7"


def test_a_tool_that_nobody_lets_run_is_neither_started_nor_finished(puppet: Api, tmp_path: Path) -> None:
    session_id = puppet.create()
    with listen(puppet, f"/sessions/{session_id}/events") as stream:
        calls = [call("charge", ledger=str(tmp_path / "ledger"), cents=1), call("there_is_no_such_tool")]
        puppet.send(session_id, json.dumps([calls]))
        created = stream.until("interrupt.created")[-1]
        puppet.resume(session_id, created.data["interrupt_id"], {"type": "reject"})
        stream.until("session.idle")
    assert not [event.event for event in stream.seen if event.event.startswith("tool.")]


def test_a_tool_that_fails_says_with_what(puppet: Api, tmp_path: Path) -> None:
    session_id = puppet.create()
    with listen(puppet, f"/sessions/{session_id}/events") as stream:
        puppet.send(session_id, json.dumps([[call("note", ledger=str(tmp_path / "no" / "ledger"), text="x")]]))
        finished = only(stream.until("session.idle"), "tool.finished")
    assert "result" not in finished
    assert finished["error"].startswith("FileNotFoundError: ")


def test_what_is_long_is_shortened(puppet: Api, tmp_path: Path) -> None:
    session_id, text = puppet.create(), "x" * 66_000
    with listen(puppet, f"/sessions/{session_id}/events") as stream:
        puppet.send(session_id, json.dumps([[call("note", ledger=str(tmp_path / "ledger"), text=text)]]))
        events = stream.until("session.idle")
    assert all(event.data.get("shortened") for event in events[1:5]), names(events)
    assert len(only(events, "tool.finished")["result"]) == 65_536
    assert len(only(events, "tool.started")["args"].encode()) <= 16_384
    [asked] = events[1].data["message"]["tool_calls"]
    assert asked["function"]["name"] == "note"
    assert all(len(json.dumps(event.data, ensure_ascii=False).encode()) < 70_000 for event in events)


def steps_of(stream: Stream, session_id: str) -> list[Sent]:
    return [event for event in stream.until("session.idle") if event.data["session_id"] == session_id]


def test_each_is_told_once_and_in_its_place_whatever_dies(serve: Serve, store: str, tmp_path: Path) -> None:
    first = serve("puppet", store=store)
    session_id, ledger = first.api.create(), str(tmp_path / "ledger")
    rounds = [[call("note", ledger=ledger, text="one")], [call("charge", ledger=ledger, cents=1)]]
    with listen(first.api, "/events") as stream:
        first.api.send(session_id, json.dumps(rounds))
        events = stream.until("session.interrupted")
    first.kill()
    second = serve("puppet", store=store)
    asked = only(events, "interrupt.created")
    with listen(second.api, "/events", after=events[-1].id) as stream:
        second.api.resume(session_id, asked["interrupt_id"], {"approved": True})
        events += stream.until("session.idle")
    second.kill()
    third = serve("puppet", store=store)
    stored = numbered(events)
    assert names(stored) == [
        "session.running",
        "message.completed",
        "tool.finished",
        "message.completed",
        "interrupt.created",
        "session.interrupted",
        "interrupt.resolved",
        "session.running",
        "tool.started",
        "tool.finished",
        "message.completed",
        "session.idle",
    ]
    for place, event in enumerate(stored[:-1]):
        for path in ("/events", f"/sessions/{session_id}/events"):
            with listen(third.api, path, after=event.id) as stream:
                later = steps_of(stream, session_id)
                assert [(it.id, it.event) for it in later] == [(it.id, it.event) for it in stored[place + 1 :]]
