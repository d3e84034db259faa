"""A scene as an agent of the OpenAI Agents SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunContextWrapper,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import assistant_message, function_call
from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent
from openai.types.responses.response import Response

from hitl.ext.openai_agents import as_agent
from tests.python.behaviours.faces.native import ask, first_answer, survey
from tests.python.behaviours.frameworks import Messages, Played, reply_at, with_calls, words
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects, policies

MAX_TURNS = 20


def agent_of(scene: Scene, ledger: Ledger, *, streaming: bool = False) -> Played:
    requests: list[Messages] = []
    set_tracing_disabled(True)
    approvals: Any = {name: {"allowed_decisions": scene.allowed} for name in scene.gated}
    agent = _agent(scene, ledger, "shop", requests)
    return as_agent(agent, approvals=approvals, max_turns=MAX_TURNS, stream=streaming), requests


def _agent(scene: Scene, ledger: Ledger, name: str, requests: list[Messages]) -> Agent[Any]:
    functions = effects(ledger)
    known = {**functions, "ask": ask, "survey": survey, "first_answer": first_answer, "whose": _whose}
    tools: list[Any] = [_gated(scene, ledger, functions[gated]) for gated in scene.gated]
    tools += [function_tool(known[free], name_override=free) for free in scene.free]
    for inner_name, inner in scene.inner.items():
        helper = _agent(inner, ledger, inner_name, [])
        tools.append(helper.as_tool(inner_name, "Let another agent do it.", needs_approval=scene.approve_inner))
    return Agent(name=name, model=Scripted(scene, requests, name), tools=tools)


def _gated(scene: Scene, ledger: Ledger, function: Callable[..., Any]) -> FunctionTool:
    needs: Any = True
    if scene.policy is not None:
        policy = policies(ledger)[scene.policy]

        async def needs(context: Any, args: dict[str, Any], call_id: str) -> bool:
            return await policy(args)

    return function_tool(function, needs_approval=needs, failure_error_function=lambda context, error: str(error))


async def _whose(context: RunContextWrapper[Any]) -> str:
    """What the run's context says."""
    return json.dumps(context.context)


class Scripted(Model):
    """Says what the scene says."""

    def __init__(self, scene: Scene, requests: list[Messages], name: str) -> None:
        self._scene = scene
        self._name = name
        self._requests = requests

    async def get_response(
        self, system_instructions: str | None, input: str | list[Any], *asked: Any, **more: Any
    ) -> ModelResponse:
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        request = _plain(items)
        self._requests.append(request)
        number = sum(message["role"] == "assistant" for message in request)
        reply = reply_at(self._scene, number, self._ids_of(request))
        output: list[Any] = [] if reply["content"] is None else [assistant_message(reply["content"])]
        output += [function_call(call["name"], call["args"], call_id=call["id"]) for call in reply["calls"]]
        return ModelResponse(output=output, usage=Usage(requests=1, **reply["usage"]), response_id=None)

    def _ids_of(self, request: Messages) -> str:
        """What ids begin with: of each conversation with an inner agent another, as a model's are unique. The SDK
        takes calls of one id in two of them for one."""
        return "" if self._name == "shop" else f"{self._name}-{request[0]['content']}-"

    async def stream_response(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        response = await self.get_response(*asked, **more)
        texts = [part.text for item in response.output for part in getattr(item, "content", ())]
        for number, word in enumerate(piece for text in texts for piece in words(text)):
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                item_id="m",
                content_index=0,
                output_index=0,
                delta=word,
                logprobs=[],
                sequence_number=number,
            )
        whole = Response.model_construct(id="r", output=response.output, usage=None)
        yield ResponseCompletedEvent.model_construct(type="response.completed", sequence_number=99, response=whole)


def _plain(items: list[Any]) -> Messages:
    """The items as messages: what the model said in one go is several of them."""
    plain: Messages = []
    for item in items:
        is_call = item.get("type") == "function_call"
        if is_call or item.get("role") == "assistant":
            if not plain or plain[-1]["role"] != "assistant":
                plain.append(with_calls("", [], None))
            if is_call:
                plain[-1]["tool_calls"].append({"id": item["call_id"]})
        elif item.get("type") == "function_call_output":
            plain.append({"role": "tool", "content": item["output"], "tool_call_id": item["call_id"]})
        else:
            is_beside = plain and plain[-1]["role"] == "tool"
            plain.append({"role": "note" if is_beside else "user", "content": item["content"]})
    return plain
