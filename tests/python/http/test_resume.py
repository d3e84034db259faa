"""POST /sessions/{id}/resume and POST /interrupts/{id}/resume: answering."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.python.support.api import Api, ok, problem, result
from tests.python.support.gate import Gate

QUESTION = {"type": "question", "prompt": "Which?"}


def test_the_agent_goes_on_with_the_answer(either_api: Api) -> None:
    session_id, interrupt_id = either_api.ask(QUESTION)
    response = either_api.resume(session_id, interrupt_id, {"choice": [1, "two"]})
    assert response.status_code == 200
    body = response.json()
    assert (body["session_id"], body["status"]) == (session_id, "running")
    session = either_api.wait(session_id)
    assert result(session) == {"choice": [1, "two"]}
    assert session["interrupts"] is None


@pytest.mark.parametrize(
    "answer", [False, True, 0, "", None, [], {}, 1.5, -(2**53), "日本語", {"": {"": None}}, 12345678901234567890]
)
def test_any_json_value_is_an_answer_falsy_ones_too(api: Api, answer: Any) -> None:
    session_id, interrupt_id = api.ask(QUESTION)
    assert api.resume(session_id, interrupt_id, answer).status_code == 200
    received = result(api.wait(session_id))
    assert received == answer
    assert type(received) is type(answer)


def test_the_pending_interrupts_are_shown_in_order_of_arrival(api: Api) -> None:
    payloads = [{"type": "question", "number": number} for number in range(5)]
    session_id, interrupts = api.asked("ask_all", payloads)
    assert [entry["payload"] for entry in interrupts] == payloads
    assert len({entry["interrupt_id"] for entry in interrupts}) == 5
    assert {entry["type"] for entry in interrupts} == {"question"}
    assert [entry["interrupt_id"] for entry in api.session(session_id)["interrupts"]] == [
        entry["interrupt_id"] for entry in interrupts
    ]


def test_a_payload_without_a_type_is_of_type_unknown(api: Api) -> None:
    _, interrupts = api.asked("ask", {"prompt": "no type"})
    assert interrupts[0]["type"] == "unknown"
    assert interrupts[0]["payload"] == {"prompt": "no type"}


def test_the_session_runs_on_after_the_last_answer_only(either_api: Api) -> None:
    session_id, interrupts = either_api.asked("ask_all", [{"type": "question", "n": n} for n in range(3)])
    ids = [entry["interrupt_id"] for entry in interrupts]
    # In another order than asked: each answer must find its own question.
    for interrupt_id, answer, status in (
        (ids[2], "c", "interrupted"),
        (ids[0], "a", "interrupted"),
        (ids[1], "b", "running"),
    ):
        response = either_api.resume(session_id, interrupt_id, answer)
        assert response.status_code == 200
        assert response.json()["status"] == status
        if status == "interrupted":
            assert interrupt_id not in [entry["interrupt_id"] for entry in either_api.session(session_id)["interrupts"]]
    assert result(either_api.wait(session_id)) == ["a", "b", "c"]


def test_a_turn_may_ask_again_and_again(either_api: Api) -> None:
    session_id, interrupts = either_api.asked("ask_in_turn", [{"type": "question", "n": n} for n in range(4)])
    seen = set()
    for number in range(4):
        (interrupt,) = interrupts
        assert interrupt["payload"]["n"] == number
        seen.add(interrupt["interrupt_id"])
        assert either_api.resume(session_id, interrupt["interrupt_id"], number).status_code == 200
        session = either_api.wait(session_id)
        interrupts = session["interrupts"]
    assert result(session) == [0, 1, 2, 3]
    assert len(seen) == 4


def test_the_same_question_in_two_turns_has_two_ids(api: Api) -> None:
    session_id, interrupt_id = api.ask(QUESTION)
    api.resume(session_id, interrupt_id, 1)
    api.wait(session_id)
    second = api.run(session_id, "ask", QUESTION)["interrupts"][0]["interrupt_id"]
    assert second != interrupt_id


def test_answering_by_the_interrupt_alone(api: Api) -> None:
    session_id, interrupt_id = api.ask(QUESTION)
    response = api.post(f"/interrupts/{interrupt_id}/resume", {"value": None})
    assert response.status_code == 200
    assert response.json()["status"] == "running"
    assert result(api.wait(session_id)) is None


def test_a_session_that_asks_and_works_takes_answers_at_once(either_api: Api, gate: Gate) -> None:
    session_id, interrupts = either_api.asked("ask_and_hold", {"payload": QUESTION, "gate": gate.port})
    gate.wait_for_arrival()
    assert either_api.resume(session_id, interrupts[0]["interrupt_id"], "yes").json()["status"] == "running"
    assert either_api.session(session_id)["status"] == "running"
    gate.release()
    assert result(either_api.wait(session_id)) == ["yes", "go"]


def test_a_withdrawn_question_leaves_the_list_and_takes_no_answer(either_api: Api) -> None:
    session_id, interrupts = either_api.asked("ask_whoever_is_first", [{"type": "question", "n": n} for n in range(2)])
    first, second = (entry["interrupt_id"] for entry in interrupts)
    assert result(either_api.resume_to_the_end(session_id, second, "me")) == "me"
    assert either_api.interrupt(first)["status"] == "cancelled"
    problem(either_api.resume(session_id, first, "too late"), 409, "Interrupt was cancelled")


class TestRefusals:
    def test_an_unknown_session(self, api: Api) -> None:
        problem(api.resume(str(uuid.uuid4()), str(uuid.uuid4()), 1), 404, "Session not found")

    @pytest.mark.parametrize("interrupt_id", ["0196f9a4-7a07-7d33-8f0e-111111111111", "nonsense", ""])
    def test_an_unknown_interrupt(self, api: Api, interrupt_id: str) -> None:
        session_id, _ = api.ask(QUESTION)
        problem(api.resume(session_id, interrupt_id, 1), 404, f"Unknown interrupt_id: {interrupt_id}")
        assert api.session(session_id)["status"] == "interrupted"

    def test_an_interrupt_of_another_session(self, api: Api) -> None:
        one, _ = api.ask(QUESTION)
        other, interrupt_id = api.ask(QUESTION)
        problem(api.resume(one, interrupt_id, 1), 404, f"Unknown interrupt_id: {interrupt_id}")
        assert api.interrupt(interrupt_id)["status"] == "pending"
        assert api.session(other)["status"] == "interrupted"

    def test_a_session_that_asks_nothing(self, api: Api, gate: Gate) -> None:
        session_id = api.create()
        unknown = str(uuid.uuid4())
        problem(api.resume(session_id, unknown, 1), 409, "Session is idle, not interrupted")
        api.play(session_id, "hold", gate.port)
        gate.wait_for_arrival()
        problem(api.resume(session_id, unknown, 1), 409, "Session is running, not interrupted")
        gate.release()
        api.wait(session_id)
        api.run(session_id, "fail", "x")
        problem(api.resume(session_id, unknown, 1), 409, "Session is error, not interrupted")

    @pytest.mark.parametrize(
        ("body", "loc"),
        [
            ({}, "interrupt_id"),
            ({"value": 1}, "interrupt_id"),
            ({"interrupt_id": "x"}, "value"),
            ({"interrupt_id": 7, "value": 1}, "interrupt_id"),
            ({"interrupt_id": None, "value": 1}, "interrupt_id"),
            ([], None),
            (None, None),
            ({"resume": {}}, "resume"),
            ({"resume": [{"interrupt_id": "x"}]}, "value"),
            ({"resume": [7]}, "resume"),
        ],
    )
    def test_a_body_that_lacks_something(self, api: Api, body: Any, loc: str | None) -> None:
        session_id, _ = api.ask(QUESTION)
        refusal = problem(api.post(f"/sessions/{session_id}/resume", body), 422)
        if loc is not None:
            assert any(loc in error["loc"] for error in refusal["errors"]), refusal
        assert api.session(session_id)["status"] == "interrupted"

    def test_a_body_without_a_value_for_the_interrupt(self, api: Api) -> None:
        _, interrupt_id = api.ask(QUESTION)
        problem(api.post(f"/interrupts/{interrupt_id}/resume", {}), 422)
        unknown = str(uuid.uuid4())
        problem(api.post(f"/interrupts/{unknown}/resume", {"value": 1}), 404, f"Unknown interrupt_id: {unknown}")
        problem(api.get(f"/interrupts/{unknown}"), 404, f"Unknown interrupt_id: {unknown}")


class TestSeveralAtOnce:
    def test_answer_all(self, api: Api) -> None:
        session_id, interrupts = api.asked("ask_all", [{"type": "question", "n": n} for n in range(3)])
        ids = [entry["interrupt_id"] for entry in interrupts]
        response = api.resume_all(session_id, {ids[2]: "c", ids[1]: None, ids[0]: False})
        assert response.status_code == 200
        assert response.json()["status"] == "running"
        assert result(api.wait(session_id)) == [False, None, "c"]

    def test_answer_some(self, api: Api) -> None:
        session_id, interrupts = api.asked("ask_all", [{"type": "question", "n": n} for n in range(3)])
        ids = [entry["interrupt_id"] for entry in interrupts]
        assert ok(api.resume_all(session_id, {ids[0]: 1, ids[1]: 2}))["status"] == "interrupted"
        assert [entry["interrupt_id"] for entry in api.session(session_id)["interrupts"]] == [ids[2]]
        ok(api.resume_all(session_id, {ids[2]: 3}))
        assert result(api.wait(session_id)) == [1, 2, 3]

    def test_one_that_is_wrong_means_none_counts(self, api: Api) -> None:
        session_id, interrupts = api.asked("ask_all", [{"type": "question", "n": n} for n in range(2)])
        ids = [entry["interrupt_id"] for entry in interrupts]
        unknown = str(uuid.uuid4())
        problem(api.resume_all(session_id, {ids[0]: 1, unknown: 2}), 404, f"Unknown interrupt_id: {unknown}")
        assert [entry["interrupt_id"] for entry in api.session(session_id)["interrupts"]] == ids
        ok(api.resume_all(session_id, {ids[0]: 1, ids[1]: 2}))
        assert result(api.wait(session_id)) == [1, 2]

    def test_one_that_fails_its_schema_means_none_counts(self, puppet: Api, tmp_path: Any) -> None:
        ledger = str(tmp_path / "ledger")
        session = puppet.call_tools(
            [{"name": "charge", "args": {"ledger": ledger, "cents": cents}} for cents in (1, 2)], questions=2
        )
        ids = [entry["interrupt_id"] for entry in session["interrupts"]]
        session_id = session["session_id"]
        problem(puppet.resume_all(session_id, {ids[0]: {"approved": True}, ids[1]: {"approved": "true"}}), 422)
        assert [entry["interrupt_id"] for entry in puppet.session(session_id)["interrupts"]] == ids
        assert not (tmp_path / "ledger").exists()
        ok(puppet.resume_all(session_id, {ids[0]: {"approved": True}, ids[1]: {"approved": False}}))
        assert puppet.wait(session_id)["status"] == "idle"
        assert (tmp_path / "ledger").read_text() == "charged 1\n"

    def test_the_same_interrupt_twice_is_refused(self, api: Api) -> None:
        session_id, interrupt_id = api.ask(QUESTION)
        body = {"resume": [{"interrupt_id": interrupt_id, "value": value} for value in (1, 2)]}
        problem(api.post(f"/sessions/{session_id}/resume", body), 422)
        assert api.session(session_id)["status"] == "interrupted"

    def test_none_at_all_is_refused(self, api: Api) -> None:
        session_id, _ = api.ask(QUESTION)
        problem(api.post(f"/sessions/{session_id}/resume", {"resume": []}), 422)
