"""The agent, of pydantic-ai."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    done = sum(isinstance(message, ModelResponse) for message in messages)
    assert isinstance(messages[0], ModelRequest)
    wanted = next(int(str(part.content)) for part in messages[0].parts if isinstance(part, UserPromptPart))
    if done < wanted:
        return ModelResponse(parts=[ToolCallPart("look", {"number": done}, tool_call_id=f"call-{done}")])
    return ModelResponse(parts=[TextPart("done")])


def make() -> Agent[Any, str]:
    agent: Agent[Any, str] = Agent(FunctionModel(play), name="bench")

    @agent.tool_plain
    async def look(number: int) -> str:
        return f"saw {number}"

    return agent


async def alone(agent: Agent[Any, str], calls: int) -> str:
    return (await agent.run(str(calls))).output
