"""What outlives a process, a failure of a store, a release."""

from __future__ import annotations

import pytest

from hitl import Decision
from tests.python.behaviours.catalogue import behaviour
from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.scenes import DONE, Scene, call, calls, charge, says

# Each test here starts processes, which on a busy machine takes longer than what they do.
pytestmark = pytest.mark.timeout(600)

APPROVE = Decision.approve()
CLERK = Scene([calls(charge(10)), says("clerk: done")], gated=["charge"])


@behaviour(18, "another process")
def test_asked_here_decided_there(face: Face) -> None:
    """The other process checks that it finds what was left waiting."""
    script = [calls(charge(1), call("note", text="a")), calls(charge(2)), DONE]
    talk = face.open(Scene(script, gated=["charge"], free=["note"]), durable=True)
    talk.say("pay")
    there = talk.in_another_process()
    there.decide(APPROVE)
    assert sorted(face.ledger.lines) == ["charge 1", "note a"]
    assert [one.args for one in there.waiting()] == [{"cents": 2}]
    there.decide(Decision.reject(reason="no"))
    assert sorted(face.ledger.lines) == ["charge 1", "note a"]
    assert there.told() == ["charged 1", "noted a", face.rejection("charge", reason="no")]
    assert there.output == "done"


@behaviour(18, "newer versions")
def test_what_a_newer_version_wrote_is_refused_clearly(face: Face) -> None:
    talk = face.open(Scene([calls(charge(1)), DONE], gated=["charge"]), durable=True)
    talk.say("pay")
    with pytest.raises(face.errors["newer version"], match="(?i)version|newer|later"):
        talk.from_the_future()
    assert face.ledger.lines == []


@behaviour(16, "inner name")
def test_the_root_shows_an_inner_agents_interrupt_under_its_name(face: Face) -> None:
    scene = Scene([calls(call("clerk", input="charge")), DONE], inner={"clerk": CLERK})
    talk = face.open(scene)
    talk.say("pay")
    assert [(one.tool, one.args, one.agent) for one in talk.waiting()] == [("charge", {"cents": 10}, "clerk")]


@behaviour(16, "restart")
def test_an_inner_agents_interrupt_is_answered_after_a_restart(face: Face) -> None:
    scene = Scene([calls(call("clerk", input="charge")), DONE], inner={"clerk": CLERK})
    talk = face.open(scene, durable=True)
    talk.say("pay")
    there = talk.in_another_process()
    there.decide(APPROVE)
    assert face.ledger.lines == ["charge 10"]
    assert (there.told(), there.output) == (["clerk: done"], "done")


@behaviour(16, "two layers")
def test_a_parents_approval_does_not_leak_to_the_child(face: Face) -> None:
    scene = Scene([calls(call("clerk", input="charge")), DONE], inner={"clerk": CLERK}, approve_inner=True)
    talk = face.open(scene)
    talk.say("pay")
    assert [one.tool for one in talk.waiting()] == ["clerk"]
    talk.decide(APPROVE)
    assert face.ledger.lines == []
    assert [one.tool for one in talk.waiting()] == ["charge"]
    talk.decide(APPROVE)
    assert (face.ledger.lines, talk.output) == (["charge 10"], "done")


@behaviour(16, "twice in parallel")
def test_one_inner_agent_called_twice_at_once_asks_with_two_ids(face: Face) -> None:
    scene = Scene([calls(call("clerk", input="a"), call("clerk", input="b")), DONE], inner={"clerk": CLERK})
    talk = face.open(scene)
    talk.say("pay")
    assert len({one.id for one in talk.waiting()}) == 2
    talk.decide(APPROVE, Decision.reject())
    assert face.ledger.lines == ["charge 10"]
    assert talk.output == "done"


@behaviour(19, "step limit")
def test_the_step_limit_counts_over_a_pause(face: Face) -> None:
    """Counted anew after the pause, these model calls would be within the limit."""
    limit = face.step_limit
    notes = [calls(call("note", text=str(number))) for number in range(limit - 1)]
    talk = face.open(Scene([calls(charge(5)), *notes, DONE], gated=["charge"], free=["note"]))
    talk.say("go")
    talk.decide(Decision.reject())
    assert talk.is_out_of_steps
    assert face.ledger.lines[-1] in (f"note {limit - 3}", f"note {limit - 2}")


@behaviour(19, "usage")
def test_usage_is_added_up_over_a_pause(face: Face) -> None:
    script = [calls(charge(5), usage={"input_tokens": 100, "output_tokens": 7}), says("done", {"input_tokens": 120})]
    talk = face.open(Scene(script, gated=["charge"]))
    talk.say("go")
    talk.decide(APPROVE)
    counted = {"requests": 2, "input_tokens": 220, "output_tokens": 7}
    assert talk.usage == {name: talk.usage[name] for name in talk.usage if name == "total_tokens"} | counted


@behaviour(24)
def test_a_store_that_fails_to_save_is_visible(face: Face) -> None:
    """A pause that nobody could find again must not be given out as one."""
    script = [says("hello"), calls(charge(5)), DONE]
    talk = face.open(Scene(script, gated=["charge"]), durable=True)
    talk.say("hi")
    with talk.failing_store(), pytest.raises(face.errors["failed save"]):
        talk.say("pay")
    assert face.ledger.lines == []


@behaviour(25, "an error")
def test_a_context_that_cannot_be_serialised_is_an_error_at_the_pause(face: Face) -> None:
    scene = Scene([calls(charge(5)), DONE], gated=["charge"])
    talk = face.open(scene, context={"user": "ada", "connection": object()})
    with pytest.raises(TypeError, match="connection"):
        talk.say("pay")
    assert face.ledger.lines == []


@behaviour(25, "travels")
def test_a_context_that_can_travels_with_the_pause(face: Face) -> None:
    scene = Scene([calls(charge(5)), calls(call("whose")), DONE], gated=["charge"], free=["whose"])
    talk = face.open(scene, context={"user": "ada"}, durable=True)
    talk.say("pay")
    there = talk.in_another_process()
    there.decide(Decision.reject())
    assert there.told()[-1] == '{"user": "ada"}'
