"""The agent, of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.testing import assistant_message, function_call

set_tracing_disabled(True)


class Player(Model):
    async def get_response(
        self, system_instructions: str | None, input: str | list[Any], *asked: Any, **more: Any
    ) -> ModelResponse:
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        done = sum(item.get("type") == "function_call" for item in items)
        if done < int(items[0]["content"]):
            output: list[Any] = [function_call("look", {"number": done}, call_id=f"call-{done}")]
        else:
            output = [assistant_message("done")]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def stream_response(self, *asked: Any, **more: Any) -> Any:
        raise NotImplementedError


@function_tool
async def look(number: int) -> str:
    return f"saw {number}"


def make() -> Agent[Any]:
    return Agent(name="bench", model=Player(), tools=[look])


async def alone(agent: Agent[Any], calls: int) -> str:
    return str((await Runner.run(agent, str(calls), max_turns=calls + 1)).final_output)
