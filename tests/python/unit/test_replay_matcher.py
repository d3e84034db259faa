"""``hitl._core.Replay`` as Python sees it; what it decides is tested in src/domain/replay."""

from __future__ import annotations

from typing import Any

import pytest

from hitl._core import Replay
from hitl.errors import ReplayMismatch


def identity(path: str, *, kind: str = "tool", name: str = "work", **arguments: str) -> dict[str, Any]:
    return {"path": path, "kind": kind, "name": name, "location": "agent.py:3", "arguments": arguments}


def journal(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    start = {"entry": "start", "code": "aaaa", "python": "3.11"}
    return [{"at": 1_000 + index, **entry} for index, entry in enumerate((start, *entries))]


def test_every_ask_and_delivery_is_a_tuple_that_begins_with_a_word() -> None:
    replay = Replay(
        journal(
            {"entry": "step", "step": identity("0#1"), "result": {"value": 1}},
            {"entry": "ask", "step": identity("0#2/0#1", kind="interrupt"), "interrupt_id": "i1"},
            {"entry": "intent", "step": identity("0#3")},
            {"entry": "timer", "path": "0@1", "due": 5},
            {"entry": "wakes", "wakes": [{"after": 4, "task": "0.1", "location": None}]},
            {"entry": "pause", "timers": []},
            {"entry": "answer", "interrupt_id": "i1", "value": None},
        ),
        "aaaa",
    )
    assert replay.next() == ("wait",)
    assert replay.ask(identity("0#1"), False) == ("recorded",)
    assert replay.next() == ("deliver", 1, "0#1")
    assert replay.ask(identity("0#2"), False) == ("body",)
    assert replay.ask(identity("0#2/0#1", kind="interrupt"), False) == ("interrupt", "i1")
    assert replay.ask(identity("0#3"), True) == ("intent", 1_003)
    assert replay.intents("0#3") == [1_003]
    assert replay.ask(identity("0#4"), False) == ("live",)
    replay.arm("0@1")
    assert replay.next() == ("deliver", 4, "0@1")
    assert replay.next() == ("wake", "0.1")
    replay.woken()
    assert not replay.done
    assert replay.next() == ("deliver", 7, "0#2/0#1")
    assert replay.next() == ("end",)
    assert replay.done
    assert (replay.warnings, replay.orphans(), replay.returned(), replay.stuck([])) == ([], [], None, None)


def test_results_and_answers_are_not_looked_at() -> None:
    unreadable = object()
    entries = journal({"entry": "step", "step": identity("0#1"), "result": unreadable})
    assert Replay(entries, "aaaa").ask(identity("0#1"), False) == ("recorded",)


def test_a_mismatch_is_raised_by_an_ask_and_returned_by_the_rest() -> None:
    entries = journal({"entry": "step", "step": identity("0#1"), "result": {"value": 1}})
    with pytest.raises(ReplayMismatch, match=r'recorded:  tool "work" .*\n  attempted: tool "other"') as raised:
        Replay(entries, "bbbb").ask(identity("0#1", name="other"), False)
    assert raised.value.code == "replay_mismatch"
    for mismatch in (Replay(entries, "bbbb").stuck([identity("~new")]), Replay(entries, "bbbb").returned()):
        assert isinstance(mismatch, ReplayMismatch)
        assert "\n\nhint: deploy code aaaa again" in str(mismatch)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"entry": "nap"}, r"^journal\[1\]: there is no entry `nap`$"),
        ({"entry": "step"}, r"^journal\[1\]: an entry `step` has no `step`$"),
        ({"entry": "step", "step": {"path": "0#1"}}, r"^journal\[1\]: missing field `kind`$"),
        ({"entry": "answer", "interrupt_id": "i9"}, r"^journal\[1\]: the interrupt i9 has not been asked$"),
    ],
)
def test_a_malformed_journal_names_its_entry(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Replay(journal(entry), "aaaa")


def test_our_own_bugs_are_value_errors() -> None:
    replay = Replay(journal(), "aaaa")
    replay.ask(identity("0#1"), False)
    replay.arm("0@1")
    with pytest.raises(ValueError, match="asked for before"):
        replay.ask(identity("0#1"), False)
    with pytest.raises(ValueError, match="armed before"):
        replay.arm("0@1")
    with pytest.raises(ValueError, match="no wake"):
        replay.woken()
    with pytest.raises(ValueError, match="^step: missing field `name`"):
        replay.ask({"path": "0#2", "kind": "tool"}, False)
