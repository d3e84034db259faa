"""What a model writes, or a tool says, may have half of a character: JSON has escapes for it, UTF-8 has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Model, ModelResponse, Usage, function_tool
from agents.testing import assistant_message, function_call
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from pydantic_ai import Agent, TextPart, ToolCallPart
from pydantic_ai import ModelResponse as Response
from pydantic_ai.models.function import FunctionModel

import hitl
from tests.python.ext.langgraph_runs import says

ESCAPED = '{"path": "a\\ud83d"}'
HALF = "a\ud83d"


def of_pydantic_ai(remove: Callable[[str], str], arguments: Any) -> Any:
    def model(messages: list[Any], info: Any) -> Response:
        if len(messages) > 1:
            return Response(parts=[TextPart(f"done {HALF}")])
        return Response(parts=[ToolCallPart("remove", arguments, tool_call_id="c")])

    agent = Agent(FunctionModel(model), name="remover")
    agent.tool_plain(remove, requires_approval=True)
    return agent


def of_openai_agents(remove: Callable[[str], str], arguments: Any) -> Any:
    class Says(Model):
        async def get_response(self, system_instructions: Any, input: Any, *asked: Any, **more: Any) -> ModelResponse:
            call = function_call("remove", arguments, call_id="c")
            said = call if isinstance(input, str) or len(input) == 1 else assistant_message(f"done {HALF}")
            return ModelResponse(output=[said], usage=Usage(requests=1), response_id=None)

        def stream_response(self, *asked: Any, **more: Any) -> Any:
            raise NotImplementedError

    return OpenAIAgent(name="remover", model=Says(), tools=[function_tool(remove, needs_approval=True)])


def of_langgraph(remove: Callable[[str], str], arguments: Any) -> Any:
    model = says([("remove", arguments)], last=f"done {HALF}")
    return create_agent(model, [tool(remove)], middleware=[HumanInTheLoopMiddleware({"remove": True})], name="remover")


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (of_pydantic_ai, ESCAPED),
        (of_openai_agents, ESCAPED),
        (of_langgraph, {"path": HALF}),
    ],
)
async def test_halves_of_characters_are_shown_and_run_as_one_that_stands_for_them(make: Any, arguments: Any) -> None:
    removed: list[str] = []

    def remove(path: str) -> str:
        """Remove a file."""
        removed.append(path)
        return f"removed b{HALF}"

    agent = make(remove, arguments)
    asked = await hitl.run(agent, "go")
    assert asked.status == "interrupted", asked
    assert asked.interrupts[0].tool_args == {"path": "a�"}
    state = hitl.RunState.from_string(agent, asked.state.to_string())
    done = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert done.output == "done a�", done
    assert removed == ["a�"]
