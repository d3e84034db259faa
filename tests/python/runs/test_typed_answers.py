"""An answer that only the validators of a type refuse: refused at once where the type is, asked for again elsewhere."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import hitl
from hitl import ChatMessage, RunState
from hitl.testing import HitlServer, ScriptedChatClient

BAD, GOOD = {"cents": 7}, {"cents": 8}
WORDS = "cents: Value error, must be even"


class Amount(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


async def payer(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    asking = hitl.interrupt({"type": "amount"}, message="How much?", response_schema=Amount, expires_in=3600)
    amount = await asking
    assert isinstance(amount, Amount)
    return ChatMessage.assistant_message(content=f"paid {amount.cents}"), state


def at(time: str | None) -> datetime:
    assert time is not None
    return datetime.fromisoformat(time)


async def paused() -> RunState:
    state = (await hitl.run(payer, "pay")).state
    assert state is not None
    return state


async def test_the_process_that_asked_refuses_it_at_once_and_it_stays_answerable() -> None:
    state = await paused()
    before = state.to_string()
    [asked] = state.interrupts
    with pytest.raises(hitl.InvalidAnswer, match=WORDS) as refused:
        state.answer(asked, BAD)
    assert refused.value.errors == [{"loc": ["cents"], "msg": "Value error, must be even", "type": "value_error"}]
    assert state.to_string() == before
    result = await hitl.run(payer, state.answer(asked, GOOD))
    assert result.output == "paid 8"


async def test_what_the_schema_refuses_is_said_as_a_server_says_it() -> None:
    state = await paused()
    elsewhere = RunState.from_string(payer, state.to_string())
    said = []
    for one in (state, elsewhere):
        for value in ({"cents": "many"}, {}, object()):
            with pytest.raises((hitl.InvalidAnswer, TypeError)) as refused:
                one.answer(one.interrupts[0], value)
            said.append((type(refused.value), str(refused.value)))
    assert said[:3] == said[3:]


async def test_several_answers_are_all_or_none() -> None:
    async def both(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        asked = [hitl.interrupt({"type": "amount"}, response_schema=Amount) for _ in range(2)]
        first, second = await asyncio.gather(*asked)
        return ChatMessage.assistant_message(content=f"{first.cents} {second.cents}"), state

    state = (await hitl.run(both, "pay")).state
    assert state is not None
    first, second = state.interrupts
    with pytest.raises(hitl.InvalidAnswer, match=WORDS):
        state.answer_all({first.id: GOOD, second.id: BAD})
    assert state.answers == {}
    assert (await hitl.run(both, state.answer_all({first.id: GOOD, second.id: GOOD}))).output == "8 8"


async def test_another_process_asks_again_with_the_words_of_the_validator() -> None:
    state = RunState.from_string(payer, (await paused()).to_string())
    [first] = state.interrupts
    again = await hitl.run(payer, state.answer(first, BAD))
    assert again.status == "interrupted"
    [second] = again.interrupts
    assert second.id != first.id
    assert second.message == f"The answer was refused: {WORDS} How much?"
    assert (second.type, second.payload, second.response_schema) == (first.type, first.payload, first.response_schema)
    assert abs(at(second.expires_at) - at(first.expires_at)) < timedelta(seconds=1)
    assert again.state is not None
    with pytest.raises(hitl.InvalidAnswer, match=WORDS):  # this process knows the type now
        again.state.answer(second, BAD)
    third = RunState.from_string(payer, again.state.to_string())
    assert (await hitl.run(payer, third.answer(second.id, GOOD))).output == "paid 8"


def test_a_server_asks_again(hitl_server: HitlServer) -> None:
    live = hitl_server(payer)
    session = live.create_session()
    live.client.send_message(session.session_id, "pay")
    [first] = live.client.wait(session.session_id, 100).interrupts
    live.client.answer(first.interrupt_id, BAD)
    [second] = live.client.wait(session.session_id, 100).interrupts
    assert second.message == f"The answer was refused: {WORDS} How much?"
    answered: Any = live.client.get_interrupt(first.interrupt_id)
    assert (answered.status, answered.value) == ("resolved", BAD)
    live.client.answer(second.interrupt_id, GOOD)
    done = live.client.wait(session.session_id, 100)
    assert done.response is not None
    assert done.response.content == "paid 8"


async def test_in_tools_and_threads_over_any_number_of_pauses() -> None:
    paid: list[int] = []

    @hitl.tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        amount = hitl.interrupt.sync({"type": "amount"}, response_schema=Amount)
        paid.append(amount.cents)
        return "paid"

    script: list[dict[str, Any]] = [{"tool_calls": [{"name": "pay", "args": {}}] * 2}, {"content": "done"}]
    agent = hitl.ReActAgent(client=ScriptedChatClient(script), model_name="scripted", tools=[pay])
    result = await hitl.run(agent, "pay twice")
    messages: list[str | None] = []
    for answer in ({"approved": True}, BAD, BAD, GOOD):
        assert result.state is not None
        state = RunState.from_string(agent, result.state.to_string())
        messages += [asked.message for asked in state.interrupts]
        state.answer_all({asked.id: answer for asked in state.interrupts})
        result = await hitl.run(agent, state)
    assert (result.output, paid) == ("done", [8, 8])
    refused = f"The answer was refused: {WORDS}"
    assert messages == [None, None, None, None, refused, refused, refused, refused]
