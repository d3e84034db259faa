"""Deciding is checked at once, and changes nothing when it fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import hitl
from hitl import InvalidAnswer, ReActAgent, RunState, tool
from hitl.testing import ScriptedChatClient
from hitl.tools import asking
from tests.python.runs.support import Files


@pytest.fixture
async def state() -> RunState:
    paused = await hitl.run(Files().agent("/a", "/b"), "clean up")
    assert paused.state is not None
    return paused.state


async def test_an_unknown_interrupt(state: RunState) -> None:
    before = state.to_string()
    with pytest.raises(KeyError) as raised:
        state.approve("01a20028-ac0e-7717-82c5-7e4e19e407bd")
    assert isinstance(raised.value, hitl.UnknownInterrupt)
    assert state.to_string() == before


@pytest.mark.parametrize(
    "value",
    [{"type": "approve", "approved": False}, {"approved": "false"}, {"approved": None}, {"type": "maybe"}, True, None],
)
async def test_an_invalid_answer(state: RunState, value: object) -> None:
    before = state.to_string()
    with pytest.raises(ValueError, match="Invalid answer") as raised:
        state.answer(state.interrupts[0], value)
    assert isinstance(raised.value, hitl.InvalidAnswer)
    assert raised.value.errors
    assert state.to_string() == before


@pytest.mark.parametrize("decide", ["approve", "reject", "edit", "respond"])
async def test_a_decision_about_a_question_that_is_no_tool_approval(decide: str) -> None:
    async def pays(message: hitl.ChatMessage, messages: list[hitl.ChatMessage]) -> object:
        goes_on = await hitl.interrupt({"type": "confirm", "prompt": "Pay for it?"})
        return hitl.ChatMessage.assistant_message(content="paid" if goes_on else "given back"), messages

    paused = await hitl.run(pays, "two chairs")
    assert paused.state is not None
    before = paused.state.to_string()
    arguments = [{}] if decide in ("edit", "respond") else []
    with pytest.raises(InvalidAnswer, match="type tool_approval, and this one is of type confirm") as raised:
        getattr(paused.state, decide)(paused.interrupts[0], *arguments)
    assert raised.value.errors[0]["type"] == "other_type"
    assert paused.state.to_string() == before
    done = await hitl.run(pays, paused.state.answer(paused.interrupts[0], False))
    assert done.output == "given back"


async def test_a_state_is_for_the_agent_that_it_was_approved_for(state: RunState) -> None:
    state.approve(state.interrupts[0])
    files = Files()
    other = files.agent("/a", "/b", name="payroll")
    with pytest.raises(hitl.RunStateError, match="is of agent 'ReActAgent', and this one is 'payroll'") as raised:
        await hitl.run(other, state)
    assert raised.value.code == "run_state_other_agent"
    with pytest.raises(hitl.RunStateError, match="name='ReActAgent'"):
        RunState.from_string(other, state.to_string())
    assert files.deleted == []
    same = Files()
    await hitl.run(same.agent("/a", "/b"), RunState.from_string(same.agent("/a", "/b"), state.to_string()))
    assert same.deleted == ["/a"]


async def test_another_decision_than_the_first(state: RunState) -> None:
    first = state.interrupts[0]
    state.approve(first)
    after = state.to_string()
    state.approve(first)
    with pytest.raises(hitl.AlreadyResolved):
        state.reject(first)
    assert state.to_string() == after


async def test_a_question_that_the_agent_withdrew() -> None:
    async def first_of_two(message: hitl.ChatMessage, messages: list[hitl.ChatMessage]) -> object:
        asked = [asyncio.ensure_future(hitl.interrupt({"about": about})) for about in ("one", "two")]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        asked[1].cancel()
        await hitl.interrupt({"about": "three"})
        return hitl.ChatMessage.assistant_message(content="done"), messages

    paused = await hitl.run(first_of_two, "go")
    assert paused.state is not None
    paused = await hitl.run(first_of_two, paused.state.answer(paused.interrupts[0], 1))
    assert paused.state is not None
    before = paused.state.to_string()
    withdrawn = next(entry["interrupt_id"] for entry in json.loads(before)["journal"] if entry["entry"] == "withdraw")
    with pytest.raises(hitl.InterruptCancelled):
        paused.state.answer(withdrawn, 2)
    assert paused.state.to_string() == before


async def test_several_answers_are_all_or_none(state: RunState) -> None:
    first, second = state.interrupts
    before = state.to_string()
    with pytest.raises(hitl.InvalidAnswer):
        state.answer_all({first.id: {"approved": True}, second.id: {"approved": 1}})
    assert state.to_string() == before
    state.answer_all({first.id: {"approved": True}, second.id: {"type": "reject"}})
    assert (state.interrupts, list(state.answers)) == ([], [first.id, second.id])


async def test_what_is_no_interrupt_is_a_type_error(state: RunState) -> None:
    with pytest.raises(TypeError, match="an Interrupt or its id"):
        state.approve(3)  # type: ignore[arg-type]


class TestAnEditThatTheCodeDoesNotAllowAnyMore:
    """It was offered, and the person was told that it counts: it is never taken and dropped."""

    @staticmethod
    def agent(ran: list[str], *allowed: Any, texts: str = "ab") -> ReActAgent:
        @tool(requires_approval=True, allowed_decisions=allowed, approval_description="To the archive.")
        async def write(text: str) -> str:
            ran.append(text)
            return f"wrote {text}"

        calls = [{"name": "write", "args": {"text": text}} for text in texts]
        client = ScriptedChatClient([{"tool_calls": calls}, {"content": "done"}])
        return ReActAgent(client=client, model_name="scripted", tools=[write])

    async def test_is_asked_about_again_with_what_is_allowed_now(self) -> None:
        ran: list[str] = []
        paused = await hitl.run(self.agent(ran, "approve", "edit"), "go")
        assert paused.state is not None
        first, second = paused.interrupts
        text = paused.state.edit(first, {"text": "A"}).to_string()

        tightened = self.agent(ran, "approve")
        again = await hitl.run(tightened, RunState.from_string(tightened, text))
        assert (again.status, ran) == ("interrupted", [])
        waits, asked = again.interrupts
        assert waits.id == second.id
        assert (asked.tool_args, asked.allowed_decisions) == ({"text": "a"}, ["approve"])
        assert asked.message == "To edit is not allowed any more: please decide again. To the archive."

        assert again.state is not None
        with pytest.raises(InvalidAnswer):
            again.state.edit(asked, {"text": "A"})
        done = await hitl.run(tightened, again.state.approve(asked).approve(waits))
        assert (done.status, sorted(ran)) == ("idle", ["a", "b"])

    async def test_is_asked_about_again_also_where_another_call_was_answered_after_it(self) -> None:
        ran: list[str] = []
        paused = await hitl.run(self.agent(ran, "approve", "edit"), "go")
        assert paused.state is not None
        first, second = paused.interrupts
        text = paused.state.edit(first, {"text": "A"}).approve(second).to_string()

        tightened = self.agent(ran, "approve")
        again = await hitl.run(tightened, RunState.from_string(tightened, text))
        assert (again.status, ran) == ("interrupted", ["b"])
        [asked] = again.interrupts
        assert asked.message == "To edit is not allowed any more: please decide again. To the archive."

        assert again.state is not None
        done = await hitl.run(tightened, again.state.approve(asked))
        assert (done.status, ran) == ("idle", ["b", "a"])

    async def test_stands_where_the_turn_has_gone_on_with_it(self) -> None:
        ran: list[str] = []
        before = self.agent(ran, "approve", "edit")
        paused = await hitl.run(before, "go")
        assert paused.state is not None
        first, second = paused.interrupts
        later = await hitl.run(before, paused.state.edit(first, {"text": "A"}))
        assert later.state is not None
        text = later.state.approve(second).to_string()

        tightened = self.agent(ran, "approve")
        done = await hitl.run(tightened, RunState.from_string(tightened, text))
        assert (done.status, ran) == ("idle", ["A", "b"])

    async def test_stands_where_a_release_went_on_with_it_for_another_answer_came_after_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def takes_it(*_: Any) -> bool:
            return False

        ran: list[str] = []
        paused = await hitl.run(self.agent(ran, "approve", "edit", texts="abc"), "go")
        assert paused.state is not None
        first, second, third = paused.interrupts
        text = paused.state.edit(first, {"text": "A"}).approve(second).to_string()

        tightened = self.agent(ran, "approve", texts="abc")
        with monkeypatch.context() as before:
            before.setattr(asking, "_is_withdrawn", takes_it)
            later = await hitl.run(tightened, RunState.from_string(tightened, text))
        assert (later.status, sorted(ran)) == ("interrupted", ["A", "b"])
        assert later.state is not None
        done = await hitl.run(tightened, later.state.approve(third))
        assert (done.status, sorted(ran)) == ("idle", ["A", "b", "c"])


async def test_asking_for_an_interrupt_that_is_none_says_so() -> None:
    paused = await hitl.run(Files().agent("/a"), "clean up")
    assert paused.state is not None
    assert paused.state.interrupt(paused.interrupts[0].id) == paused.interrupts[0]
    with pytest.raises(hitl.UnknownInterrupt, match="no interrupt 'another'"):
        paused.state.interrupt("another")


LARGE: dict[str, Any] = {"type": "object", "properties": {"city": {"enum": [f"é{at}" for at in range(9_000)]}}}


async def test_where_the_schema_is_too_large_to_be_shown_an_edit_is_not_offered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """None of its calls could be approved: the server refused to ask."""

    @tool(requires_approval=True, schema=LARGE)
    async def travel(city: str) -> str:
        return f"to {city}"

    calls = [{"name": "travel", "args": {"city": city}} for city in ("é1", "é2")]
    agent = ReActAgent(client=ScriptedChatClient([{"tool_calls": calls}, {"content": "done"}]), tools=[travel])
    paused = await hitl.run(agent, "go")
    assert paused.state is not None
    assert [asked.allowed_decisions for asked in paused.interrupts] == [["approve", "reject"]] * 2
    with pytest.raises(InvalidAnswer):
        paused.state.edit(paused.interrupts[0], {"city": "é3"})
    for asked in paused.interrupts:
        paused.state.approve(asked)
    done = await hitl.run(agent, paused.state)
    assert [message.content for message in done.messages if message.role == "tool"] == ["to é1", "to é2"]
    [said] = [record.getMessage() for record in caplog.records if "cannot be edited" in record.getMessage()]
    assert "its schema is 79940 bytes of JSON, the limit is 65536" in said


async def test_an_author_s_own_schema_that_is_too_large_to_be_shown_cannot_be_asked_with() -> None:
    async def asks(message: hitl.ChatMessage, messages: list[hitl.ChatMessage]) -> object:
        with pytest.raises(hitl.InvalidPayload, match="args_schema is 79940 bytes of JSON, the limit is 65536"):
            await hitl.approval("travel", {"city": "é1"}, args_schema=LARGE)
        return hitl.ChatMessage.assistant_message(content="stays"), messages

    assert (await hitl.run(asks, "go")).output == "stays"
