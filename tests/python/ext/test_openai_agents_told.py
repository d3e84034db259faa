"""What agents of the OpenAI Agents SDK are told of a turn that was given up, from every prefix of the journal too."""

from __future__ import annotations

from typing import Any

from agents import Agent, SQLiteSession

from hitl.ext.openai_agents import as_agent
from tests.python.ext.openai_agents_runs import Says
from tests.python.ext.proof import GIVEN_UP
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

CALL = {"type": "function_call", "call_id": "t1", "name": "pay", "arguments": '{"cents": 5}'}
RESULT = {"type": "function_call_output", "call_id": "t1", "output": "told"}
PAY, DID_YOU = {"role": "user", "content": "Pay five."}, {"role": "user", "content": "Did you?"}


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
    assert await shown() == [PAY, CALL, RESULT, DID_YOU]
