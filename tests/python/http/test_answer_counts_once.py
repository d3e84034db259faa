"""First writer wins; the loser is told who won; a retry of the same answer gets the stored outcome."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.python.support.api import Api, ok, problem, result

QUESTION = {"type": "question"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_the_same_answer_again_is_replayed(api: Api) -> None:
    session_id, interrupt_id = api.ask(QUESTION)
    first = ok(api.resume(session_id, interrupt_id, {"b": 1, "a": [1.0]}))
    assert not first.get("replayed")
    api.wait(session_id)
    # Members in another order are the same value.
    again = ok(api.resume(session_id, interrupt_id, {"a": [1.0], "b": 1}))
    assert again["replayed"] is True
    assert again["session_id"] == session_id
    by_interrupt = ok(api.post(f"/interrupts/{interrupt_id}/resume", {"value": {"b": 1, "a": [1.0]}}))
    assert by_interrupt["replayed"] is True
    assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2


def test_the_same_answer_again_while_another_question_is_open(api: Api) -> None:
    session_id, interrupts = api.asked("ask_in_turn", [QUESTION, QUESTION])
    first = interrupts[0]["interrupt_id"]
    ok(api.resume(session_id, first, 1))
    api.wait(session_id)
    assert ok(api.resume(session_id, first, 1))["replayed"] is True
    assert api.session(session_id)["status"] == "interrupted"


def test_another_answer_is_told_who_won_and_when(api: Api) -> None:
    session_id, interrupt_id = api.ask(QUESTION)
    ok(api.resume(session_id, interrupt_id, "first"))
    responses = (
        api.resume(session_id, interrupt_id, "second"),
        api.post(f"/interrupts/{interrupt_id}/resume", {"value": "second"}),
    )
    refusals = [problem(response, 409, "Interrupt already resolved") for response in responses]
    for refusal in refusals:
        assert "resolved_by" in refusal
        assert TIME.fullmatch(refusal["resolved_at"])
    assert result(api.wait(session_id)) == "first"
    record = api.interrupt(interrupt_id)
    assert (record["status"], record["value"]) == ("resolved", "first")
    assert {refusal["resolved_at"] for refusal in refusals} == {record["resolved_at"]}


@pytest.mark.parametrize(("first", "second"), [(1, True), (0, False), (0, None), ("", None), (False, None), (1, "1")])
def test_values_that_python_takes_for_equal_are_not_the_same_answer(api: Api, first: Any, second: Any) -> None:
    session_id, interrupt_id = api.ask(QUESTION)
    ok(api.resume(session_id, interrupt_id, first))
    problem(api.resume(session_id, interrupt_id, second), 409, "Interrupt already resolved")


class TestKeys:
    def test_the_same_answer_under_its_key_is_replayed(self, api: Api) -> None:
        session_id, interrupt_id = api.ask(QUESTION)
        assert not ok(api.resume(session_id, interrupt_id, 1, Idempotency_Key="k")).get("replayed")
        for key in ({"Idempotency_Key": "k"}, {"Idempotency_Key": "another"}, {}):
            assert ok(api.resume(session_id, interrupt_id, 1, **key))["replayed"] is True

    def test_a_key_used_again_with_another_value_is_refused(self, api: Api) -> None:
        session_id, interrupt_id = api.ask(QUESTION)
        ok(api.resume(session_id, interrupt_id, 1, Idempotency_Key="k"))
        reused = problem(api.resume(session_id, interrupt_id, 2, Idempotency_Key="k"), 422)
        lost = problem(api.resume(session_id, interrupt_id, 2, Idempotency_Key="other"), 409)
        assert reused["code"] != lost["code"]

    def test_a_key_is_of_one_interrupt_by_whichever_way_it_is_answered(self, api: Api) -> None:
        session_id, interrupts = api.asked("ask_all", [QUESTION, QUESTION])
        first, second = (f"/interrupts/{asked['interrupt_id']}/resume" for asked in interrupts)
        ok(api.post(first, {"value": 1}, Idempotency_Key="k"))
        problem(api.post(second, {"value": 1}, Idempotency_Key="k"), 422)
        by_session = api.resume(session_id, interrupts[0]["interrupt_id"], 1, Idempotency_Key="k")
        assert ok(by_session)["replayed"] is True
        ok(api.post(second, {"value": 1}, Idempotency_Key="another"))
        assert result(api.wait(session_id)) == [1, 1]

    def test_a_key_of_a_batch(self, api: Api) -> None:
        session_id, interrupts = api.asked("ask_all", [QUESTION, QUESTION])
        answers = {entry["interrupt_id"]: number for number, entry in enumerate(interrupts)}
        ok(api.resume_all(session_id, answers, Idempotency_Key="k"))
        assert ok(api.resume_all(session_id, answers, Idempotency_Key="k"))["replayed"] is True
        problem(api.resume_all(session_id, {**answers, next(iter(answers)): "x"}, Idempotency_Key="k"), 422)
        assert result(api.wait(session_id)) == [0, 1]


def test_of_many_answers_at_once_exactly_one_counts(either_api: Api) -> None:
    session_id, interrupt_id = either_api.ask(QUESTION)
    with ThreadPoolExecutor(16) as threads:
        responses = list(threads.map(lambda number: either_api.resume(session_id, interrupt_id, number), range(16)))
    won = [number for number, response in enumerate(responses) if response.status_code == 200]
    assert len(won) == 1
    for number, response in enumerate(responses):
        if number not in won:
            problem(response, 409, "Interrupt already resolved")
    assert result(either_api.wait(session_id)) == won[0]


def test_of_many_equal_approvals_at_once_the_tool_runs_once(puppet: Api, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    session = puppet.call_tools([{"name": "charge", "args": {"ledger": str(ledger), "cents": 5}}])
    session_id, interrupt_id = session["session_id"], session["interrupts"][0]["interrupt_id"]
    with ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(lambda _: puppet.resume(session_id, interrupt_id, {"approved": True}), range(8)))
    assert [response.status_code for response in responses] == [200] * 8
    assert sum(not response.json().get("replayed", False) for response in responses) == 1
    assert puppet.wait(session_id)["status"] == "idle"
    assert ledger.read_text() == "charged 5\n"
