"""Agents of pydantic-ai whose models say what a test wants, and runs that every prefix of their journal leads to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hitl import ChatMessage
from hitl.ext.pydantic_ai import as_agent
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

Calls = list[tuple[str, dict[str, Any]]]
APPROVE = {"type": "approve"}


def says(*rounds: Calls) -> FunctionModel:
    """A model that has each round of calls made, and then repeats what came of them."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done < len(rounds):
            calls = [
                ToolCallPart(name, args, tool_call_id=f"c{done}{n}") for n, (name, args) in enumerate(rounds[done])
            ]
            return ModelResponse(parts=calls)
        parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        said = sorted((part.tool_call_id, part.outcome, part.content) for part in parts)
        return ModelResponse(parts=[TextPart(json.dumps([each[1:] for each in said]))])

    return FunctionModel(reply)


class Timeless:
    """An agent whose messages do not say when they were made, which is when they were made last, nor what the model is
    told beside them."""

    def __init__(self, agent: Any) -> None:
        self._served = as_agent(agent)
        self.name = self._served.name

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> Any:
        reply, after = await self._served.run_turn(message, state)
        for kept in (reply.user_params or {})["native"]["messages"]:
            kept.pop("instructions", None)
            kept["parts"] = [part for part in kept["parts"] if part["part_kind"] != "system-prompt"]
            for each in (kept, *kept["parts"]):
                each.pop("timestamp", None)
        return reply, after


async def proved(
    make: Callable[[Effects], Any], answers: Callable[[Any], Any] | None = None, **more: Any
) -> tuple[Run, list[Any]]:
    """A run, which every prefix of its journal leads to as well; and what the model was told of its calls."""
    run = await run_all_prefixes(lambda effects: Timeless(make(effects)), answers, **more)
    return run, json.loads(run.response.content or "")


def payer(effects: Effects, *rounds: Calls, **options: Any) -> Agent[Any, Any]:
    """An agent that pays, once it may."""
    agent = Agent(says(*(rounds or ([("pay", {"cents": 5})],))), name="payer", **options)

    @agent.tool_plain(requires_approval=True)
    def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    return agent
