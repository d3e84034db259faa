"""What a callback may do with an event, and what becomes of the call."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import hitl
from hitl import NothingPending
from hitl.hooks import BeforeToolCallEvent, HookRegistry, Interrupt, InterruptException
from tests.python.hooks.asking import Deleted, answer, approve, delete, make, told

DONE = {"content": "done"}


@pytest.fixture
def deleted() -> Deleted:
    return Deleted()


def test_the_event_shows_the_call(deleted: Deleted) -> None:
    seen: list[Any] = []

    def look(event: BeforeToolCallEvent) -> None:
        seen.append((event.agent, event.tool_use, event.invocation_state, event.cancel_tool))

    agent = make([delete("X", ids=["call_1"]), DONE], look, tools=[deleted.tool])
    agent("go", invocation_state={"user": "ada"})
    assert seen == [
        (agent, {"toolUseId": "call_1", "name": "delete_tool", "input": {"key": "X"}}, {"user": "ada"}, False)
    ]
    assert deleted == ["X"]


def test_a_needed_person_is_an_exception_with_the_question(deleted: Deleted) -> None:
    raised: list[InterruptException] = []

    def ask(event: BeforeToolCallEvent) -> None:
        try:
            event.interrupt("why", reason={"text": "?"})
        except InterruptException as exception:
            raised.append(exception)
            raise

    agent = make([delete("X"), DONE], ask, tools=[deleted.tool])
    result = agent("go")
    assert raised[0].interrupt == result.interrupts[0]
    assert agent(answer(*result.interrupts)).stop_reason == "end_turn"
    assert len(raised) == 2, "once for the question, once in the re-run before its answer was read"


async def test_callbacks_may_be_async(deleted: Deleted) -> None:
    async def ask(event: BeforeToolCallEvent) -> None:
        await asyncio.sleep(0)
        approve(event)

    agent = make([delete("X"), DONE], ask, tools=[deleted.tool])
    result = await agent.invoke_async("go")
    assert deleted == []
    await agent.invoke_async(answer(*result.interrupts))
    assert deleted == ["X"]


@pytest.mark.parametrize("response", [False, 0, "", None, [], {}, {"approved": True}, "A"])
def test_every_json_value_is_an_answer(deleted: Deleted, response: Any) -> None:
    got: list[Any] = []
    agent = make([delete("X"), DONE], lambda event: got.append(event.interrupt("q")), tools=[deleted.tool])
    result = agent("go")
    assert agent(answer(*result.interrupts, response=response)).stop_reason == "end_turn"
    assert got == [response]
    assert type(got[0]) is type(response)


def test_an_answer_that_is_there_beforehand_asks_nobody(deleted: Deleted) -> None:
    got: list[Any] = []
    agent = make([delete("X"), DONE], lambda e: got.append(e.interrupt("q", response="yes")), tools=[deleted.tool])
    assert agent("go").stop_reason == "end_turn"
    assert got == ["yes"]


def test_one_callback_may_ask_again_after_an_answer(deleted: Deleted) -> None:
    got: list[Any] = []

    def ask(event: BeforeToolCallEvent) -> None:
        got.append((event.interrupt("first"), event.interrupt("second"), event.interrupt("first")))

    agent = make([delete("X"), DONE], ask, tools=[deleted.tool])
    first = agent("go")
    assert [each.name for each in first.interrupts] == ["first"]
    second = agent(answer(*first.interrupts, response=1))
    assert [each.name for each in second.interrupts] == ["second"]
    assert agent(answer(*second.interrupts, response=2)).stop_reason == "end_turn"
    assert got == [(1, 2, 1)]
    assert deleted == ["X"]


def test_several_callbacks_of_one_event_ask_at_once(deleted: Deleted) -> None:
    def second(event: BeforeToolCallEvent) -> None:
        if event.interrupt("security") != "A":
            event.cancel_tool = "security said no"

    agent = make([delete("X"), DONE], approve, second, tools=[deleted.tool])
    result = agent("go")
    assert [each.name for each in result.interrupts] == ["for_delete_tool", "security"]
    result = agent(answer(result.interrupts[0]))
    assert [each.name for each in result.interrupts] == ["security"]
    assert deleted == []
    agent(answer(*result.interrupts, response="no"))
    assert told(agent) == ["security said no"]
    assert deleted == []


def test_a_name_that_two_callbacks_of_an_event_use_is_a_value_error(deleted: Deleted) -> None:
    def also(event: BeforeToolCallEvent) -> None:
        event.interrupt("for_delete_tool")

    agent = make([delete("X"), DONE], approve, also, tools=[deleted.tool])
    with pytest.raises(ValueError, match="'for_delete_tool' is used by several callbacks"):
        agent("go")
    assert deleted == []


def test_also_where_one_callback_is_registered_twice(deleted: Deleted) -> None:
    agent = make([delete("X"), DONE], approve, approve, tools=[deleted.tool])
    with pytest.raises(ValueError, match="several callbacks"):
        agent("go")
    assert deleted == []


def test_callbacks_may_be_added_later(deleted: Deleted) -> None:
    agent = make([delete("X"), DONE], tools=[deleted.tool])
    agent.hooks.add_callback(BeforeToolCallEvent, approve)
    assert agent("go").stop_reason == "interrupt"
    assert deleted == []


def test_also_where_the_callback_swallows_the_error(deleted: Deleted) -> None:
    def also(event: BeforeToolCallEvent) -> None:
        with contextlib.suppress(ValueError):
            event.interrupt("for_delete_tool")

    agent = make([delete("X"), DONE], approve, also, tools=[deleted.tool])
    with pytest.raises(ValueError, match="several callbacks"):
        agent("go")
    assert deleted == []


def test_the_same_name_may_be_used_for_every_call(deleted: Deleted) -> None:
    agent = make([delete("X", "Y"), DONE], approve, tools=[deleted.tool])
    result = agent("go")
    assert [each.name for each in result.interrupts] == ["for_delete_tool"] * 2
    agent(answer(*result.interrupts))
    assert sorted(deleted) == ["X", "Y"]


def test_a_callback_that_swallows_the_exception_does_not_let_the_call_through(deleted: Deleted) -> None:
    def careless(event: BeforeToolCallEvent) -> None:
        try:
            approved = event.interrupt("q") == "A"
        except Exception:  # noqa: BLE001
            approved = True
        if not approved:
            event.cancel_tool = "no"

    agent = make([delete("X"), DONE], careless, tools=[deleted.tool])
    result = agent("go")
    assert result.stop_reason == "interrupt"
    assert deleted == []
    agent(answer(*result.interrupts, response="no"))
    assert deleted == []
    assert told(agent) == ["no"]


def test_guardrails_cannot_change_what_the_person_said_yes_to(deleted: Deleted) -> None:
    rewriting = hitl.tool(deleted.tool, input_guardrails=[lambda key: {"key": f"{key}-rewritten"}])
    agent = make([delete("X"), DONE], approve, tools=[rewriting])
    result = agent("go")
    assert result.interrupts
    agent(answer(*result.interrupts))
    assert "guardrails changed what a hook asked a person about" in told(agent)[0]
    assert deleted == []


@pytest.mark.parametrize(
    ("cancel_tool", "text"), [("not today", "not today"), (True, "tool cancelled by user"), (False, None), ("", None)]
)
def test_cancel_tool_is_what_the_model_gets(deleted: Deleted, cancel_tool: Any, text: str | None) -> None:
    def cancel(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = cancel_tool

    agent = make([delete("X"), DONE], cancel, tools=[deleted.tool])
    agent("go")
    assert told(agent) == [text if text is not None else "true"]
    assert deleted == ([] if text is not None else ["X"])


def test_what_a_callback_raises_is_raised_and_nothing_runs(deleted: Deleted) -> None:
    def broken(event: BeforeToolCallEvent) -> None:
        raise ZeroDivisionError("broken")

    agent = make([delete("X"), DONE], broken, tools=[deleted.tool])
    with pytest.raises(ZeroDivisionError, match="broken"):
        agent("go")
    assert deleted == []


def test_it_is_raised_at_once_also_where_another_call_waits_for_a_person(deleted: Deleted) -> None:
    def broken(event: BeforeToolCallEvent) -> None:
        assert event.tool_use is not None
        if event.tool_use["input"]["key"] == "Y":
            raise ZeroDivisionError("broken")

    agent = make([delete("X", "Y"), DONE, DONE], approve, broken, tools=[deleted.tool])
    with pytest.raises(ZeroDivisionError):
        agent("go")
    assert deleted == []
    with pytest.raises(NothingPending):
        agent(answer(Interrupt("any", "name")))


def test_a_made_up_exception_is_no_question(deleted: Deleted) -> None:
    def made_up(event: BeforeToolCallEvent) -> None:
        raise InterruptException(Interrupt("id", "name"))

    agent = make([delete("X"), DONE], made_up, tools=[deleted.tool])
    with pytest.raises(InterruptException):
        agent("go")
    assert deleted == []


def test_the_call_cannot_be_changed_behind_the_persons_back(deleted: Deleted) -> None:
    def rewrite(event: BeforeToolCallEvent) -> None:
        assert event.tool_use is not None
        event.tool_use["input"]["key"] = "Y"

    agent = make([delete("X"), DONE], rewrite, tools=[deleted.tool])
    with pytest.raises(TypeError, match="changed the tool_use of delete_tool"):
        agent("go")
    assert deleted == []


def test_only_cancel_tool_can_be_set() -> None:
    event = BeforeToolCallEvent(tool_use={"toolUseId": "1", "name": "t", "input": {}})
    event.cancel_tool = "no"
    for name in ("tool_use", "agent", "selected_tool"):
        with pytest.raises(AttributeError, match=name):
            setattr(event, name, None)


def test_an_event_without_an_agent_cannot_ask() -> None:
    event = BeforeToolCallEvent(tool_use={"toolUseId": "1", "name": "t", "input": {}})
    with pytest.raises(RuntimeError, match="agent instance attribute not set"):
        event.interrupt("q")


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_question_needs_a_name(deleted: Deleted, name: Any) -> None:
    agent = make([delete("X"), DONE], lambda event: event.interrupt(name), tools=[deleted.tool])
    with pytest.raises(TypeError, match="needs a name"):
        agent("go")


def test_a_reason_that_is_no_json_is_an_error(deleted: Deleted) -> None:
    agent = make([delete("X"), DONE], lambda event: event.interrupt("q", reason=object()), tools=[deleted.tool])
    with pytest.raises(TypeError, match="reason"):
        agent("go")
    assert deleted == []


def test_the_registry_takes_callbacks_of_this_event_only() -> None:
    registry = HookRegistry()
    with pytest.raises(TypeError, match="BeforeToolCallEvent"):
        registry.add_callback(str, print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="callable"):
        registry.add_callback(BeforeToolCallEvent, "approve")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="register_hooks"):
        registry.add_hook(print)  # type: ignore[arg-type]
