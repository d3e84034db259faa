"""The common proof on a real server, where every answer goes through a replay of its turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.ext.kills import kill_and_go_on
from tests.python.ext.proof import (
    EDITED,
    LIST,
    REJECTED,
    WITHOUT_SERVERS,
    YES,
    A,
    B,
    Ledger,
    answer,
    approval_of,
    asked,
    inner,
    results,
    script,
    until_places_are_free,
)
from tests.python.support.api import Api, ok, problem
from tests.python.support.event_stream import listen
from tests.python.support.mcp_over_http import mcp_over_http
from tests.python.support.waiting import eventually


def test_two_gated_calls_are_answered_one_by_one_and_each_runs_when_it_is_answered(api: Api, ledger: Ledger) -> None:
    before = ledger.counts
    session_id, session = asked(api, script([LIST, A, B]), 2)
    until_places_are_free(api)
    assert ledger.since(before) == {"model": 1, "list .": 1}
    assert {each["agent"] for each in session["interrupts"]} == {"outer"}

    session = answer(api, session_id, approval_of(session, path="b"), YES, questions=1)
    eventually(lambda: ledger.since(before), {"model": 1, "list .": 1, "delete b": 1})
    session = answer(api, session_id, approval_of(session, path="a"), YES)

    assert results(session) == ["files of .", "deleted a", "deleted b"]
    assert ledger.since(before) == {"model": 2, "list .": 1, "delete a": 1, "delete b": 1}


def test_an_edit_runs_with_the_arguments_of_the_person_and_the_model_is_told(
    api: Api, framework: str, ledger: Ledger
) -> None:
    before = ledger.counts
    session_id, session = asked(api, script([A]), 1)
    wrong = api.resume(session_id, approval_of(session, path="a"), {"type": "edit", "args": {"path": 1}})
    problem(wrong, 422)
    session = answer(api, session_id, approval_of(session, path="a"), {"type": "edit", "args": {"path": "other"}})
    assert results(session) == ["deleted other"]
    assert ledger.since(before) == {"model": 2, "delete other": 1}
    told = [message.get("content") or "" for message in ok(api.get(f"/sessions/{session_id}/messages"))]
    assert any(EDITED[framework] in each for each in told)


def test_a_rejected_call_does_not_run_and_the_model_is_told_why(api: Api, framework: str, ledger: Ledger) -> None:
    before = ledger.counts
    session_id, session = asked(api, script([A, B]), 2)
    session = answer(api, session_id, approval_of(session, path="a"), {"type": "reject", "reason": "keep it"}, 1)
    session = answer(api, session_id, approval_of(session, path="b"), YES)
    assert results(session) == [REJECTED[framework], "deleted b"]
    assert ledger.since(before) == {"model": 2, "delete b": 1}


def test_the_audit_says_who_was_asked_what_and_what_ran(api: Api) -> None:
    session_id, session = asked(api, script([A, inner([B])]), 2)
    session = answer(api, session_id, approval_of(session, path="a"), {"type": "edit", "args": {"path": "other"}}, 1)
    answer(api, session_id, approval_of(session, path="b"), {"type": "reject", "reason": "keep it"})
    rows = ok(api.get("/audit", session_id=session_id))
    told = [(row["action"], *(row["details"].get(name) for name in ("agent", "tool", "args"))) for row in rows]
    outer, nested = ("outer", "delete_file", {"path": "a"}), ("inner", "delete_file", {"path": "b"})
    assert sorted(told, key=str) == sorted(
        [(what, *who) for what in ("asked", "decided") for who in (outer, nested)], key=str
    )
    decided = {row["details"]["agent"]: row["details"] for row in rows if row["action"] == "decided"}
    assert {name: (each["decision"], each.get("final_args")) for name, each in decided.items()} == {
        "outer": ("edit", {"path": "other"}),
        "inner": ("reject", None),
    }


def test_an_answer_in_the_place_of_a_tool_is_its_result(api: Api, ledger: Ledger) -> None:
    before = ledger.counts
    session_id, session = asked(api, script([A]), 1)
    session = answer(api, session_id, approval_of(session, path="a"), {"type": "respond", "message": "gone before"})
    assert results(session) == ["gone before"]
    assert ledger.since(before) == {"model": 2}


def test_listeners_are_told_of_each_message_and_call_once(api: Api) -> None:
    session_id = api.create()
    with listen(api, f"/sessions/{session_id}/events") as stream:
        assert api.send(session_id, script([LIST, A])).status_code == 202
        asked = stream.until("interrupt.created")[-1].data["interrupt_id"]
        # Whatever begins after the answer is told to who listens then, too.
        ok(api.resume(session_id, asked, YES))
        stream.until("session.idle")
    told = [(event.event, event.data) for event in stream.seen]
    said = [data["message"] for kind, data in told if kind == "message.completed"]
    calls = [call["function"]["name"] for message in said for call in message.get("tool_calls") or []]
    assert (len(said), calls) == (2, ["list_files", "delete_file"])
    started = {data["name"]: data["args"] for kind, data in told if kind == "tool.started"}
    assert started == {"list_files": {"folder": "."}, "delete_file": {"path": "a"}}
    finished = [data for kind, data in told if kind == "tool.finished"]
    assert sorted(data["name"] for data in finished) == ["delete_file", "list_files"]
    assert all(data["tool_call_id"] and data.get("result") and "error" not in data for data in finished)


def test_what_is_approved_for_always_is_not_asked_again_nor_of_another_agent(api: Api) -> None:
    session_id, session = asked(api, script([A], [B], [inner([A])]), 1)
    session = answer(api, session_id, approval_of(session, path="a"), {**YES, "always": True}, questions=1)
    (of_inner,) = session["interrupts"]
    assert of_inner["agent"] == "inner"
    session = answer(api, session_id, of_inner["interrupt_id"], YES)
    assert results(session) == ["deleted a", "deleted b", '["deleted a"]']


def test_a_wrong_answer_to_a_question_is_refused_and_changes_nothing(api: Api) -> None:
    session_id, session = asked(api, script([("pick_color", {})]), 1)
    (question,) = session["interrupts"]
    assert question["type"] == "color"
    problem(api.resume(session_id, question["interrupt_id"], {"hex": 7}), 422)
    assert api.session(session_id)["interrupts"] == [question]
    session = answer(api, session_id, question["interrupt_id"], {"hex": "#fff"})
    assert results(session) == ["{'hex': '#fff'}"]


def test_a_nested_agent_asks_beside_the_outer_one_and_does_nothing_twice(api: Api, ledger: Ledger) -> None:
    before = ledger.counts
    session_id, session = asked(api, script([B, inner([LIST, A])]), 2)
    assert {each["agent"] for each in session["interrupts"]} == {"outer", "inner"}
    session = answer(api, session_id, approval_of(session, path="a"), YES, questions=1)
    session = answer(api, session_id, approval_of(session, path="b"), YES)
    assert results(session) == ["deleted b", '["files of .", "deleted a"]']
    done = {"model": 4, "list .": 1, "delete a": 1, "delete b": 1, "consulted": 1}
    assert ledger.since(before) == done


def test_a_conversation_goes_on_over_several_turns(api: Api) -> None:
    session_id, session = asked(api, script([A]), 1)
    session = answer(api, session_id, approval_of(session, path="a"), YES)
    session = api.settled(session_id, script([LIST]), 0)
    assert results(session) == ["files of ."]
    messages = ok(api.get(f"/sessions/{session_id}/messages"))
    roles = ["user", "assistant", "tool", "assistant"]
    assert [message["role"] for message in messages] == roles * 2
    (call,) = messages[1]["tool_calls"]
    assert (call["function"]["name"], messages[2]["tool_call_id"]) == ("delete_file", call["id"])


def test_rules_hold_for_every_tool_of_every_agent(api: Api, ledger: Ledger) -> None:
    before = ledger.counts
    looks = [("list_files", {"folder": "secret"}), ("delete_file", {"path": "scratch"})]
    session_id, session = asked(api, script([*looks, inner([("list_files", {"folder": "audited"})])]), 1)
    (question,) = session["interrupts"]
    assert (question["agent"], question["rule"]) == ("inner", "policy:audited")
    session = answer(api, session_id, question["interrupt_id"], YES)
    refused, deleted, nested = results(session)
    assert (deleted, nested) == ("deleted scratch", '["files of audited"]')
    assert "nobody looks there" in refused
    done = {"model": 4, "delete scratch": 1, "list audited": 1, "consulted": 1}
    assert ledger.since(before) == done


def test_who_is_asked_sees_where_a_tool_is_from_and_what_is_known_of_it(api: Api) -> None:
    """Also where the rule asks, and the tool by itself would not have."""
    session_id, session = asked(api, script([("list_files", {"folder": "listed"}), A], [B]), 2)
    by_rule, by_tool = sorted(session["interrupts"], key=lambda each: each["payload"]["tool_name"], reverse=True)
    assert (by_rule["rule"], by_tool["rule"]) == ("policy:listed", None)
    for question in (by_rule, by_tool):
        assert question["tool_source"] == "files:local"
        assert question["metadata"] == {"team": "ops"}
    answer(api, session_id, by_rule["interrupt_id"], YES, questions=1)
    session = answer(api, session_id, by_tool["interrupt_id"], {**YES, "always": True})
    assert results(session) == ["files of listed", "deleted a", "deleted b"]
    grants = ok(api.get(f"/sessions/{session_id}/grants"))
    assert [(each["tool"], each["tool_source"]) for each in grants] == [("delete_file", "files:local")]


@pytest.fixture(scope="module")
def shelf(framework: str, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """The URL of an MCP server; None for the framework that has none here."""
    if framework in WITHOUT_SERVERS:
        yield None
        return
    place = tmp_path_factory.mktemp("shelf") / "url"
    with mcp_over_http(["-m", "tests.python.ext.shelf", "shelf"], place, LEDGER=str(ledger.path)) as url:
        yield url


def test_each_finished_call_is_made_once_whatever_is_killed(
    framework: str, isolation: str, ledger: Ledger, shelf: str | None, tmp_path: Path
) -> None:
    kill_and_go_on(framework, isolation, ledger, shelf, f"sqlite:{tmp_path / 'hitl.db'}")
