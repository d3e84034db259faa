"""Handoffs: one conversation, several agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitl import ChatMessage, ReActAgent, tool
from hitl.agents.react import MaxStepsExceeded
from hitl.testing import ScriptedChatClient
from tests.python.support.local import LocalTurn, run_locally
from tests.python.support.prefixes import Effects, run_all_prefixes


def to(name: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": f"transfer_to_{name}"}], **more}


def calls(*names: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name} for name in names]}


class Team:
    """Agents that speak from one script, since they share one conversation."""

    def __init__(self, script: list[dict[str, Any]], effects: list[Any] | None = None) -> None:
        self.client = ScriptedChatClient(script)
        self.effects = effects if effects is not None else []

    def agent(self, name: str, *handoffs: ReActAgent, **options: Any) -> ReActAgent:
        @tool(name=f"act_as_{name.lower()}", requires_approval=True)
        async def act() -> str:
            self.effects.append(name)
            return f"{name} acted"

        return ReActAgent(
            client=self.client,
            name=name,
            system_prompt=f"You are {name}.",
            tools=[act],
            handoffs=handoffs,
            **options,
        )

    @property
    def prompts(self) -> list[Any]:
        """Who was asked, request by request."""
        return [request["messages"][0]["content"] for request in self.client.requests]


async def test_the_other_agent_goes_on_with_the_same_conversation() -> None:
    team = Team([to("b"), {"content": "B here"}])
    b = team.agent("B", description="Knows the weather.")
    a = team.agent("A", b)
    result = await run_locally(a, "hello")
    assert result.response.content == "B here"
    assert team.prompts == ["You are A.", "You are B."]
    assert [message.content for message in result.state] == ["hello", None, "Transferred to B.", "B here"]
    (_, offered) = team.client.requests[0]["tools"]
    assert offered["function"] == {
        "name": "transfer_to_b",
        "description": "Hand the conversation over to the agent B. Knows the weather.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    assert [each["function"]["name"] for each in team.client.requests[1]["tools"]] == ["act_as_b"]


async def test_interrupts_of_the_other_agent_carry_its_name_and_every_replay_goes_the_same_way() -> None:
    def make(effects: Effects) -> ReActAgent:
        team = Team(
            [calls("act_as_a"), to("b"), calls("act_as_b"), to("c"), calls("act_as_c"), {"content": "x"}], effects
        )
        return team.agent("A", team.agent("B", team.agent("C")))

    run = await run_all_prefixes(make, lambda asked: {"type": "approve"})
    assert [(asked["agent"], asked["payload"]["tool_name"]) for asked in run.requests] == [
        ("A", "act_as_a"),
        ("B", "act_as_b"),
        ("C", "act_as_c"),
    ]
    assert run.effects == ["A", "B", "C"]


async def test_two_agents_may_hand_over_to_each_other() -> None:
    def make(effects: Effects) -> ReActAgent:
        script = [to("b"), calls("act_as_b"), to("a"), calls("act_as_a"), to("b"), {"content": "B again"}]
        team = Team(script, effects)
        b = team.agent("B")
        a = team.agent("A", b)
        b.handoffs.append(a)
        return a

    run = await run_all_prefixes(make, lambda asked: {"type": "approve"})
    assert run.effects == ["B", "A"]
    assert run.response.content == "B again"


async def test_the_next_message_goes_to_whoever_had_the_conversation() -> None:
    team = Team([to("b"), {"content": "B here"}, {"content": "still B"}, to("a"), {"content": "A again"}])
    b = team.agent("B")
    a = team.agent("A", b)
    b.handoffs.append(a)
    first = await run_locally(a, "1")
    second = await run_locally(a, "2", first.state)
    assert second.response.content == "still B"
    third = await run_locally(a, "3", second.state)
    assert third.response.content == "A again"
    assert team.prompts == [f"You are {name}." for name in "ABBBA"]
    # An agent that is given itself has no such handoff to follow.
    team.client.requests.clear()
    await run_locally(b, "2", first.state)
    assert team.prompts == ["You are B."]


async def test_a_transfer_that_is_not_open_any_more_is_passed_over() -> None:
    team = Team([to("b"), {"content": "B here"}, {"content": "A instead"}])
    state = (await run_locally(team.agent("A", team.agent("B")), "1")).state
    assert (await run_locally(team.agent("A"), "2", state)).response.content == "A instead"
    assert team.prompts[-1] == "You are A."


async def test_a_message_hands_over_once_and_its_other_calls_are_finished_first() -> None:
    team = Team([calls("transfer_to_b", "act_as_a", "transfer_to_c"), {"content": "B here"}])
    agent = team.agent("A", team.agent("B"), team.agent("C"))
    result = await run_locally(agent, "go", answers=lambda asked: {"type": "approve"})
    assert team.prompts[-1] == "You are B."
    assert [message.content for message in result.state if message.role == "tool"] == [
        "Transferred to B.",
        "A acted",
        json.dumps({"error": "a message hands over once, and transfer_to_b came first: transfer_to_c did nothing"}),
    ]


async def test_the_step_limit_and_the_usage_are_those_of_all_agents_together() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2}
    team = Team([to("b", usage=usage), {"content": "B here", "usage": usage}])
    local = LocalTurn()
    agent = team.agent("A", team.agent("B", max_steps=1), max_steps=2)
    await local.run(agent.run_turn, ChatMessage.user_message(content="go"), [])
    assert local.turn.usage == {"requests": 2, "input_tokens": 2, "output_tokens": 4}

    team = Team([to("b"), to("a"), to("b"), {"content": "never"}])
    b = team.agent("B", max_steps=99)
    a = team.agent("A", b, max_steps=3)
    b.handoffs.append(a)
    with pytest.raises(MaxStepsExceeded, match="asked its model 3 times"):
        await run_locally(a, "go")


async def test_a_handoff_inside_of_an_agent_that_is_a_tool_stays_inside() -> None:
    team = Team([to("b"), calls("act_as_b"), {"content": "B did it"}])
    inner = team.agent("A", team.agent("B"))
    outer_client = ScriptedChatClient(
        [{"tool_calls": [{"name": "A", "args": {"input": "do"}}]}, {"content": "outer is back"}]
    )
    outer = ReActAgent(client=outer_client, tools=[inner.as_tool()], name="outer")
    result = await run_locally(outer, "go", answers=lambda asked: {"type": "approve"})
    assert [asked["agent"] for asked in result.requests] == ["B"]
    assert result.state[2].content == "B did it"
    assert result.response.content == "outer is back"


async def test_the_response_is_what_the_agent_that_gives_it_makes_of_it() -> None:
    def sign(message: ChatMessage) -> str:
        return f"{message.content} (B)"

    team = Team([to("b"), {"content": "hi"}])
    agent = team.agent("A", team.agent("B", output_guardrails=[sign]), output_guardrails=[lambda message: "A's"])
    assert (await run_locally(agent, "go")).response.content == "hi (B)"


@pytest.mark.parametrize(
    ("name", "tool_name"),
    [
        ("Data agent", "transfer_to_data_agent"),
        ("DataAgent", "transfer_to_data_agent"),
        ("data-agent 2", "transfer_to_data_agent_2"),
        ("x" * 80, "transfer_to_" + "x" * 52),
    ],
)
async def test_a_handoff_tool_is_called_after_its_agent(name: str, tool_name: str) -> None:
    client = ScriptedChatClient([{"content": "hi"}])
    await run_locally(ReActAgent(client=client, handoffs=[ReActAgent(name=name)]), "go")
    assert client.requests[0]["tools"][0]["function"]["name"] == tool_name


@pytest.mark.parametrize(
    ("handoffs", "error", "complaint"),
    [
        ([ReActAgent()], ValueError, "needs a name"),
        (["B"], TypeError, "handoffs takes agents"),
        ([ReActAgent(name="B"), ReActAgent(name="b")], ValueError, "two tools are called 'transfer_to_b'"),
    ],
)
def test_a_handoff_that_cannot_be_is_refused(handoffs: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        ReActAgent(handoffs=handoffs)
