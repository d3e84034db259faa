"""GET /sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.python.support.api import Api, ok, problem

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve


@pytest.fixture
def own(serve: Serve) -> Api:
    """A server that no other test's sessions are on."""
    return serve().api


def test_sessions_are_listed_oldest_first(own: Api) -> None:
    assert ok(own.get("/sessions")) == []
    ids = [own.create() for _ in range(3)]
    own.run(ids[1], "echo", 1)
    listed = ok(own.get("/sessions"))
    assert [entry["session_id"] for entry in listed] == ids
    assert [entry["total_messages"] for entry in listed] == [0, 2, 0]
    assert [entry["status"] for entry in listed] == ["idle", "idle", "idle"]


def test_sessions_are_listed_by_status(own: Api) -> None:
    idle = own.create()
    waiting, _ = own.ask({"type": "question"})
    failed = own.create()
    own.run(failed, "fail", "no")
    for status, expected in (("idle", [idle]), ("interrupted", [waiting]), ("error", [failed]), ("running", [])):
        assert [entry["session_id"] for entry in ok(own.get("/sessions", status=status))] == expected


def test_sessions_have_titles_are_searched_by_them_and_agents_have_names(own: Api) -> None:
    made = [own.create() for _ in range(3)]
    own.run(made[0], "echo", {"a": 1})
    own.ask({"type": "question"})
    listed = ok(own.get("/sessions"))
    # The playbook is told what to do in messages that are JSON.
    assert [entry["title"] is None for entry in listed] == [False, True, True, False]
    assert "echo" in listed[0]["title"]
    # While its turn is open as well, of which the messages know nothing yet.
    assert (listed[3]["status"], "question" in listed[3]["title"]) == ("interrupted", True)
    assert {entry["agent_name"] for entry in listed} == {"playbook"}
    assert [entry["session_id"] for entry in ok(own.get("/sessions", q="ECHO"))] == [made[0]]
    assert [entry["session_id"] for entry in ok(own.get("/sessions", q=made[1]))] == [made[1]]
    assert ok(own.get("/sessions", q="nobody said this")) == []
    problem(own.get("/sessions", q=""), 422)


def test_a_page_links_to_the_next_one(own: Api) -> None:
    ids = [own.create() for _ in range(5)]
    seen, url = [], "/sessions?limit=2"
    pages = 0
    while url:
        response = own.http.get(url)
        seen += [entry["session_id"] for entry in ok(response)]
        url = response.links.get("next", {}).get("url", "")
        pages += 1
    assert seen == ids
    assert pages == 3


def test_a_page_is_stable_while_sessions_come_and_go(own: Api) -> None:
    ids = [own.create() for _ in range(4)]
    first = own.get("/sessions", limit=2)
    own.delete(ids[0])
    own.create()
    second = own.http.get(first.links["next"]["url"])
    assert [entry["session_id"] for entry in ok(second)] == ids[2:]


def test_a_hundred_at_once_unless_told_otherwise(own: Api) -> None:
    for _ in range(101):
        own.create()
    response = own.get("/sessions")
    assert len(ok(response)) == 100
    assert "next" in response.links
    assert len(ok(own.get("/sessions", limit=1000))) == 101


@pytest.mark.parametrize(
    "query",
    [{"limit": 0}, {"limit": 1001}, {"limit": -1}, {"limit": "many"}, {"cursor": "garbage"}, {"status": "asleep"}],
)
def test_a_bad_value_is_refused(api: Api, query: dict[str, str]) -> None:
    problem(api.get("/sessions", **query), 422)


def test_other_parameters_are_ignored(api: Api) -> None:
    ok(api.get("/sessions", colour="blue"))
