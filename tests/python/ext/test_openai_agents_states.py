"""Runs that the OpenAI Agents SDK has paused by itself, brought to a server: anybody may have written them."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool, set_tracing_disabled
from agents.testing import function_call

import hitl
from hitl.ext.openai_agents import message_of
from hitl.testing import HitlServer
from tests.python.ext.openai_agents_runs import Once, Says, payer
from tests.python.support.prefixes import Effects


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def delegating(effects: Effects) -> Agent[Any]:
    """An agent that lets another one pay."""
    tool = payer(effects).as_tool("delegate", "pays")
    return Agent(name="boss", tools=[tool], model=Says([("delegate", {"input": "a"})]))


def delegating_twice(effects: Effects) -> Agent[Any]:
    """An agent that lets another one let another one pay."""
    tool = delegating(effects).as_tool("direct", "lets pay")
    return Agent(name="director", tools=[tool], model=Says([("direct", {"input": "a"})]))


def asking_both(effects: Effects, ids: tuple[str, str], cents: tuple[int, int] = (5, 6)) -> Agent[Any]:
    """An agent that lets two others pay at once, whose calls have these ids."""
    calls = [function_call("pay", {"cents": n}, call_id=each) for n, each in zip(cents, ids, strict=True)]
    payers = [payer(effects, name=f"payer {n}", model=Once(call)) for n, call in enumerate(calls)]
    tools = [each.as_tool(f"ask_{n}", "pays") for n, each in enumerate(payers)]
    return Agent(name="boss", tools=tools, model=Says([(tool.name, {"input": "a"}) for tool in tools]))


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


async def left_open(make: Any) -> Any:
    """A run of the SDK's, in which nothing is decided, gone on with."""
    theirs = await Runner.run(make([]), "go")
    return message_of(theirs.to_state())


@pytest.mark.parametrize("make", [payer, delegating, delegating_twice])
async def test_what_a_person_changed_in_a_call_of_a_state_runs_in_whatever_run_it_was_made(make: Any) -> None:
    effects: Effects = []
    asked = await hitl.run(make(effects), await left_open(make))
    result = await hitl.run(make(effects), asked.state.edit(asked.interrupts[0], {"cents": 1}))
    assert (result.status, effects) == ("idle", [1])


@pytest.mark.parametrize("make", [payer, delegating, delegating_twice])
async def test_a_call_of_a_state_in_whose_place_a_person_says_something_does_not_run(make: Any) -> None:
    effects: Effects = []
    asked = await hitl.run(make(effects), await left_open(make))
    result = await hitl.run(make(effects), asked.state.respond(asked.interrupts[0], "done by hand"))
    assert (result.status, effects) == ("idle", [])
    assert "done by hand" in str(result.output)


@pytest.mark.parametrize("ids", [("call_1", "call_2"), ("call_1", "call_1")])
async def test_each_call_in_the_agents_as_tools_of_a_state_is_decided_by_itself_and_made_once(
    ids: tuple[str, str],
) -> None:
    def make(effects: Effects) -> Agent[Any]:
        return asking_both(effects, ids)

    effects: Effects = []
    asked = await hitl.run(make(effects), await left_open(make))
    assert [each.payload["tool_args"] for each in asked.interrupts] == [{"cents": 5}, {"cents": 6}]
    between = await hitl.run(make(effects), asked.state.edit(asked.interrupts[0], {"cents": 1}))
    assert ([each.payload["tool_args"] for each in between.interrupts], effects) == ([{"cents": 6}], [1])
    result = await hitl.run(make(effects), between.state.edit(between.interrupts[0], {"cents": 2}))
    assert (result.status, result.output, effects) == ("idle", '["paid 1", "paid 2"]', [1, 2])


@pytest.mark.parametrize("refused", [0, 1])
async def test_of_several_calls_in_an_agent_as_a_tool_of_a_state_one_may_be_refused(refused: int) -> None:
    def make(effects: Effects) -> Agent[Any]:
        tool = payer(effects, [("pay", {"cents": 5}), ("pay", {"cents": 6})]).as_tool("delegate", "pays")
        return Agent(name="boss", tools=[tool], model=Says([("delegate", {"input": "a"})]))

    effects: Effects = []
    asked = await hitl.run(make(effects), await left_open(make))
    between = await hitl.run(make(effects), asked.state.reject(asked.interrupts[refused]))
    assert (len(between.interrupts), effects) == (1, [])
    result = await hitl.run(make(effects), between.state.approve(between.interrupts[0]))
    assert (result.status, effects) == ("idle", [[6, 5][refused]])


async def test_nobody_is_asked_about_calls_of_a_state_that_the_sdk_cannot_tell_from_each_other() -> None:
    def make(effects: Effects) -> Agent[Any]:
        alike = payer(effects, model=Once(function_call("pay", {"cents": 5}, call_id="call_1")))
        model = Says([("delegate", {"input": "a"}), ("delegate", {"input": "b"})])
        return Agent(name="boss", tools=[alike.as_tool("delegate", "pays")], model=model)

    effects: Effects = []
    result = await hitl.run(make(effects), await left_open(make))
    assert (result.status, result.interrupts, effects) == ("error", [], [])
    assert "unique call IDs" in str(result.error)
