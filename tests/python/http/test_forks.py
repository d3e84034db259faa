"""Code of an agent that forks inside of a turn: the turn goes on in one process, and the other is no part of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.python.support.served import Served

AGENT = "tests.python.support.forking_agent:agent"


@pytest.fixture(scope="module", params=["process", "task"])
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    with Served(AGENT, isolation=request.param, workers=1) as server:
        yield server


def said(server: Served, what: str) -> str:
    session_id = server.api.create()
    server.api.send(session_id, what)
    session = server.api.wait(session_id)
    assert session["status"] == "idle", session["error"]
    content: str = session["response"]["content"]
    return content


@pytest.mark.parametrize(("what", "call"), [("calls", "step.sync()"), ("calls_on_a_loop", "step()")])
def test_a_hitl_call_in_the_other_process_names_the_fork(server: Served, what: str, call: str) -> None:
    answer = said(server, what)
    assert answer.startswith(f"RuntimeError: {call} called in process ")
    assert "was forked inside a turn of process" in answer


def test_what_the_other_process_prints_is_in_the_log(server: Served) -> None:
    assert said(server, "prints") == "None"
    server.wait_for_line("printed by a child")


@pytest.mark.parametrize("what", ["raises", "raises_in_a_thread", "raises outside a step"])
def test_an_error_of_the_other_process_is_told_and_is_none_of_the_turns(server: Served, what: str) -> None:
    assert said(server, what) == "parent: 1"
    server.wait_for_line(f"ValueError: of a child: {what}")


@pytest.mark.parametrize(("what", "code"), [("returns", 1), ("awaits", 1), ("exits", 7)])
def test_the_other_process_ends_where_it_comes_back(server: Served, what: str, code: int) -> None:
    assert said(server, what) == f"parent: {code}"
    if code == 1:
        server.wait_for_line("was forked inside a turn and came back to it; it is ended")
