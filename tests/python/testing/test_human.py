"""hitl.testing.human: which rule answers what."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from hitl import tool
from hitl.client.models import Interrupt
from hitl.testing import Human, UnexpectedInterrupt
from hitl.turn.reasking import GUARDRAILS_CHANGED, TYPES_CHANGED

STRATEGY = {
    "question": "How would you like to organize the files?",
    "header": "Strategy",
    "multiSelect": False,
    "options": [{"label": "By date", "description": "…"}, {"label": "By type", "description": "…"}],
}
FOLDERS = {
    "question": "Which folders?",
    "header": "Folders",
    "multiSelect": True,
    "options": [{"label": "Downloads", "description": "…"}, {"label": "Desktop", "description": "…"}],
}


def approval(name: str = "delete_file", **arguments: Any) -> Interrupt:
    payload = {"type": "tool_approval", "tool_name": name, "tool_args": arguments}
    return Interrupt(interrupt_id="i", type="tool_approval", payload=payload, agent="helper")


def questions(*asked: dict[str, Any]) -> Interrupt:
    return Interrupt(interrupt_id="i", type="user_input", payload={"type": "user_input", "questions": list(asked)})


def custom(type: str = "color_picker") -> Interrupt:
    return Interrupt(interrupt_id="i", type=type, payload={"type": type, "prompt": "Pick"})


@pytest.fixture
def person() -> Human:
    return Human()


def test_approves_and_rejects_tools(person: Human) -> None:
    person.on("delete_file").approve()
    person.on("send_mail").reject("not to customers")
    person.on("charge").reject()
    assert person.answer(approval("delete_file")) == {"approved": True}
    assert person.answer(approval("send_mail")) == {"approved": False, "reason": "not to customers"}
    assert person.answer(approval("charge")) == {"approved": False}


def test_a_tool_can_be_named_by_itself(person: Human) -> None:
    @tool(requires_approval=True)
    def delete_file(path: str) -> None:
        """Delete a file."""

    person.on(delete_file).approve()
    assert person.answer(approval("delete_file")) == {"approved": True}


@pytest.mark.parametrize("name", ["Strategy", STRATEGY["question"]])
def test_a_question_is_named_by_its_header_or_its_text(person: Human, name: str) -> None:
    person.on_question(name).answer("By date")
    assert person.answer(questions(STRATEGY)) == {"answers": {STRATEGY["question"]: "By date"}}


def test_several_questions_are_answered_together(person: Human) -> None:
    person.on_question("Folders").answer(["Desktop"])
    person.on_question("Strategy").answer("something else")
    assert person.answer(questions(STRATEGY, FOLDERS)) == {
        "answers": {STRATEGY["question"]: "something else", FOLDERS["question"]: ["Desktop"]}
    }


@pytest.mark.parametrize("value", [{"hex": "#fff"}, None, False, 0, ""])
def test_any_value_answers_a_type(person: Human, value: Any) -> None:
    person.on_type("color_picker").answer(value)
    assert person.answer(custom()) == value


def test_a_rule_for_a_tool_goes_before_one_for_the_type(person: Human) -> None:
    person.on_type("tool_approval").answer({"approved": False})
    person.on("delete_file").approve()
    assert person.answer(approval("delete_file")) == {"approved": True}
    assert person.answer(approval("charge")) == {"approved": False}


def test_rules_are_used_in_order_and_the_last_one_stays(person: Human) -> None:
    person.on("delete_file").reject("first")
    person.on("delete_file").approve()
    answers = [person.answer(approval()) for _ in range(3)]
    assert answers == [{"approved": False, "reason": "first"}, {"approved": True}, {"approved": True}]


def test_what_was_seen_and_what_was_not_used(person: Human) -> None:
    person.on("delete_file").approve()
    person.on("charge").approve()
    person.answer(approval(path="/tmp/x"))
    assert [seen.tool_args for seen in person.seen] == [{"path": "/tmp/x"}]
    assert [rule.name for rule in person.unused] == ["charge"]


@pytest.mark.parametrize(
    ("interrupt", "hint"),
    [
        (approval(path="/tmp/x"), "human.on('delete_file').approve()"),
        (questions(STRATEGY), "human.on_question('Strategy').answer('By date')"),
        (custom(), "human.on_type('color_picker').answer(...)"),
    ],
    ids=["approval", "question", "custom"],
)
def test_what_nobody_answers_is_shown_with_the_rule_to_add(person: Human, interrupt: Interrupt, hint: str) -> None:
    person.on("something_else").approve()
    with pytest.raises(UnexpectedInterrupt) as caught:
        person.answer(interrupt)
    text = str(caught.value)
    assert caught.value.interrupt is interrupt
    assert hint in text
    assert "human.on('something_else')" in text
    for value in (interrupt.type, *map(str, (interrupt.tool_args or {}).values())):
        assert value in text
    assert person.seen == []


def test_a_question_left_out_is_named(person: Human) -> None:
    person.on_question("Strategy").answer("By date")
    with pytest.raises(UnexpectedInterrupt, match=r"no rule for: 'Which folders\?'"):
        person.answer(questions(STRATEGY, FOLDERS))
    assert person.unused == person.rules


def test_two_questions_of_one_request_take_two_rules(person: Human) -> None:
    asked = questions({**STRATEGY, "question": "First?"}, {**STRATEGY, "question": "Second?"})
    person.on_question("Strategy").answer("By date")
    assert person.answer(asked) == {"answers": {"First?": "By date", "Second?": "By date"}}
    person.on_question("Strategy").answer("By type").on_question("Strategy").answer("By type")
    person.on_question("Strategy").answer("By name")
    assert person.answer(asked) == {"answers": {"First?": "By type", "Second?": "By type"}}
    assert person.answer(asked) == {"answers": {"First?": "By name", "Second?": "By name"}}
    assert [rule.uses for rule in person.rules] == [2, 1, 1, 2]


@pytest.mark.parametrize(
    ("decide", "answer"),
    [
        (lambda on: on.approve(), {"approved": True}),
        (lambda on: on.approve(always=True), {"approved": True, "always": True}),
        (lambda on: on.reject(), {"approved": False}),
        (lambda on: on.reject("no", always=True), {"approved": False, "reason": "no", "always": True}),
        (lambda on: on.reject(message="Ask first."), {"type": "reject", "message": "Ask first."}),
        (lambda on: on.edit(path="/y"), {"type": "edit", "args": {"path": "/y", "force": True}}),
        (lambda on: on.respond("done by hand"), {"type": "respond", "message": "done by hand"}),
        (lambda on: on.respond(None), {"type": "respond", "message": None}),
    ],
)
def test_every_decision_is_one_of_the_wire(person: Human, decide: Any, answer: Any) -> None:
    decide(person.on("delete_file"))
    assert person.answer(approval(path="/x", force=True)) == answer


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda person: person.on(None), "human.on() takes a tool or its name, got None"),
        (lambda person: person.on(len), "hint: a function is made a tool by @tool"),
        (lambda person: person.on_type(3), "human.on_type() takes a str, got 3"),
        (lambda person: person.on_question(STRATEGY), "human.on_question() takes a str, got {"),
        (lambda person: person.on("pay").approve(always="no"), "always is True or False, got 'no'"),
        (
            lambda person: person.on("pay").respond(object()),
            "an answer is a JSON value: value.message is of type object",
        ),
        (lambda person: person.on("pay").edit(cents=float("nan")), "an answer is a JSON value: value.cents is NaN"),
        (lambda person: person.on_type("color").answer({1}), "an answer is a JSON value: value is of type set"),
        (
            lambda person: person.on_type("color").answer({1: 2}),
            "value has a key that is of type int; JSON keys are strings",
        ),
        (lambda person: person.on("pay").edit(to={1: 2}), "value.to has a key that is of type int"),
    ],
)
def test_a_rule_that_is_none_fails_in_the_line_that_writes_it(person: Human, mistake: Any, said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        mistake(person)
    assert person.rules == []


def test_an_answer_is_as_a_server_has_it(person: Human) -> None:
    person.on_type("color_picker").answer({"rgb": (255, 107, 107)})
    prepared = person.prepare(custom())
    assert prepared.value == {"rgb": [255, 107, 107]}
    assert prepared.says({"rgb": [255, 107, 107]})


def test_an_answer_that_the_agent_refused_is_not_given_again(person: Human) -> None:
    refused = "The answer was refused: hex: Value error, not this one"
    again = Interrupt("i2", "color_picker", {"type": "color_picker", "prompt": "Pick"}, message=refused)
    person.on_type("color_picker").answer("red")
    assert person.answer(custom()) == "red"
    with pytest.raises(UnexpectedInterrupt, match=f"answer that the agent takes: {refused}"):
        person.expects(again)
    person.on_type("color_picker").answer("#ff0000")
    assert person.answer(again) == "#ff0000"


@pytest.mark.parametrize(
    "said", ["The answer was refused: at: Input should be a valid date", GUARDRAILS_CHANGED, TYPES_CHANGED]
)
def test_an_edit_that_the_tool_did_not_take_as_it_was_is_not_given_again(person: Human, said: str) -> None:
    first, second = (replace(approval("book", at="2026-01-05"), tool_call_id=call_id) for call_id in ("c1", "c2"))
    person.on("book").edit(at="tomorrow")
    assert person.answer(first) == person.answer(second)
    with pytest.raises(UnexpectedInterrupt, match=f"answer that the agent takes: {said}") as raised:
        person.expects(replace(first, message=said))
    assert "hint: a second rule answers what is asked then, human.on('book').approve()" in str(raised.value)
    person.on("book").edit(at="2026-01-06")
    for asked in (first, second):  # what was refused of the one says nothing of the rule that answers both now
        assert person.answer(replace(asked, message=said)) == {"type": "edit", "args": {"at": "2026-01-06"}}
