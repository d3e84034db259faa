"""What people may say, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from hitl import Decision
from tests.python.behaviours.catalogue import behaviour
from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.scenes import DONE, Scene, call, calls, charge, says

APPROVE = Decision.approve()
NOBODY = "01920000-0000-7000-8000-000000000000"


@behaviour(2)
@pytest.mark.parametrize("said", [{}, {"reason": "too much"}, {"message": "Ask again tomorrow."}], ids=str)
def test_rejected_it_has_no_effect_and_the_model_sees_the_exact_message(face: Face, said: dict[str, str]) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"]))
    talk.say("pay")
    talk.decide(Decision.reject(**said))
    assert face.ledger.lines == []
    assert talk.told() == [face.rejection("charge", **said)]
    assert talk.output == "done"


@behaviour(5)
def test_approvals_and_rejections_mixed_in_one_batch(face: Face) -> None:
    script = [calls(charge(1), charge(2), call("refund", cents=3)), DONE]
    talk = face.open(Scene(script, gated=["charge", "refund"]))
    talk.say("pay")
    talk.decide(APPROVE, Decision.reject(reason="no"), APPROVE)
    assert sorted(face.ledger.lines) == ["charge 1", "refund 3"]
    assert talk.told() == ["charged 1", face.rejection("charge", reason="no"), "refunded 3"]


@behaviour(7)
def test_the_tool_sees_the_edited_arguments_and_the_model_is_told(face: Face) -> None:
    talk = face.open(Scene([calls(charge(500)), DONE], gated=["charge"]))
    talk.say("pay")
    talk.decide(Decision.edit({"cents": 5}))
    assert face.ledger.lines == ["charge 5"]
    assert talk.told() == face.edited("charged 5", '{"cents":5}')


@behaviour(7)
@pytest.mark.parametrize("args", [{"cents": "much"}, {"cents": None}, {"dollars": 5}, {}], ids=str)
def test_an_edit_that_does_not_fit_the_tool_changes_nothing(face: Face, args: dict[str, Any]) -> None:
    talk = face.open(Scene([calls(charge(500)), DONE], gated=["charge"]))
    talk.say("pay")
    before = talk.waiting()
    with pytest.raises(face.errors["wrong kind"]):
        talk.decide(Decision.edit(args))
    assert (face.ledger.lines, talk.waiting()) == ([], before)
    talk.decide(APPROVE)
    assert face.ledger.lines == ["charge 500"]


@behaviour(8, "unknown id")
def test_an_unknown_id_changes_nothing(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"]))
    talk.say("pay")
    before = talk.waiting()
    with pytest.raises(face.errors["unknown id"]):
        talk.answer([(NOBODY, APPROVE)])
    assert (face.ledger.lines, talk.waiting()) == ([], before)
    talk.decide(APPROVE)
    assert face.ledger.lines == ["charge 5"]


@behaviour(8, "unknown beside known")
def test_an_unknown_id_changes_nothing_for_the_known_ones_beside_it_either(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"]))
    talk.say("pay")
    [asked] = before = talk.waiting()
    with pytest.raises(face.errors["unknown id"]):
        talk.answer([(asked.id, APPROVE), (NOBODY, APPROVE)])
    assert (face.ledger.lines, talk.waiting()) == ([], before)
    talk.decide(APPROVE)
    assert face.ledger.lines == ["charge 5"]


@behaviour(8, "wrong kind")
@pytest.mark.parametrize("kind", [Decision.edit({"cents": 1}), Decision.respond("paid")], ids=["edit", "respond"])
def test_a_kind_of_decision_that_the_tool_does_not_allow_changes_nothing(face: Face, kind: Decision) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"], allowed=["approve", "reject"]))
    talk.say("pay")
    before = talk.waiting()
    with pytest.raises(face.errors["wrong kind"]):
        talk.decide(kind)
    assert (face.ledger.lines, talk.waiting()) == ([], before)
    talk.decide(APPROVE)
    assert face.ledger.lines == ["charge 5"]


@behaviour(8, "duplicate id")
def test_two_answers_for_one_id_change_nothing(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"]))
    talk.say("pay")
    [asked] = before = talk.waiting()
    with pytest.raises(face.errors["duplicate id"]):
        talk.answer([(asked.id, APPROVE), (asked.id, Decision.reject())])
    assert (face.ledger.lines, talk.waiting()) == ([], before)
    talk.decide(APPROVE)
    assert face.ledger.lines == ["charge 5"]


@behaviour(9, '`False`, `0` and `""`')
@pytest.mark.parametrize("value", [False, 0, ""], ids=repr)
def test_falsy_values_are_answers(face: Face, value: object) -> None:
    check_answer(face, value)


@behaviour(9, "null")
def test_null_is_an_answer(face: Face) -> None:
    check_answer(face, None)


def check_answer(face: Face, value: object) -> None:
    """Hold that the value reaches the model, and that the turn then ends."""
    talk = face.open(Scene([calls(call("ask", question="Really?")), DONE], free=["ask"]))
    talk.say("go")
    [asked] = talk.waiting()
    talk.answer([(asked.id, value)])
    assert talk.told() == [face.answered(value)]
    assert (talk.waiting(), talk.output) == ([], "done")


@behaviour(11)
def test_an_answer_when_nothing_is_pending_is_an_error(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"]))
    talk.say("pay")
    [asked] = talk.waiting()
    talk.decide(APPROVE)
    with pytest.raises(face.errors["nothing pending"]):
        talk.answer([(asked.id, Decision.reject())])
    assert face.ledger.lines == ["charge 5"]
    assert talk.output == "done"


@behaviour(12, "later calls")
def test_a_sticky_decision_holds_for_later_calls_of_that_tool_and_for_no_other_tool(face: Face) -> None:
    script = [calls(charge(1)), calls(charge(2), call("refund", cents=3)), says("one"), calls(charge(4)), DONE]
    talk = face.open(Scene(script, gated=["charge", "refund"]))
    talk.say("pay")
    talk.decide(Decision.approve(always=True))
    assert face.ledger.lines == ["charge 1", "charge 2"]
    assert [one.tool for one in talk.waiting()] == ["refund"]
    talk.decide(Decision.reject(reason="no", always=True))
    assert talk.output == "one"
    talk.say("and now?")
    assert talk.output == "done"
    assert face.ledger.lines == ["charge 1", "charge 2", "charge 4"]


@behaviour(12, "serialised")
def test_a_sticky_decision_survives_serialising(face: Face) -> None:
    script = [calls(charge(1)), calls(charge(2), call("refund", cents=3)), calls(charge(4)), DONE]
    talk = face.open(Scene(script, gated=["charge", "refund"]), durable=True)
    talk.say("pay")
    talk.decide(Decision.approve(always=True))
    there = talk.in_another_process()
    there.decide(Decision.reject())
    assert face.ledger.lines == ["charge 1", "charge 2", "charge 4"]
    assert (there.waiting(), there.output) == ([], "done")


@behaviour(12, "other agents")
def test_a_sticky_decision_never_reaches_another_agents_tool_of_the_same_name(face: Face) -> None:
    clerk = Scene([calls(charge(10)), says("clerk: charged")], gated=["charge"])
    script = [calls(charge(1)), calls(call("clerk", input="charge 10")), DONE]
    talk = face.open(Scene(script, gated=["charge"], inner={"clerk": clerk}))
    talk.say("pay")
    talk.decide(Decision.approve(always=True))
    assert [one.args for one in talk.waiting()] == [{"cents": 10}]
    assert face.ledger.lines == ["charge 1"]


@behaviour(12, "exact decisions")
def test_an_exact_decision_beats_a_sticky_one(face: Face) -> None:
    talk = face.open(Scene([calls(charge(1), charge(2)), calls(charge(3)), DONE], gated=["charge"]))
    talk.say("pay")
    first, second = talk.waiting()
    talk.answer([(first.id, Decision.approve(always=True)), (second.id, Decision.reject())])
    assert face.ledger.lines == ["charge 1", "charge 3"]
    assert talk.output == "done"
