"""Several servers at work on one database: whichever a client comes to, it finds the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.python.cluster.conftest import AGENT, Serve, begin_step, runs
from tests.python.support import postgres
from tests.python.support.api import Api, Json, ok, problem, result
from tests.python.support.commands import command
from tests.python.support.event_stream import listen
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

KEY = "a-key-of-both-servers"
FREE: Json = {"type": "free", "question": "go on?"}


class Pair:
    """Two servers on one database."""

    def __init__(self, database: str, one: Served, other: Served) -> None:
        self.database = database
        self.one = one.api
        self.other = other.api


def pair_of(agent: str, **options: Any) -> Iterator[Pair]:
    with postgres.database() as database, ExitStack() as servers:
        served = [servers.enter_context(Served(agent, store=database, api_key=KEY, **options)) for _ in range(2)]
        yield Pair(database, *served)


@pytest.fixture(scope="module")
def warm() -> Iterator[Pair]:
    """Turns that wait stay in the memory of the server that asked."""
    yield from pair_of("playbook", park_after=600)


@pytest.fixture(scope="module")
def steps() -> Iterator[Pair]:
    """Turns that wait are in no memory; each server has one place."""
    yield from pair_of(AGENT, park_after=0, workers=1)


def asked(api: Api, *questions: Json) -> tuple[str, list[str]]:
    session_id, interrupts = api.asked("ask_all", list(questions))
    return session_id, [interrupt["interrupt_id"] for interrupt in interrupts]


# -- what a turn waits for, in the memory of another server ------------------------------------------------------------


def test_an_answer_reaches_the_turn_at_another_server(warm: Pair) -> None:
    session_id, (interrupt_id,) = asked(warm.one, FREE)
    ok(warm.other.resume(session_id, interrupt_id, "yes"))
    assert result(warm.other.wait(session_id)) == ["yes"]
    assert result(warm.one.wait(session_id)) == ["yes"]


def test_each_of_several_questions_can_be_answered_at_another_server(warm: Pair) -> None:
    questions = [{"type": "free", "question": str(number)} for number in range(4)]
    session_id, interrupt_ids = asked(warm.one, *questions)
    for number, interrupt_id in enumerate(interrupt_ids):
        ok((warm.one, warm.other)[number % 2].resume(session_id, interrupt_id, number))
    assert result(warm.other.wait(session_id)) == [0, 1, 2, 3]


def test_a_turn_that_is_answered_at_another_server_at_once_does_not_begin_anew(warm: Pair, tmp_path: Path) -> None:
    """Also where its session was made a moment before, of which the server of the turn has read nothing yet."""
    for number in range(6):
        ledger = tmp_path / str(number)
        session_id = warm.one.create()
        warm.one.play(session_id, "effect_then_ask", {"ledger": str(ledger), "payloads": [FREE]})
        (interrupt,) = warm.other.wait(session_id)["interrupts"]
        ok(warm.other.resume(session_id, interrupt["interrupt_id"], "yes"))
        assert result(warm.other.wait(session_id)) == ["yes"]
        assert ledger.read_text().splitlines() == ["effect"]


def test_an_answer_given_at_another_server_is_told_before_the_step_that_ends_after_it(
    serve: Serve, database: str, tmp_path: Path
) -> None:
    """Where nobody rings for it, and the step is over before a look, each second, finds it."""
    one, other = (serve(f"{database}&pooler=transaction").api for _ in range(2))
    for number in range(4):
        place = tmp_path / str(number)
        session_id = begin_step(one, place, asks=True)
        session = one.wait(session_id)
        ok(other.resume(session_id, session["interrupts"][0]["interrupt_id"], "yes"))
        Path(f"{place}.go").touch()
        assert result(one.wait(session_id)) == ["yes", "worked"]


def test_of_many_who_answer_at_once_at_both_servers_one_is_heard(warm: Pair) -> None:
    session_id, (interrupt_id,) = asked(warm.one, FREE)
    with ThreadPoolExecutor(20) as people:
        servers = [(warm.one, warm.other)[number % 2] for number in range(20)]
        answers = list(
            people.map(lambda who: who[1].resume(session_id, interrupt_id, f"said {who[0]}"), enumerate(servers))
        )
    codes = Counter(answer.status_code for answer in answers)
    assert codes == {200: 1, 409: 19}
    refused = {problem(answer, 409)["code"] for answer in answers if answer.status_code == 409}
    assert refused <= {"already_resolved", "not_interrupted"}
    (heard,) = (f"said {number}" for number, answer in enumerate(answers) if answer.status_code == 200)
    assert result(warm.other.wait(session_id)) == [heard]


def test_a_session_that_is_asked_for_at_both_servers_at_once_under_one_key_is_one(warm: Pair) -> None:
    def make(asked: tuple[Api, int]) -> str:
        api, number = asked
        reply = api.post("/sessions", {}, idempotency_key=f"both-{number}")
        assert reply.status_code == 201, reply.text
        return reply.headers["Location"]

    with ThreadPoolExecutor(8) as somebody:
        for number in range(10):
            made = somebody.map(make, [(warm.one, number), (warm.other, number)] * 4)
            assert len(set(made)) == 1
    again = warm.other.post("/sessions", {"state": []}, idempotency_key="both-9")
    assert problem(again, 422)["code"] == "idempotency_key_reused"


def test_a_session_is_cancelled_and_deleted_at_another_server(steps: Pair, tmp_path: Path) -> None:
    for number, end in enumerate((lambda it: ok(steps.other.post(f"/sessions/{it}/cancel")), steps.other.delete)):
        place = tmp_path / str(number)
        session_id = begin_step(steps.one, place)
        end(session_id)
        # Its worker is stopped: the only place is free for the next.
        eventually(lambda: ok(steps.one.get("/health"))["running_workers"], 0)
        assert steps.one.get(f"/sessions/{session_id}").status_code == (200 if number == 0 else 404)


# -- who waits at another server than the one of the turn ------------------------------------------------------------


def test_whoever_polls_at_another_server_is_told(warm: Pair) -> None:
    session_id, (interrupt_id,) = asked(warm.one, FREE)
    with ThreadPoolExecutor(1) as somebody:
        waits = somebody.submit(warm.other.wait, session_id)
        assert waits.result()["status"] == "interrupted"
        ok(warm.one.resume(session_id, interrupt_id, "yes"))
        assert result(warm.other.wait(session_id)) == ["yes"]


def test_events_of_a_turn_are_heard_at_another_server_each_once_and_in_order(warm: Pair) -> None:
    session_id = warm.one.create()
    with listen(warm.other, f"/sessions/{session_id}/events") as there, listen(warm.other, "/events") as all_there:
        warm.one.play(session_id, "ask", FREE)
        heard = there.until("interrupt.created")
        ok(warm.one.resume(session_id, warm.one.wait(session_id)["interrupts"][0]["interrupt_id"], "yes"))
        heard += there.until("session.idle")
        all_there.until(lambda event: event.event == "session.idle" and event.data["session_id"] == session_id)
    # One for the work, one for the wait, in whichever order the two are written.
    names = [event.event for event in heard]
    assert Counter(names) == {
        "session.running": 2,
        "interrupt.created": 1,
        "session.interrupted": 1,
        "interrupt.resolved": 1,
        "session.idle": 1,
    }
    numbers = [int(event.id) for event in heard]
    assert numbers == sorted(set(numbers))
    of_all = [event for event in all_there.seen if event.data.get("session_id") == session_id]
    assert [event.id for event in of_all] == [event.id for event in heard]


def test_whoever_listens_to_a_session_hears_that_it_was_deleted_at_another_server(warm: Pair) -> None:
    session_id, _ = asked(warm.one, FREE)
    with listen(warm.other, f"/sessions/{session_id}/events") as there:
        warm.one.delete(session_id)
        assert [event.event for event in there.until("interrupt.cancelled")] == ["interrupt.cancelled"]
        assert list(there) == []


# -- what is everybody's -------------------------------------------------------------------------------------------


def test_a_request_with_an_idempotency_key_is_answered_alike_at_another_server(warm: Pair) -> None:
    session_id, (interrupt_id,) = asked(warm.one, FREE)
    first = ok(warm.one.resume(session_id, interrupt_id, "yes", idempotency_key="k1"))
    again = ok(warm.other.resume(session_id, interrupt_id, "yes", idempotency_key="k1"))
    assert (first.get("replayed"), again.get("replayed")) == (None, True)


def test_a_key_is_known_and_refused_at_every_server(warm: Pair) -> None:
    made = warm.one.post("/keys", {"name": "ada", "scopes": ["read"]})
    assert made.status_code == 201
    ada = Api(str(warm.other.http.base_url), api_key=made.json()["key"])
    try:
        eventually(lambda: ada.get("/sessions").status_code, 200)
        assert warm.one.http.delete(f"/keys/{made.json()['key_id']}").status_code == 204
        eventually(lambda: ada.get("/sessions").status_code, 401)
    finally:
        ada.close()


def test_keys_are_made_and_revoked_by_a_command_beside_servers(warm: Pair) -> None:
    printed = command("keys", "create", "grace", "--scope", "read", "--store", warm.database, "--json")
    grace = Api(str(warm.other.http.base_url), api_key=json.loads(printed)["key"])
    try:
        eventually(lambda: grace.get("/sessions").status_code, 200)
        command("keys", "revoke", "grace", "--store", warm.database)
        eventually(lambda: grace.get("/sessions").status_code, 401)
    finally:
        grace.close()


# -- who takes up what -------------------------------------------------------------------------------------------------


def test_a_turn_for_which_a_server_has_no_place_goes_on_at_another(steps: Pair, tmp_path: Path) -> None:
    session_id = steps.one.create()
    (asked,) = steps.one.settled(session_id, "null", 1)["interrupts"]
    place = tmp_path / "step"
    busy = begin_step(steps.one, place)
    ok(steps.one.resume(session_id, asked["interrupt_id"], "yes"))
    assert steps.one.wait(session_id)["response"]["content"] == "yes"
    assert steps.one.session(busy)["status"] == "running"
    Path(f"{place}.go").touch()
    assert steps.one.wait(busy)["response"]["content"] == "worked"
    assert runs(place) == 1


def test_what_is_answered_while_its_server_is_dead_and_nobody_knows_is_not_lost(serve: Serve) -> None:
    first, second = serve(agent="playbook", park_after=600), serve(agent="playbook", park_after=600)
    session_id, (one, other) = asked(first.api, FREE, {"type": "free", "question": "really?"})
    ok(second.api.resume(session_id, one, 1))
    first.kill()
    ok(second.api.resume(session_id, other, 2))
    assert result(second.api.wait(session_id)) == [1, 2]


def test_three_servers_that_are_killed_and_come_back_lose_and_repeat_nothing(serve: Serve, tmp_path: Path) -> None:
    # None that lives is to be cut off on a busy machine, and nobody waits for a silence: one that was killed is gone.
    servers = [serve(workers=4, speed=1) for _ in range(3)]
    places = [tmp_path / str(number) for number in range(6)]
    waiting, at_work = [], []
    for number, place in enumerate(places):
        api = servers[number % 3].api
        at_work.append(begin_step(api, place))
        session_id = api.create()
        waiting.append((session_id, api.settled(session_id, "null", 1)["interrupts"][0]["interrupt_id"]))
    servers[0].kill()
    servers[1].kill()
    last = servers[2].api
    for session_id, interrupt_id in waiting:
        ok(last.resume(session_id, interrupt_id, "yes"))
    back = serve(workers=4, speed=1).api
    for place in places:
        Path(f"{place}.go").touch()
    for session_id, _ in waiting:
        assert back.wait(session_id)["response"]["content"] == "yes"
    for number, session_id in enumerate(at_work):
        assert back.wait(session_id)["response"]["content"] == "worked"
        # A step that was under way when its server died runs again, the others' do not.
        assert runs(places[number]) == (1 if number % 3 == 2 else 2), servers[2].lines
