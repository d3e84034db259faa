"""GET /sessions/{id}?wait=true: what it waits for, what wakes it, and what it says then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.python.support.api import Api, ok, problem
from tests.python.support.gate import Gate

Poll = Callable[..., Future[httpx2.Response]]


@pytest.fixture
def poll(either_api: Api) -> Iterator[Poll]:
    """Start a long poll; its future is the answer."""
    with ThreadPoolExecutor() as threads:
        yield lambda session_id, **query: threads.submit(
            either_api.get, f"/sessions/{session_id}", **{"wait": "true", **query}
        )


@pytest.fixture
def held(either_api: Api, gate: Gate) -> str:
    """A session whose turn is at work."""
    session_id = either_api.create()
    either_api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    return session_id


def test_wakes_when_the_turn_is_done(either_api: Api, poll: Poll, held: str, gate: Gate) -> None:
    polls = [poll(held) for _ in range(3)]
    assert not any(waiting.done() for waiting in polls)
    gate.release("done")
    for waiting in polls:
        session = ok(waiting.result())
        assert (session["status"], session["response"]["content"]) == ("idle", '"done"')


def test_wakes_when_the_turn_asks(either_api: Api, poll: Poll, gate: Gate) -> None:
    session_id = either_api.create()
    either_api.play(session_id, "ask_and_hold", {"payload": {"type": "question"}, "gate": gate.port})
    session = ok(poll(session_id).result())
    assert session["status"] == "interrupted"
    gate.wait_for_arrival()
    gate.release()
    assert either_api.resume(session_id, session["interrupts"][0]["interrupt_id"], "yes").status_code == 200
    assert ok(poll(session_id).result())["status"] == "idle"


def test_wakes_when_the_turn_fails(either_api: Api, poll: Poll) -> None:
    session_id, interrupts = either_api.asked("fail_after_asking", {"type": "question"})
    either_api.resume(session_id, interrupts[0]["interrupt_id"], 1)
    session = ok(poll(session_id).result())
    assert (session["status"], session["error"]) == ("error", "ValueError: answered 1")


def test_wakes_when_the_session_is_deleted(either_api: Api, poll: Poll, gate: Gate) -> None:
    # Nobody outside the server can tell that a poll has begun, and a delete before it is rightly `Session not found`.
    details: list[str] = []
    while "Session deleted" not in details and len(details) < 20:
        session_id = either_api.create()
        either_api.play(session_id, "hold", gate.port)
        gate.wait_for_arrival()
        waiting = poll(session_id)
        ok(either_api.get(f"/sessions/{session_id}"))
        assert either_api.delete(session_id).status_code == 204
        details.append(problem(waiting.result(), 404)["detail"])
    assert details[-1] == "Session deleted"
    assert set(details) <= {"Session deleted", "Session not found"}


def test_wakes_when_the_turn_is_cancelled(either_api: Api, poll: Poll, held: str) -> None:
    waiting = poll(held)
    ok(either_api.post(f"/sessions/{held}/cancel"))
    assert ok(waiting.result())["error"] == "Turn cancelled"


@pytest.mark.parametrize("play", ["echo", "ask", "fail"])
def test_does_not_wait_unless_a_turn_is_at_work(api: Api, play: str) -> None:
    session_id = api.create()
    api.run(session_id, play, {"type": "question"} if play == "ask" else "x")
    # One that waited would wait for ever.
    ok(api.get(f"/sessions/{session_id}", wait="true"))


def test_says_running_at_the_timeout(api: Api, gate: Gate) -> None:
    session_id = api.create()
    api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    before = time.monotonic()
    session = ok(api.get(f"/sessions/{session_id}", wait="true", timeout=0.3))
    assert session["status"] == "running"
    assert time.monotonic() - before > 0.25, "it did not wait"
    gate.release()


@pytest.mark.parametrize("query", [{"timeout": "0"}, {"timeout": "-3"}, {"timeout": "0.0"}, {"wait": "false"}])
def test_does_not_wait_when_told_so(api: Api, gate: Gate, query: dict[str, str]) -> None:
    session_id = api.create()
    api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    # One that waited would wait until it is released.
    assert ok(api.get(f"/sessions/{session_id}", **{"wait": "true", **query}))["status"] == "running"
    gate.release()


@pytest.mark.parametrize(
    ("word", "waits"),
    [(word, True) for word in ("1", "true", "yes", "on", "TRUE", "Yes", "oN")]
    + [(word, False) for word in ("0", "false", "no", "off", "FALSE", "No", "oFF")],
)
def test_a_boolean_may_be_written_in_many_ways(api: Api, gate: Gate, word: str, waits: bool) -> None:
    session_id = api.create()
    api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(api.get, f"/sessions/{session_id}", wait=word)
        if waits:
            gate.release()
        assert ok(waiting.result())["status"] == ("idle" if waits else "running")
        if not waits:
            gate.release()


@pytest.mark.parametrize("query", [{"wait": "maybe"}, {"wait": ""}, {"timeout": "soon"}, {"timeout": "nan"}])
def test_a_bad_value_is_refused(api: Api, query: dict[str, Any]) -> None:
    body = problem(api.get(f"/sessions/{api.create()}", **query), 422)
    assert body["errors"][0]["loc"][-1] == next(iter(query))


def test_other_parameters_are_ignored(api: Api) -> None:
    ok(api.get(f"/sessions/{api.create()}", colour="blue"))


def test_an_event_before_the_poll_is_not_missed(either_api: Api) -> None:
    """A wake-up must not depend on the poll having begun: the turn may be over before."""
    for number in range(20):
        session_id = either_api.create()
        either_api.play(session_id, "echo", number)
        assert either_api.wait(session_id)["response"]["content"] == str(number)


def test_a_client_that_goes_away_leaves_the_server_healthy(api: Api, gate: Gate) -> None:
    session_id = api.create()
    api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    for _ in range(20):
        with pytest.raises(httpx2.ReadTimeout):
            api.http.get(f"/sessions/{session_id}?wait=true", timeout=httpx2.Timeout(100, read=0.05))
    gate.release()
    assert api.wait(session_id)["status"] == "idle"
