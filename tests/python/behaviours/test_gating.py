"""What runs, when, and how often."""

from __future__ import annotations

from contextlib import suppress

from hitl import Decision
from tests.python.behaviours.catalogue import behaviour
from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.scenes import DONE, Scene, call, calls, charge

APPROVE = Decision.approve()
REJECT = Decision.reject()


@behaviour(1)
def test_a_gated_tool_has_no_effect_before_approval_and_exactly_one_after(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"]))
    talk.say("pay")
    [asked] = talk.waiting()
    assert (asked.tool, asked.args, talk.output) == ("charge", {"cents": 5}, None)
    assert face.ledger.lines == []
    talk.decide(APPROVE)
    assert face.ledger.lines == ["charge 5"]
    assert (talk.told(), talk.output) == (["charged 5"], "done")


@behaviour(3)
def test_an_ungated_sibling_runs_once_over_pause_and_resume(face: Face) -> None:
    script = [calls(call("note", text="before"), charge(5), call("note", text="after")), DONE]
    talk = face.open(Scene(script, gated=["charge"], free=["note"]))
    talk.say("pay")
    assert sorted(face.ledger.lines) == ["note after", "note before"], "siblings do not wait for the person"
    talk.decide(APPROVE)
    assert sorted(face.ledger.lines) == ["charge 5", "note after", "note before"]
    assert talk.told() == ["noted before", "charged 5", "noted after"]


@behaviour(4)
def test_of_two_gated_calls_the_answered_one_runs_and_the_other_stays_pending(face: Face) -> None:
    talk = face.open(Scene([calls(charge(1), charge(2)), DONE], gated=["charge"]))
    talk.say("pay")
    first, second = talk.waiting()
    talk.answer([(second.id, APPROVE)])
    assert face.ledger.lines == ["charge 2"]
    assert talk.waiting() == [first]
    talk.answer([(first.id, REJECT)])
    assert face.ledger.lines == ["charge 2"]
    assert talk.told() == [face.rejection("charge"), "charged 2"]


@behaviour(13, "in a later reply")
def test_an_approval_does_not_hold_for_a_call_that_uses_its_id_again(face: Face) -> None:
    """It is bound to the arguments that were shown: the other call is refused, or asked about on its own."""
    script = [calls(charge(1, id="same")), calls(charge(1000, id="same")), DONE]
    talk = face.open(Scene(script, gated=["charge"]))
    talk.say("pay")
    [first] = talk.waiting()
    with face.misuse("later"):
        talk.decide(APPROVE)
        assert face.ledger.lines == ["charge 1"]
        if face.refuses_used_ids:
            assert talk.waiting() == []
            assert "did not run" in talk.told()[-1]
        else:
            [second] = talk.waiting()
            assert (second.args, second.id != first.id) == ({"cents": 1000}, True)
            talk.decide(REJECT)
        assert talk.output == "done"
    assert face.ledger.lines == ["charge 1"]


@behaviour(13, "in one reply")
def test_calls_of_one_reply_that_share_an_id_run_on_no_approval_but_their_own(face: Face) -> None:
    """They are refused, and nobody is asked; or each is asked about."""
    script = [calls(charge(1, id="same"), charge(1000, id="same")), DONE]
    talk = face.open(Scene(script, gated=["charge"]))
    with face.misuse("shared"):
        talk.say("pay")
        if face.refuses_shared_ids:
            assert (talk.waiting(), talk.output) == ([], "done")
            assert ["none of them ran" in told for told in talk.told()] == [True, True]
        while talk.waiting():
            assert face.ledger.lines == []
            talk.answer([(one.id, REJECT) for one in talk.waiting()[:1]])
        assert talk.output == "done"
    assert face.ledger.lines == []


@behaviour(14)
def test_replaying_a_finished_call_has_no_second_effect(face: Face) -> None:
    """Each resume begins from what was kept, and passes the calls that are finished."""
    script = [calls(charge(1), call("note", text="a")), calls(charge(2)), calls(call("note", text="b")), DONE]
    talk = face.open(Scene(script, gated=["charge"], free=["note"]))
    talk.say("pay")
    talk.decide(APPROVE)
    assert sorted(face.ledger.lines) == ["charge 1", "note a"]
    talk.decide(APPROVE)
    assert sorted(face.ledger.lines) == ["charge 1", "charge 2", "note a", "note b"]
    assert talk.output == "done"


@behaviour(15)
def test_an_approved_tool_that_failed_is_not_run_again_by_a_second_resume(face: Face) -> None:
    script = [calls(call("decline", cents=5)), calls(charge(1)), DONE]
    talk = face.open(Scene(script, gated=["decline", "charge"]))
    talk.say("pay")
    talk.decide(APPROVE)
    assert face.ledger.lines == ["decline 5"]
    assert "the bank declined 5" in talk.told()[0]
    talk.decide(APPROVE)
    assert face.ledger.lines == ["decline 5", "charge 1"]
    assert "the bank declined 5" in talk.told()[0]


@behaviour(17, "sees the arguments")
def test_a_policy_sees_the_arguments(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5), charge(500)), DONE], gated=["charge"], policy="over_a_hundred"))
    talk.say("pay")
    assert face.ledger.lines == ["charge 5"]
    assert [one.args for one in talk.waiting()] == [{"cents": 500}]


@behaviour(17, "may be async")
def test_a_policy_may_wait(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5), charge(500)), DONE], gated=["charge"], policy="slow_over_a_hundred"))
    talk.say("pay")
    assert face.ledger.lines == ["charge 5"]
    assert [one.args for one in talk.waiting()] == [{"cents": 500}]


@behaviour(17, "asked once")
def test_a_policy_is_asked_once_however_often_its_call_is_resumed(face: Face) -> None:
    script = [calls(charge(500)), calls(charge(5)), DONE]
    talk = face.open(Scene(script, gated=["charge"], policy="over_a_hundred"))
    talk.say("pay")
    talk.decide(APPROVE)
    assert face.ledger.policy_lines == ["over 500", "over 5"]
    assert face.ledger.lines == ["charge 500", "charge 5"]


@behaviour(17, "fails closed")
def test_a_policy_that_raises_lets_nothing_run(face: Face) -> None:
    talk = face.open(Scene([calls(charge(5)), DONE], gated=["charge"], policy="broken"))
    with suppress(*face.policy_failure):
        talk.say("pay")
        assert [one.tool for one in talk.waiting()] == ["charge"], "a person is asked"
    assert face.ledger.policy_lines == ["broken"]
    assert face.ledger.lines == []
