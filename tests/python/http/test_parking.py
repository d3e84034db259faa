"""Turns that wait leave memory and go on; turns that fail with their journal kept are taken up again."""

from __future__ import annotations

import re
import signal
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.processes import family
from tests.python.support.api import Api, ok, problem, result
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

EDITED = "tests.python.support.edited_agent:agent"
THREADED = "tests.python.support.threaded_agent:agent"


def metric(api: Api, name: str) -> int:
    found = re.search(rf"^{re.escape(name)} (\d+)$", api.get("/metrics").text, re.MULTILINE)
    assert found is not None, name
    return int(found.group(1))


def question(number: int) -> dict[str, object]:
    return {"type": "question", "n": number}


class TestParking:
    def test_each_answer_goes_through_a_replay_with_park_after_0(
        self, serve: Serve, isolation: str, tmp_path: Path
    ) -> None:
        api = serve(park_after=0, isolation=isolation).api
        ledger = tmp_path / "ledger"
        argument = {"ledger": str(ledger), "payloads": [question(0), question(1)]}
        session_id, interrupts = api.asked("effect_then_ask", argument)
        # A turn that has asked is about to be parked; an answer that is quicker finds it at work.
        eventually(lambda: metric(api, "hitl_turns_parked_total"), 1)
        ok(api.resume(session_id, interrupts[0]["interrupt_id"], "first"))
        second = api.wait(session_id)
        eventually(lambda: metric(api, "hitl_turns_parked_total"), 2)
        ok(api.resume(session_id, second["interrupts"][0]["interrupt_id"], "second"))
        assert result(api.wait(session_id)) == ["first", "second"]
        # Code between steps may run again: that is why it is told from steps.
        assert ledger.read_text().splitlines() == ["effect"] * 3
        eventually(lambda: metric(api, "hitl_replay_seconds_count"), 2)
        eventually(lambda: metric(api, 'hitl_turn_work_seconds_count{outcome="done"}'), 1)

    def test_beyond_max_warm_they_leave_memory_and_answers_find_them(self, serve: Serve, isolation: str) -> None:
        api = serve(max_warm=1, isolation=isolation).api
        asking = [api.ask(question(number)) for number in range(4)]
        eventually(lambda: metric(api, "hitl_turns_in_memory"), 1)
        for number, (session_id, interrupt_id) in enumerate(asking):
            ok(api.resume(session_id, interrupt_id, number))
            assert result(api.wait(session_id)) == number

    def test_beside_a_timer_that_never_fires(self, serve: Serve, isolation: str) -> None:
        """No number that can be sent is its time; that ended the worker, and all turns in it."""
        api = serve(workers=1, park_after=0, isolation=isolation).api
        beside = api.ask(question(0))
        seconds = ("Infinity", "1e16", "1e300")
        asked = [api.asked("ask_beside_a_timer", {"seconds": it, "payloads": [question(1)] * 2}) for it in seconds]
        eventually(lambda: metric(api, "hitl_turns_parked_total"), 4)
        for session_id, (entry,) in asked:
            ok(api.resume(session_id, entry["interrupt_id"], "a"))
            (second,) = api.wait(session_id)["interrupts"]
            ok(api.resume(session_id, second["interrupt_id"], "b"))
            assert result(api.wait(session_id)) == ["a", "b"]
        ok(api.resume(*beside, "c"))
        assert result(api.wait(beside[0])) == "c"

    def test_a_turn_that_awaited_a_thread_leaves_memory_when_it_asks(self, serve: Serve, isolation: str) -> None:
        """At once, and not only when raw I/O may hold it no longer."""
        api = serve(THREADED, park_after=0, hold=3600, isolation=isolation).api
        session_id = api.create()
        assert api.send(session_id, "pay").status_code == 202
        eventually(lambda: metric(api, "hitl_turns_parked_total"), 1)
        (asked,) = api.session(session_id)["interrupts"]
        ok(api.resume(session_id, asked["interrupt_id"], {"approved": True}))
        assert api.wait(session_id)["response"]["content"] == "all paid"

    def test_the_process_of_a_parked_turn_is_gone(self, serve: Serve) -> None:
        server = serve(park_after=0, workers=1, started=True)
        # Itself, the zygote, and the child that waits to be used: a moment after the server is there.
        eventually(lambda: len(family(server.pid)), 3)
        for number in range(5):
            server.api.ask(question(number))
        eventually(lambda: metric(server.api, "hitl_turns_in_memory"), 0)
        eventually(lambda: len(family(server.pid)), 3)

    def test_a_question_expires_while_its_turn_is_parked(self, serve: Serve, store: str) -> None:
        server = serve(park_after=0, store=store)
        session_id, interrupt_id = server.api.ask(question(0), expires_in=3600)
        server.kill()
        # Its time is over meanwhile, and not before it was seen to wait.
        with closing(sqlite3.connect(store.removeprefix("sqlite:"), isolation_level=None)) as connection:
            connection.execute("UPDATE interrupts SET expires_at = 1, due_at = 1")
        api = serve(park_after=0, store=store).api
        eventually(lambda: api.session(session_id)["status"], "error")
        assert api.session(session_id)["error"].startswith("InterruptExpired")
        assert api.interrupt(interrupt_id)["status"] == "expired"
        assert api.resume(session_id, interrupt_id, 1).status_code == 410

    def test_cancelling_a_parked_turn_starts_nothing(self, serve: Serve) -> None:
        api = serve(park_after=0).api
        session_id, interrupt_id = api.ask(question(0))
        eventually(lambda: metric(api, "hitl_turns_in_memory"), 0)
        ok(api.post(f"/sessions/{session_id}/cancel"))
        assert api.interrupt(interrupt_id)["status"] == "cancelled"
        assert metric(api, "hitl_turns_in_memory") == 0


