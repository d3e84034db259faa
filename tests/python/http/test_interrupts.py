"""GET /interrupts and GET /interrupts/{id}: one inbox over all sessions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api, ok, problem

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

RECORD = {
    "interrupt_id",
    "session_id",
    "turn_id",
    "type",
    "payload",
    "status",
    "message",
    "response_schema",
    "allowed_decisions",
    "tool_call_id",
    "agent",
    "rule",
    "args_digest",
    "created_at",
    "expires_at",
    "value",
    "resolved_by",
    "resolved_at",
    "metadata",
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def own(serve: Serve) -> Api:
    """A server that no other test's interrupts are on."""
    return serve().api


def ids(response: Any) -> list[str]:
    return [entry["interrupt_id"] for entry in ok(response)]


def test_the_whole_record_wherever_interrupts_are_listed(api: Api) -> None:
    session_id, interrupt_id = api.ask(
        {"type": "question", "n": 1}, message="One line", metadata={"ticket": 7}, response_schema={"type": "integer"}
    )
    record = api.interrupt(interrupt_id)
    assert record.keys() >= RECORD
    assert record["interrupt_id"] == interrupt_id
    assert record["session_id"] == session_id
    assert record["status"] == "pending"
    assert record["type"] == "question"
    assert record["payload"] == {"type": "question", "n": 1}
    assert record["message"] == "One line"
    assert record["metadata"] == {"ticket": 7}
    assert record["response_schema"] == {"type": "integer"}
    assert TIME.fullmatch(record["created_at"])
    for member in ("value", "resolved_by", "resolved_at", "expires_at", "tool_call_id", "rule"):
        assert record[member] is None, member
    assert api.session(session_id)["interrupts"] == [record]
    assert ok(api.get("/interrupts", session_id=session_id)) == [record]


def test_an_answered_one_says_with_what_and_when(api: Api) -> None:
    session_id, interrupt_id = api.ask({"type": "question"})
    ok(api.resume(session_id, interrupt_id, {"yes": True}))
    api.wait(session_id)
    record = api.interrupt(interrupt_id)
    assert (record["status"], record["value"]) == ("resolved", {"yes": True})
    assert TIME.fullmatch(record["resolved_at"])
    assert record["resolved_at"] >= record["created_at"]


def test_newest_first(own: Api) -> None:
    assert ok(own.get("/interrupts")) == []
    asked = [own.ask({"type": "question"})[1] for _ in range(3)]
    assert ids(own.get("/interrupts")) == asked[::-1]


def test_a_page_links_to_the_next_one_and_keeps_its_filter(own: Api) -> None:
    asked = [own.ask({"type": "wanted"})[1] for _ in range(5)]
    own.ask({"type": "other"})
    seen: list[str] = []
    url = "/interrupts?type=wanted&limit=2"
    while url:
        response = own.http.get(url)
        page = ids(response)
        assert len(page) <= 2
        seen += page
        url = response.links.get("next", {}).get("url", "")
    assert seen == asked[::-1]


def test_filters(serve: Serve, tmp_path: Path) -> None:
    puppet = serve("puppet").api
    ledger = str(tmp_path / "ledger")
    session = puppet.call_tools(
        [
            {"name": "charge", "args": {"ledger": ledger, "cents": 1}},
            {"name": "delete_file", "args": {"path": ledger}},
        ],
        questions=2,
    )
    charge, delete = (entry["interrupt_id"] for entry in session["interrupts"])
    ok(puppet.resume(session["session_id"], charge, {"approved": False}))
    question = puppet.call_tools([{"name": "ask_three_times", "args": {"ledger": ledger}}])
    asked = question["interrupts"][0]["interrupt_id"]
    for query, expected in (
        ({}, [asked, delete, charge]),
        ({"status": "pending"}, [asked, delete]),
        ({"status": "resolved"}, [charge]),
        ({"status": "expired"}, []),
        ({"type": "tool_approval"}, [delete, charge]),
        ({"type": "question"}, [asked]),
        ({"tool": "charge"}, [charge]),
        ({"tool": "charge", "status": "pending"}, []),
        ({"session_id": session["session_id"]}, [delete, charge]),
        ({"agent": "puppet"}, [asked, delete, charge]),
        ({"agent": "somebody"}, []),
    ):
        assert ids(puppet.get("/interrupts", **query)) == expected, query


def test_those_created_after_a_time(own: Api) -> None:
    _, first = own.ask({"type": "question"})
    created = own.interrupt(first)["created_at"]
    # Times have milliseconds: another one must have begun for the second to be later.
    second = first
    while own.interrupt(second)["created_at"] == created:
        _, second = own.ask({"type": "question"})
    assert second in ids(own.get("/interrupts", created_after=created))
    assert first not in ids(own.get("/interrupts", created_after=created))
    assert ids(own.get("/interrupts", created_after="2999-01-01T00:00:00Z")) == []
    assert first in ids(own.get("/interrupts", created_after="2000-01-01T01:00:00+01:00"))


@pytest.mark.parametrize(
    "query",
    [
        {"status": "open"},
        {"status": ""},
        {"limit": 0},
        {"limit": 1001},
        {"limit": "x"},
        {"cursor": "garbage"},
        {"created_after": "yesterday"},
        {"created_after": "1"},
        {"statuss": "pending"},
        {"colour": "blue"},
    ],
)
def test_a_filter_with_a_mistake_is_refused_instead_of_listing_everything(api: Api, query: dict[str, Any]) -> None:
    refusal = problem(api.get("/interrupts", **query), 422)
    assert refusal["errors"][0]["loc"][-1] == next(iter(query))


def test_a_filter_given_twice_is_refused(api: Api) -> None:
    problem(api.http.get("/interrupts?status=pending&status=resolved"), 422)
