"""What the caller of a run says of how models are asked: over the agent's own settings, for that turn."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import hitl
from hitl import ChatMessage, ReActAgent, RunState, tool
from hitl.models import InvalidSettings, ModelSettings
from hitl.testing import ScriptedChatClient

TEMPERATE: ModelSettings = {"temperature": 0.5, "max_tokens": 100}


@tool(requires_approval=True)
async def gated() -> str:
    """Run once somebody has said yes."""
    return "done"


def asked(client: ScriptedChatClient) -> list[dict[str, Any]]:
    return [request.get("settings", {}) for request in client.requests]


def calls(*names: str) -> ScriptedChatClient:
    rounds: list[Any] = [{"tool_calls": [{"name": name}]} for name in names]
    return ScriptedChatClient([*rounds, {"content": "done"}])


async def test_go_over_those_of_the_agent_member_by_member() -> None:
    client = calls()
    agent = ReActAgent(client, settings=TEMPERATE)
    await hitl.run(agent, "go", settings={"temperature": 0, "stop": ["END"]})
    assert asked(client) == [{"temperature": 0, "max_tokens": 100, "stop": ["END"]}]


async def test_hold_for_one_run_only() -> None:
    client = ScriptedChatClient([{"content": "one"}, {"content": "two"}])
    agent = ReActAgent(client, settings=TEMPERATE)
    async with hitl.Store("memory") as store:
        await hitl.run(agent, "go", settings={"temperature": 0}, store=store, session="ada")
        await hitl.run(agent, "go", store=store, session="ada")
    assert asked(client) == [{"temperature": 0, "max_tokens": 100}, TEMPERATE]


async def test_go_on_with_the_state_wherever_that_goes_on() -> None:
    waiting = await hitl.run(ReActAgent(calls("gated"), tools=[gated]), "go", settings={"temperature": 0})
    assert waiting.state is not None
    client = calls("gated")
    agent = ReActAgent(client, tools=[gated])
    state = RunState.from_string(agent, waiting.state.to_string())
    result = await hitl.run(agent, state.approve(waiting.interrupts[0]))
    assert (result.output, asked(client)) == ("done", [{"temperature": 0}])


async def test_a_state_takes_none() -> None:
    agent = ReActAgent(calls("gated"), tools=[gated])
    waiting = await hitl.run(agent, "go")
    assert waiting.state is not None
    with pytest.raises(TypeError, match="settings= goes with a message"):
        await hitl.run(agent, waiting.state, settings={"temperature": 0})


async def test_hold_for_whoever_has_the_conversation() -> None:
    front, back = calls("transfer_to_back"), calls()
    agent = ReActAgent(front, name="front", handoffs=[ReActAgent(back, name="back", settings={"top_p": 1})])
    await hitl.run(agent, "go", settings={"temperature": 0})
    assert (asked(front), asked(back)) == ([{"temperature": 0}], [{"top_p": 1, "temperature": 0}])


async def test_agents_that_are_tools_keep_their_own() -> None:
    ask = {"tool_calls": [{"name": "helper", "args": {"input": "go"}}]}
    outer, inner = ScriptedChatClient([ask, {"content": "done"}]), calls()
    helper = ReActAgent(inner, name="helper", description="Helps.", settings=TEMPERATE)
    await hitl.run(ReActAgent(outer, tools=[helper.as_tool()]), "go", settings={"temperature": 0})
    assert (asked(outer), asked(inner)) == ([{"temperature": 0}] * 2, [TEMPERATE])


async def test_hold_for_the_agents_that_a_function_runs_and_that_a_factory_makes() -> None:
    client = ScriptedChatClient([{"content": "one"}, {"content": "two"}])

    def made() -> ReActAgent:
        return ReActAgent(client)

    async def around(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        return await made().run_turn(message, state)

    for agent in (made, around):
        await hitl.run(agent, "go", settings={"temperature": 0})
    assert asked(client) == [{"temperature": 0}] * 2


async def test_a_tool_that_must_be_called_is_one_that_the_agent_has() -> None:
    result = await hitl.run(ReActAgent(calls()), "go", settings={"tool_choice": "lookup"})
    assert isinstance(result.exception, InvalidSettings)
    assert "names the tool 'lookup', which it has not" in str(result.exception)


def test_a_stream_and_blocking_runs_take_them_too() -> None:
    client = ScriptedChatClient([{"content": "one"}, {"content": "two"}])
    agent = ReActAgent(client)
    hitl.run_sync(agent, "go", settings={"temperature": 0})
    list(hitl.stream_sync(agent, "go", settings={"temperature": 1}))
    assert asked(client) == [{"temperature": 0}, {"temperature": 1}]


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"temprature": 1}, TypeError, r"hitl.run\(\): settings have no member 'temprature'; known: temperature"),
        ({"top_p": 2}, ValueError, r"hitl.run\(\): settings\['top_p'\] must be from 0 to 1, got 2"),
        ([], TypeError, r"hitl.run\(\): settings must be a dict of ModelSettings, got list"),
    ],
)
async def test_what_is_wrong_is_refused_before_anything_runs(settings: Any, error: type[Exception], words: str) -> None:
    client = calls()
    with pytest.raises(error, match=words):
        await hitl.run(ReActAgent(client), "go", settings=settings)
    assert client.requests == []


async def test_an_agent_of_a_framework_has_its_own() -> None:
    with pytest.raises(TypeError, match="is one of pydantic-ai"):
        await hitl.run(Agent(TestModel()), "go", settings={"temperature": 0})


async def test_so_has_one_that_a_factory_makes_and_nothing_of_it_runs() -> None:
    model = TestModel()

    def made() -> Agent:
        return Agent(model)

    result = await hitl.run(made, "go", settings={"temperature": 0})
    assert (result.status, "is one of pydantic-ai" in str(result.exception)) == ("error", True)
    assert model.last_model_request_parameters is None
