"""Runs that the OpenAI Agents SDK has paused by itself, brought to a server: anybody may have written them."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool, set_tracing_disabled

import hitl
from hitl.ext.openai_agents import message_of
from hitl.testing import HitlServer
from tests.python.ext.openai_agents_runs import Says, payer
from tests.python.support.prefixes import Effects


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def delegating(effects: Effects) -> Agent[Any]:
    """An agent that lets another one pay."""
    tool = payer(effects).as_tool("delegate", "pays")
    return Agent(name="boss", tools=[tool], model=Says([("delegate", {"input": "a"})]))


def shouting(effects: Effects) -> Agent[Any]:
    """One with a tool that says by itself whether a call needs approval."""

    async def always(context: Any, arguments: Any, call_id: str) -> bool:
        return True

    @function_tool(needs_approval=always)
    def shout(text: str) -> str:
        effects.append(text)
        return text.upper()

    return Agent(name="loud", tools=[shout], model=Says([("shout", {"text": "hi"})]))


async def decided(make: Any, always: bool) -> str:
    """A run of the SDK's, whose every call is approved in it."""
    state = (await Runner.run(make([]), "go")).to_state()
    assert isinstance(state, RunState)
    for asked in state.get_interruptions():
        state.approve(asked, always_approve=always)
    return state.to_string()


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("make", [payer, delegating, shouting])
async def test_what_was_decided_in_a_state_that_a_server_is_sent_is_asked_again(
    hitl_server: HitlServer, make: Any, always: bool
) -> None:
    message = message_of(await decided(make, always))
    effects: Effects = []
    client = hitl_server(make(effects)).client
    session = client.create_session()
    client.send_message(session.session_id, message)
    asked = client.wait(session.session_id)
    assert (asked.status, len(asked.interrupts or []), effects) == ("interrupted", 1, [])
    client.answer(asked.interrupts[0].interrupt_id, {"approved": False})
    assert (client.wait(session.session_id).status, effects) == ("idle", [])


async def test_whoever_holds_a_run_is_believed_what_was_decided_in_it() -> None:
    effects: Effects = []
    result = await hitl.run(payer(effects), message_of(await decided(payer, False)))
    assert (result.output, effects) == ('["paid 5"]', [5])
