"""The example of the TypeScript SDK that speaks of runs, states and interruptions, in Python.

An agent hands over to another one, whose tool asks before it looks up San Francisco; the state is a file between the
question and the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import ReActAgent, RunContext, RunState, tool
from hitl.testing import ScriptedChatClient

QUESTION = "What is the weather in Oakland and San Francisco?"
SCRIPT = [
    {"tool_calls": [{"name": "transfer_to_data_agent"}]},
    {
        "tool_calls": [
            {"name": "get_weather", "args": {"location": "Oakland"}},
            {"name": "get_weather", "args": {"location": "San Francisco"}},
        ]
    },
    {"content": "That is all I know."},
]


async def needs_approval(context: RunContext, args: dict[str, Any]) -> bool:
    # forces approval to look up the weather in San Francisco
    return bool(args["location"] == "San Francisco")


@tool(name="get_weather", requires_approval=needs_approval)
async def get_weather_tool(location: str) -> str:
    """Get the weather for a given city."""
    return f"The weather in {location} is sunny"


def make_agent(client: ScriptedChatClient) -> ReActAgent:
    data_agent_two = ReActAgent(
        client=client,
        name="Data agent",
        system_prompt="You are a data agent",
        description="You know everything about the weather",
        tools=[get_weather_tool],
    )
    return ReActAgent(
        client=client, name="Basic test agent", system_prompt="You are a basic agent", handoffs=[data_agent_two]
    )


async def main(client: ScriptedChatClient, file: Path, confirm: Callable[[str], bool]) -> None:
    result = await hitl.run(make_agent(client), QUESTION)
    has_interruptions = bool(result.interrupts)
    while has_interruptions:
        # storing
        assert result.state is not None
        file.write_text(result.state.to_string())

        # from here on you could run things on a different thread or in a different process

        # reading later on
        agent = make_agent(client)
        state = RunState.from_string(agent, file.read_text())

        for interruption in state.interrupts:
            confirmed = confirm(
                f"Agent {interruption.agent} would like to use the tool {interruption.tool_name} with "
                f'"{json.dumps(interruption.tool_args)}". Do you approve?'
            )
            if confirmed:
                state.approve(interruption)
            else:
                state.reject(interruption)

        # resume execution of the current state
        result = await hitl.run(agent, state)
        has_interruptions = bool(result.interrupts)

    print(result.output)


@pytest.mark.parametrize(
    ("confirmed", "told"),
    [(True, "The weather in San Francisco is sunny"), (False, '{"error": "User rejected get_weather"}')],
)
async def test_it_runs(confirmed: bool, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return confirmed

    client = ScriptedChatClient(SCRIPT)
    await main(client, tmp_path / "result.json", confirm)

    assert capsys.readouterr().out == "That is all I know.\n"
    assert asked == [
        'Agent Data agent would like to use the tool get_weather with "{"location": "San Francisco"}". Do you approve?'
    ]
    results = [message["content"] for message in client.requests[-1]["messages"] if message["role"] == "tool"]
    assert results == ["Transferred to Data agent.", "The weather in Oakland is sunny", told]
    assert client.requests[-1]["messages"][0]["content"] == "You are a data agent"
