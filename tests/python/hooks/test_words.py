"""The words themselves: `Interrupt`, `InterruptException`, responses, ids."""

from __future__ import annotations

import dataclasses
from typing import get_type_hints

from hitl.hooks import Interrupt, InterruptException, InterruptResponse, InterruptResponseContent
from tests.python.hooks.asking import Deleted, answer, approve, delete, make

DONE = {"content": "done"}


def test_an_interrupt_has_four_members_and_a_dict() -> None:
    assert [field.name for field in dataclasses.fields(Interrupt)] == ["id", "name", "reason", "response"]
    asked = Interrupt(id="i", name="n", reason={"why": 1})
    assert (asked.reason, asked.response) == ({"why": 1}, None)
    assert asked.to_dict() == {"id": "i", "name": "n", "reason": {"why": 1}, "response": None}


def test_the_exception_carries_its_interrupt() -> None:
    asked = Interrupt("i", "n")
    assert InterruptException(asked).interrupt is asked
    assert issubclass(InterruptException, Exception)


def test_responses_are_typed_dicts() -> None:
    assert set(get_type_hints(InterruptResponse)) == {"interruptId", "response"}
    assert get_type_hints(InterruptResponseContent) == {"interruptResponse": InterruptResponse}


def test_a_result_shows_what_the_callback_said() -> None:
    result = make([delete("X"), DONE], approve, tools=[Deleted().tool])("go")
    (asked,) = result.interrupts
    assert (asked.name, asked.reason, asked.response) == ("for_delete_tool", "APPROVAL", None)
    assert result.message == {"role": "assistant", "content": []}
    assert str(result) == ""


def test_ids_stay_the_same_while_nobody_answers() -> None:
    agent = make([delete("X", "Y"), DONE], approve, tools=[Deleted().tool])
    first = agent("go")
    assert agent([]).interrupts == first.interrupts
    second = agent(answer(first.interrupts[0]))
    assert second.interrupts == first.interrupts[1:]


def test_ids_differ_between_calls_that_share_a_tool_call_id() -> None:
    deleted = Deleted()
    agent = make([delete("X", ids=["call_1"]), delete("X", ids=["call_1"]), DONE], approve, tools=[deleted.tool])
    first = agent("go")
    second = agent(answer(*first.interrupts))
    assert deleted == ["X"]
    assert second.interrupts[0].id != first.interrupts[0].id
    assert second.interrupts[0].name == first.interrupts[0].name


def test_ids_differ_between_turns() -> None:
    script = [delete("X", ids=["call_1"]), DONE]
    agent = make(script * 2, approve, tools=[Deleted().tool])
    first = agent("go")
    agent(answer(*first.interrupts))
    second = agent("go")
    assert second.interrupts[0].id != first.interrupts[0].id