class TestStopping:
    def test_parks_everything_however_many_are_asked(self, serve: Serve, store: str, isolation: str) -> None:
        server = serve(store=store, isolation=isolation, shutdown_timeout=1000)
        asking = [server.api.ask(question(number)) for number in range(12)]
        server.signal(signal.SIGTERM)
        # It does not wait for people.
        assert server.wait() == 0
        api = serve(store=store, isolation=isolation).api
        assert {api.session(session_id)["status"] for session_id, _ in asking} == {"interrupted"}
        assert metric(api, "hitl_turns_in_memory") == 0
        for number, (session_id, interrupt_id) in enumerate(asking):
            ok(api.resume(session_id, interrupt_id, number))
            assert result(api.wait(session_id)) == number


class TestRetries:
    def test_a_worker_that_keeps_dying_is_an_error_that_can_be_retried(self, serve: Serve) -> None:
        api = serve(max_recoveries=1).api
        session_id = api.create()
        failed = api.run(session_id, "crash", "os._exit")
        assert (failed["error"], failed["error_code"]) == ("Worker process exited unexpectedly", "worker_exited")
        assert metric(api, "hitl_turns_recovered_total") == 1
        retried = api.post(f"/sessions/{session_id}/retry")
        assert (retried.status_code, retried.headers["location"]) == (202, f"/sessions/{session_id}")
        assert retried.json() == {"session_id": session_id, "status": "running"}
        assert api.wait(session_id)["error_code"] == "worker_exited"
        assert result(api.run(session_id, "echo", "on we go")) == "on we go"

    @pytest.mark.parametrize("play", ["none", "echo", "fail", "ask"])
    def test_where_no_turn_failed_with_its_journal_there_is_nothing_to_retry(self, api: Api, play: str) -> None:
        session_id = api.create()
        if play != "none":
            api.run(session_id, play, {"type": "question"})
        before = api.session(session_id)
        problem(api.post(f"/sessions/{session_id}/retry"), 409, "Session has no turn to retry")
        assert api.session(session_id) == before

    def test_an_unknown_session(self, api: Api) -> None:
        problem(api.post(f"/sessions/{uuid.uuid4()}/retry"), 404, "Session not found")

    def test_a_mismatch_keeps_the_answer_until_the_code_fits_again(self, serve: Serve, store: str) -> None:
        def served(order: str) -> Served:
            return serve(EDITED, store=store, park_after=0, environment={"EDITED_ORDER": order})

        server = served("a b")
        api = server.api
        session_id = api.create()
        api.send(session_id, "go")
        asked = api.wait(session_id)
        interrupt_id = asked["interrupts"][0]["interrupt_id"]
        server.stop()
        server = served("b a")
        api = server.api
        ok(api.resume(session_id, interrupt_id, "kept"))
        failed = api.wait(session_id)
        assert (failed["status"], failed["error_code"], failed["interrupts"]) == ("error", "replay_mismatch", None)
        assert "recorded" in failed["error"]
        assert "hint" in failed["error"]
        problem(api.post(f"/sessions/{session_id}/cancel"), 409)
        server.stop()
        api = served("a b").api
        assert api.session(session_id) == failed
        assert api.post(f"/sessions/{session_id}/retry").status_code == 202
        done = api.wait(session_id)
        assert (done["status"], done["response"]["content"]) == ("idle", "a b kept")
