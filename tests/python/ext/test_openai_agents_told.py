"""What agents of the OpenAI Agents SDK are told of a turn that was given up, from every prefix of the journal too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agents import Agent, SQLiteSession

from hitl import ChatMessage
from hitl.ext.openai_agents import as_agent
from hitl.ext.openai_agents.sessions import without_known
from tests.python.ext.openai_agents_runs import Says
from tests.python.ext.proof import GIVEN_UP
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

CALL: Any = {"type": "function_call", "call_id": "t1", "name": "pay", "arguments": '{"cents": 5}'}
RESULT: Any = {"type": "function_call_output", "call_id": "t1", "output": "told"}
PAY: Any = {"role": "user", "content": "Pay five."}
DID_YOU: Any = {"role": "user", "content": "Did you?"}

ONE: Any = {**CALL, "arguments": '{"cents": 1}'}
DONE: Any = {"role": "assistant", "content": "Done."}

AGAIN = [{**CALL, "call_id": "t1_"}, {**RESULT, "call_id": "t1_"}]  # the SDK has one of two calls with one id


async def told(**options: Any) -> tuple[list[Any], Run]:
    """What the model is shown of a conversation that begins so."""
    seen: list[Any] = []

    def make(effects: Effects) -> Any:
        return as_agent(Agent(name="payer", model=Says(last="Yes.", seen=seen)), **options)

    run = await run_all_prefixes(make, None, message="Did you?", journal_start={"abandoned": GIVEN_UP})
    return seen[0], run


async def test_the_input_begins_with_it() -> None:
    shown, run = await told()
    assert shown == [PAY, CALL, RESULT, DID_YOU]
    assert [message.content for message in run.state] == ["Pay five.", None, "told", "Did you?", "Yes."]


async def test_of_a_session_of_the_sdk_s_only_what_that_does_not_have_is_told() -> None:
    async def shown(*kept: Any) -> list[Any]:
        session = SQLiteSession("s")
        await session.add_items(list(kept))
        seen, _ = await told(session=lambda session_id: session)
        return seen

    assert await shown(PAY, CALL, RESULT) == [PAY, CALL, RESULT, DID_YOU]
    assert await shown(PAY) == [PAY, CALL, RESULT, DID_YOU]
    assert await shown(PAY, CALL) == [PAY, CALL, RESULT, DID_YOU]
    assert await shown() == [PAY, CALL, RESULT, DID_YOU]


@pytest.mark.parametrize(
    "earlier",
    [
        [PAY, CALL, RESULT, DONE],
        [{"role": "user", "content": "Pay one."}, ONE, RESULT, DONE],
        [{"role": "user", "content": "Pay one."}, ONE, RESULT],  # the tool had the last word
    ],
    ids=["the same", "other arguments", "no last message"],
)
async def test_what_an_earlier_turn_of_its_has_is_told_where_the_model_repeats_ids(earlier: list[Any]) -> None:
    session = SQLiteSession("s")
    await session.add_items([*earlier, PAY])
    seen, _ = await told(session=lambda session_id: session)
    assert seen == [*earlier, PAY, *AGAIN, DID_YOU]


async def test_of_a_session_that_has_nothing_of_it_the_message_is_told_as_well() -> None:
    session = SQLiteSession("s")
    await session.add_items([PAY, CALL, RESULT, DONE])
    seen, _ = await told(session=lambda session_id: session)
    assert seen == [PAY, CALL, RESULT, DONE, PAY, *AGAIN, DID_YOU]


async def test_what_two_turns_did_is_told_once_where_the_session_has_one_of_them() -> None:
    """The model had said the same in both."""
    message = [ChatMessage.user_message(content="Pay five.")]
    call: Any = {"id": "t1", "type": "function", "function": {"name": "pay", "arguments": '{"cents":5}'}}
    reply = ChatMessage.assistant_message(content=None, tool_calls=[call])
    result = ChatMessage.tool_message(content="told", tool_call_id="t1", name="pay")
    turn = [*message, reply, result]
    own: Any = {**call, "id": "t1_"}
    renamed = [replace(reply, tool_calls=[own]), replace(result, tool_call_id="t1_")]

    async def unknown(*kept: Any) -> list[ChatMessage]:
        session = SQLiteSession("s")
        await session.add_items(list(kept))
        local = LocalTurn()
        made = await local.run(without_known, [*turn, *turn], session)
        await local.end()
        return made

    assert await unknown(PAY, CALL, RESULT, PAY, CALL, RESULT) == []
    assert await unknown(PAY, CALL, RESULT, PAY) == renamed
    assert await unknown(PAY, CALL, RESULT) == [*message, *renamed]
