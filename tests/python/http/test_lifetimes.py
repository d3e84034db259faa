"""--timeout, --ttl, and how a server stops."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.python.support.api import Api, Json, ok, problem, result
from tests.python.support.event_stream import listen
from tests.python.support.gate import Gate
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve


def wait_until_gone(api: Api, session_id: str) -> None:
    """Return when the session is not found any more. No event is promised for it."""
    eventually(lambda: api.get(f"/sessions/{session_id}").status_code, 404)


def timed_out_at(gate: Gate, api: Api, session_id: str, play: str) -> bool:
    """Whether a turn's time was over when it was at the gate. A busy machine may not get there in time."""
    api.play(session_id, play, gate.port)
    session = api.wait(session_id)
    assert (session["status"], session["error"]) == ("error", "Agent timed out")
    return gate.was_reached()


def thought_over(api: Api, seconds: float) -> Json:
    """A session after three questions, over each of which a person thinks that long; or once its turn has failed."""
    questions = json.dumps([{"type": "question"}] * 3)
    session = api.settled(api.create(), f"ask_in_turn {questions}", 1)
    session_id = session["session_id"]
    for number in range(3):
        # No poll ends early: nothing is to be seen meanwhile.
        enough = time.monotonic() + seconds
        while session["status"] == "interrupted" and time.monotonic() < enough:
            session = api.session(session_id)
        if session["status"] != "interrupted":
            break
        ok(api.resume(session_id, session["interrupts"][0]["interrupt_id"], number))
        session = api.wait(session_id)
    return session


class TestTimeout:
    def test_ends_a_turn_that_works_too_long(self, serve: Serve, gate: Gate, isolation: str) -> None:
        api = serve(timeout=0.5, isolation=isolation).api
        session_id = api.create()
        eventually(lambda: timed_out_at(gate, api, session_id, "hold"), True)
        gate.wait_until_gone()
        # It is as before, for whatever is quick enough.
        eventually(lambda: api.run(session_id, "echo", 1)["status"], "idle")
        assert result(api.session(session_id)) == 1

    def test_ends_one_that_does_not_let_itself_be_stopped(self, serve: Serve, gate: Gate) -> None:
        api = serve(timeout=0.5).api
        session_id = api.create()
        eventually(lambda: timed_out_at(gate, api, session_id, "hold_stubbornly"), True)
        gate.wait_until_gone()

    def test_does_not_count_the_time_a_person_thinks(self, isolation: str) -> None:
        session: Json = {}
        # A busy machine may need more than the first for the work alone.
        for timeout in (0.6, 6.0, 40.0):
            with Served("playbook", timeout=timeout, isolation=isolation) as server:
                # Three times the half of it.
                session = thought_over(server.api, timeout / 2)
            if session["error"] != "Agent timed out":
                break
        assert result(session) == [0, 1, 2]


