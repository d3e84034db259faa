"""What several agents of the OpenAI Agents SDK do in one turn: agents as tools, and handoffs."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent

import hitl
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from hitl.ext.openai_agents import as_agent
from hitl.testing import HitlServer
from tests.python.ext.openai_agents_runs import APPROVE, Says, payer, proved
from tests.python.support.prefixes import Effects


async def test_calls_of_agents_as_tools_wait_for_nobody_else() -> None:
    def make(effects: Effects) -> Any:
        inner = payer(effects, [("pay", {"cents": 2}), ("pay", {"cents": 3})])
        tool = inner.as_tool("delegate", "pays", needs_approval=True)
        return Agent(name="boss", tools=[tool], model=Says([("delegate", {"input": "a"})]))

    effects: Effects = []
    result = await hitl.run(make(effects), "go")
    assert [(each.agent, each.tool_name) for each in result.interrupts] == [("boss", "delegate")]
    result = await hitl.run(make(effects), result.state.approve(result.interrupts[0]))
    assert [(each.agent, each.tool_args) for each in result.interrupts] == [
        ("payer", {"cents": 2}),
        ("payer", {"cents": 3}),
    ]
    result = await hitl.run(make(effects), result.state.approve(result.interrupts[1]))
    assert (len(result.interrupts), effects) == (1, [3])
    run, said = await proved(make, lambda asked: APPROVE)
    assert said == ['["paid 2", "paid 3"]']
    assert sorted(run.effects) == [2, 3]


def desk(effects: Effects) -> Agent[Any]:
    """An agent that hands over at once."""
    clerk = payer(effects, handoff_description="pays")
    clerk.name = "clerk"
    return Agent(name="desk", model=Says([("transfer_to_clerk", {})], last="never"), handoffs=[clerk])


async def test_after_a_handoff_the_other_agent_asks_and_goes_on_with_the_conversation() -> None:
    result = await hitl.run(desk([]), "go")
    assert [each.agent for each in result.interrupts] == ["clerk"]
    state = result.state.approve(result.interrupts[0], always=True)
    result = await hitl.run(desk([]), state)
    assert (result.messages[-1].name, result.output) == ("clerk", '["{\\"assistant\\": \\"clerk\\"}", "paid 5"]')


def test_the_next_message_goes_to_whom_the_conversation_was_handed(hitl_server: HitlServer, human: Any) -> None:
    human.on("pay").approve()
    server = hitl_server(desk([]))
    session = server.create_session()
    server.send("go", session)
    reply = server.send("again", session)
    assert (reply.name, reply.content) == ("clerk", '["paid 5"]')


def test_agents_of_one_name_that_hand_over_to_each_other_cannot_be_told_apart() -> None:
    twin = Agent(name="desk", model=Says())
    with pytest.raises(AgentLoadError, match="called 'desk'"):
        load(Agent(name="desk", model=Says(), handoffs=[twin])).target.prepare()


REJECT = {"type": "reject", "message": "not today"}


async def test_a_call_that_is_rejected_is_over_whoever_made_it() -> None:
    def consulted(effects: Effects) -> Any:
        tool = payer(effects).as_tool("delegate", "pays")
        return Agent(name="boss", tools=[tool], model=Says([("delegate", {"input": "a"})]))

    for make, told in ((consulted, ['["not today"]']), (desk, ['{"assistant": "clerk"}', "not today"])):
        run, said = await proved(make, lambda asked: REJECT)
        assert said == told
        assert (run.effects, len(run.requests)) == ([], 1)


async def test_how_to_ask_is_said_by_tool_for_every_agent() -> None:
    tool = payer([]).as_tool("delegate", "pays")
    agent = Agent(name="boss", tools=[tool], model=Says([("delegate", {"input": "a"})]))
    options: Any = {"description": "Money", "allowed_decisions": ["approve"]}
    (asked,) = (await hitl.run(as_agent(agent, approvals={"pay": options}), "go")).interrupts
    assert (asked.message, asked.allowed_decisions) == ("Money", ["approve"])
