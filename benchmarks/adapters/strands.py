"""The agent, of Strands."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.models import Model


class Player(Model):
    def get_config(self) -> Any:
        return {"model_id": "player"}

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        done = sum(message["role"] == "assistant" for message in messages)
        wants_more = done < int(messages[0]["content"][0]["text"])
        yield {"messageStart": {"role": "assistant"}}
        if wants_more:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "look", "toolUseId": f"call-{done}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"number": done})}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if wants_more else "end_turn"}}


@tool
async def look(number: int) -> str:
    """Look."""
    return f"saw {number}"


def make() -> Agent:
    return Agent(Player(), name="bench", tools=[look], callback_handler=None)


async def alone(agent: Agent, calls: int) -> str:
    try:
        return str(await agent.invoke_async(str(calls))).strip()
    finally:
        agent.messages.clear()  # an agent by itself keeps its conversation