class TestTtl:
    """The sessions are made on a server that sweeps none: there they may take their time."""

    def test_idle_and_failed_sessions_are_swept(self, serve: Serve, store: str) -> None:
        server = serve(store=store)
        idle, failed = server.api.create(), server.api.create()
        server.api.run(failed, "fail", "x")
        server.stop()
        api = serve(store=store, ttl=0.5).api
        wait_until_gone(api, idle)
        wait_until_gone(api, failed)

    def test_sessions_that_wait_or_work_are_not(self, serve: Serve, store: str, gate: Gate) -> None:
        server = serve(store=store)
        asking, interrupt_id = server.api.ask({"type": "question"})
        idle, working = server.api.create(), server.api.create()
        server.api.play(working, "hold", gate.port)
        gate.wait_for_arrival()
        server.kill()
        gate.wait_until_gone()
        api = serve(store=store, ttl=0.5).api
        gate.wait_for_arrival()
        wait_until_gone(api, idle)
        assert api.session(asking)["status"] == "interrupted"
        assert api.session(working)["status"] == "running"
        ok(api.resume(asking, interrupt_id, 1))
        gate.release()

    def test_never_unless_asked_for(self, api: Api) -> None:
        assert api.session(api.create())["status"] == "idle"


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_does_not_wait_for_people(self, serve: Serve, store: str, isolation: str, number: int) -> None:
        """The peer's SIGTERM waits for ever on an open interrupt."""
        server = serve(store=store, isolation=isolation, shutdown_timeout=1000)
        session_id, interrupt_id = server.api.ask({"type": "question"})
        server.signal(number)
        server.wait()
        again = serve(store=store).api
        assert again.session(session_id)["session_id"] == session_id
        assert again.interrupt(interrupt_id)["session_id"] == session_id

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_finishes_turns_at_work(self, serve: Serve, store: str, gate: Gate, number: int) -> None:
        server = serve(store=store)
        session_id = server.api.create()
        server.api.play(session_id, "hold", gate.port)
        gate.wait_for_arrival()
        server.signal(number)
        gate.release("finished")
        assert server.wait() == 0
        assert result(serve(store=store).api.session(session_id)) == "finished"

    def test_leaves_turns_that_take_too_long_to_the_next_server(
        self, serve: Serve, store: str, gate: Gate, isolation: str
    ) -> None:
        server = serve(store=store, shutdown_timeout=0.5, isolation=isolation)
        session_id = server.api.create()
        server.api.play(session_id, "hold", gate.port)
        gate.wait_for_arrival()
        server.signal(signal.SIGTERM)
        gate.wait_until_gone()
        assert server.wait() == 0
        again = serve(store=store, isolation=isolation).api
        gate.wait_for_arrival()
        assert again.session(session_id)["status"] == "running"
        gate.release("finished")
        assert result(again.wait(session_id)) == "finished"

    def test_wakes_the_pollers(self, serve: Serve, store: str, gate: Gate) -> None:
        server = serve(store=store, shutdown_timeout=1000)
        session_id = server.api.create()
        server.api.play(session_id, "hold", gate.port)
        gate.wait_for_arrival()
        with (
            ThreadPoolExecutor() as threads,
            listen(server.api, f"/sessions/{session_id}/events") as stream,
        ):
            poll = threads.submit(server.api.get, f"/sessions/{session_id}", wait="true")
            ok(server.api.get(f"/sessions/{session_id}"))
            server.signal(signal.SIGTERM)
            try:
                response = poll.result()
            except httpx2.TransportError:
                pass  # the request came when nobody accepted any more
            else:
                assert response.status_code in (200, 503)
            assert not [event for event in stream if event.event == "session.idle"]
            gate.release()
        assert server.wait() == 0

    def test_takes_nothing_new(self, serve: Serve, gate: Gate) -> None:
        server = serve(shutdown_timeout=1000)
        session_id = server.api.create()
        server.api.play(session_id, "hold", gate.port)
        gate.wait_for_arrival()
        server.signal(signal.SIGTERM)
        deadline = time.monotonic() + 100
        while True:
            try:
                response = httpx2.post(f"{server.url}/sessions", trust_env=False)
            except httpx2.TransportError:
                break
            if response.status_code == 503:
                problem(response, 503)
                break
            assert time.monotonic() < deadline, "still taking sessions"
        gate.release()
        assert server.wait() == 0

    def test_a_second_signal_is_at_once(self, serve: Serve, gate: Gate) -> None:
        server = serve(shutdown_timeout=1000)
        server.api.play(server.api.create(), "hold_stubbornly", gate.port)
        gate.wait_for_arrival()
        server.signal(signal.SIGINT)
        # Sent again until it ends: two that come at the same moment are one to the kernel.
        deadline = time.monotonic() + 100
        while server.is_running:
            assert time.monotonic() < deadline, "two signals did not end it"
            server.signal(signal.SIGINT)
        assert server.wait() == 130
        gate.wait_until_gone()
