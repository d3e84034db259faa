"""A standby that lags takes the database's place: a turn that has lost nothing goes on, and others begin anew."""

from __future__ import annotations

from tests.python.support.api import Json, ok, result
from tests.python.support.own_postgres import own_postgres
from tests.python.support.served import Served

QUESTIONS: list[Json] = [{"type": "free", "question": "first?"}, {"type": "free", "question": "then?"}]


def test_a_turn_begins_anew_of_which_something_is_lost_and_no_other() -> None:
    with (
        own_postgres() as primary,
        Served("playbook", store=primary.address, park_after=600, checked=False) as server,
    ):
        api = server.api
        whole, (asked,) = api.asked("ask", QUESTIONS[0])
        session_id, (first,) = api.asked("ask_in_turn", QUESTIONS)
        with primary.backup() as standby:
            ok(api.resume(session_id, first["interrupt_id"], "taken back"))
            (then,) = api.wait(session_id)["interrupts"]
            assert then["payload"] == QUESTIONS[1]
            primary.stop("immediate")
            standby.signals("standby")
            standby.take_the_place_of(primary)
            standby.promote()
            server.wait_for_line("another database has taken the place")
            (again,) = api.session(session_id)["interrupts"]
            assert again["interrupt_id"] == first["interrupt_id"]
            ok(api.resume(session_id, again["interrupt_id"], "kept"))
            (then,) = api.wait(session_id)["interrupts"]
            ok(api.resume(session_id, then["interrupt_id"], "then"))
            assert result(api.wait(session_id)) == ["kept", "then"]
            server.wait_for_line("it begins anew")
            ok(api.resume(whole, asked["interrupt_id"], "yes"))
            assert result(api.wait(whole)) == "yes"
            assert sum("it begins anew" in line for line in server.lines) == 1
            server.stop()
