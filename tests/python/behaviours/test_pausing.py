"""Pauses: what is asked, how often, and what may be done meanwhile."""

from __future__ import annotations

import json

import pytest

from hitl import Decision
from tests.python.behaviours.catalogue import behaviour
from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.scenes import DONE, Scene, call, calls, charge, says

APPROVE = Decision.approve()


@behaviour(6)
def test_going_on_without_a_decision_asks_the_same_with_the_same_ids(face: Face) -> None:
    talk = face.open(Scene([calls(charge(1), charge(2)), DONE], gated=["charge"]))
    talk.say("pay")
    before = talk.waiting()
    assert len({one.id for one in before}) == 2
    talk.look_again()
    talk.look_again()
    assert (talk.waiting(), face.ledger.lines) == (before, [])
    talk.decide(APPROVE, APPROVE)
    assert sorted(face.ledger.lines) == ["charge 1", "charge 2"]


@behaviour(10)
def test_a_new_message_while_something_is_pending_is_refused(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE, says("again")], gated=["charge"]))
    talk.say("pay")
    before = talk.waiting()
    with pytest.raises(face.errors["new message"]):
        talk.say("hello?")
    assert (talk.waiting(), face.ledger.lines) == (before, [])
    talk.decide(APPROVE)
    assert (face.ledger.lines, talk.output) == (["charge 5"], "done")
    talk.say("hello!")
    assert talk.output == "again"


@behaviour(20)
def test_no_message_is_there_twice_after_a_resume(face: Face) -> None:
    script = [calls(charge(1), charge(2)), calls(charge(3)), DONE]
    talk = face.open(Scene(script, gated=["charge"]))
    talk.say("pay")
    while talk.waiting():
        talk.decide(*[Decision.reject() for _ in talk.waiting()])
    messages = talk.messages()
    assert [message["content"] for message in messages if message["role"] == "user"] == ["pay"]
    made = [made["id"] for message in messages for made in message.get("tool_calls") or ()]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert len(made) == len(set(made)) == 3
    assert answered == made


@behaviour(21)
def test_streaming_pauses_and_resumes_alike(face: Face) -> None:
    scene = Scene([calls(charge(5), content="Let me see."), says("All is paid.")], gated=["charge"])
    talk = face.open(scene, streaming=True)
    talk.say("pay")
    assert "".join(talk.streamed) == "Let me see."
    assert [one.args for one in talk.waiting()] == [{"cents": 5}]
    talk.decide(APPROVE)
    assert "".join(talk.streamed) == "Let me see.All is paid."
    assert len(talk.streamed) > 2, "in pieces"
    assert (talk.output, face.ledger.lines) == ("All is paid.", ["charge 5"])


@behaviour(22)
def test_one_tool_may_ask_several_times_in_turn(face: Face) -> None:
    talk = face.open(Scene([calls(call("survey", questions=["a", "b", "c"])), DONE], free=["survey"]))
    talk.say("go")
    ids = []
    for answer in (1, False, "three"):
        [asked] = talk.waiting()
        ids.append(asked.id)
        talk.answer([(asked.id, answer)])
    assert len(set(ids)) == 3
    assert talk.told() == [json.dumps([1, False, "three"])]


@behaviour(23, "to the approver")
def test_metadata_reaches_the_approver(face: Face) -> None:
    talk = face.open(Scene([calls(call("ask", question="Really?")), DONE], free=["ask"]))
    talk.say("go")
    [asked] = talk.waiting()
    assert asked.metadata == {"risk": "high"}
    assert asked.args["question"] == "Really?"


@behaviour(23, "back to the tool")
def test_whatever_the_approver_says_reaches_the_tool(face: Face) -> None:
    talk = face.open(Scene([calls(call("ask", question="Really?")), DONE], free=["ask"]))
    talk.say("go")
    said = {"answer": "yes", "ticket": 42, "seen": ["a", None]}
    talk.answer([(talk.waiting()[0].id, said)])
    assert json.loads(talk.told()[0]) == said


@behaviour(26)
def test_the_same_question_in_two_turns_has_two_ids(face: Face) -> None:
    script = [calls(charge(5, id="same")), DONE, calls(charge(5, id="same")), DONE]
    talk = face.open(Scene(script, gated=["charge"]))
    talk.say("pay")
    [first] = talk.waiting()
    talk.decide(Decision.reject())
    talk.say("pay")
    [second] = talk.waiting()
    assert first.id != second.id
    talk.decide(APPROVE)
    assert (face.ledger.lines, talk.output) == (["charge 5"], "done")


@behaviour(27, "the turn")
def test_cancelling_the_turn_withdraws_what_it_asks(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"]))
    talk.say("pay")
    [asked] = talk.waiting()
    talk.cancel()
    assert talk.waiting() == []
    with pytest.raises(face.errors["nothing pending"]):
        talk.answer([(asked.id, APPROVE)])
    assert face.ledger.lines == []


@behaviour(27, "a question")
def test_a_question_whose_asker_gave_up_is_withdrawn(face: Face) -> None:
    script = [calls(call("first_answer", questions=["a", "b"]), call("ask", question="c")), DONE]
    talk = face.open(Scene(script, free=["first_answer", "ask"]))
    talk.say("go")
    asked = {one.args["question"]: one for one in talk.waiting()}
    talk.answer([(asked["b"].id, "first")])
    assert [one.args["question"] for one in talk.waiting()] == ["c"]
    with pytest.raises(face.errors["withdrawn"], match="cancelled"):
        talk.answer([(asked["a"].id, "late")])
    talk.answer([(asked["c"].id, "c")])
    assert talk.told() == ['"first"', face.answered("c")]
