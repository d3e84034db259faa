"""A scene as an agent of pydantic-ai."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_ai import Agent, ApprovalRequired, CallDeferred, ModelResponse, RunContext, TextPart, Tool, ToolCallPart
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.usage import RequestUsage

from hitl.ext.pydantic_ai import as_agent
from tests.python.behaviours.faces.native import first_answer, survey
from tests.python.behaviours.frameworks import Messages, Played, reply_at, with_calls, words
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects, policies


def agent_of(scene: Scene, ledger: Ledger, *, streaming: bool = False) -> Played:
    requests: list[Messages] = []
    return as_agent(_agent(scene, ledger, "shop", requests), deps=lambda given: given, stream=streaming), requests


def _agent(scene: Scene, ledger: Ledger, name: str, requests: list[Messages]) -> Agent[Any, Any]:
    functions = effects(ledger)
    known = {**functions, "ask": _ask, "survey": survey, "first_answer": first_answer, "whose": _whose}
    tools = [_gated(scene, ledger, functions[gated]) for gated in scene.gated]
    tools += [Tool(known[free], name=free) for free in scene.free]
    for inner_name, inner in scene.inner.items():
        helper = _agent(inner, ledger, inner_name, [])
        tools.append(Tool(_consulting(helper), name=inner_name, requires_approval=scene.approve_inner))
    return Agent(_model(scene, requests), name=name, tools=tools, deps_type=object)


def _gated(scene: Scene, ledger: Ledger, function: Callable[..., Any]) -> Tool[Any]:
    metadata = {"hitl": {"allowed_decisions": scene.allowed}}
    if scene.policy is None:
        return Tool(_failing(function), name=function.__name__, requires_approval=True, metadata=metadata)
    policy = policies(ledger)[scene.policy]

    async def checked(ctx: RunContext[Any], cents: int) -> Any:
        if not ctx.tool_call_approved and await policy({"cents": cents}):
            raise ApprovalRequired
        return await function(cents)

    return Tool(checked, name=function.__name__, metadata=metadata)


def _failing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, which tells the model when it fails."""

    @functools.wraps(function)
    async def telling(**args: Any) -> Any:
        try:
            return await function(**args)
        except ValueError as error:
            raise ToolFailed(str(error)) from error

    return telling


async def _ask(ctx: RunContext[Any], question: str) -> str:
    """Ask a person; the answer as JSON."""
    asked = {"question": question, "risk": "high", "hitl": {"type": "question", "response_schema": {}}}
    raise CallDeferred(metadata=asked)


async def _whose(ctx: RunContext[Any]) -> str:
    """What the run's dependencies say."""
    return json.dumps(ctx.deps)


def _consulting(helper: Agent[Any, Any]) -> Callable[..., Any]:
    async def consult(input: str) -> str:
        """Let another agent do it."""
        return str((await helper.run(input)).output)

    return consult


def _model(scene: Scene, requests: list[Messages]) -> FunctionModel:
    def said(messages: list[ModelMessage]) -> dict[str, Any]:
        requests.append([each for message in messages for each in _plain(message)])
        return reply_at(scene, sum(isinstance(message, ModelResponse) for message in messages))

    async def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        reply = said(messages)
        text = [] if reply["content"] is None else [TextPart(reply["content"])]
        made = [ToolCallPart(call["name"], call["args"], tool_call_id=call["id"]) for call in reply["calls"]]
        return ModelResponse(parts=[*text, *made], usage=RequestUsage(**reply["usage"]))

    async def pieces(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        reply = said(messages)
        for word in words(reply["content"] or ""):
            yield word
        for place, call in enumerate(reply["calls"]):
            yield {place: DeltaToolCall(call["name"], json.dumps(call["args"]), tool_call_id=call["id"])}

    return FunctionModel(whole, stream_function=pieces, model_name="scripted")


def _plain(message: ModelMessage) -> Messages:
    if isinstance(message, ModelResponse):
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        return [with_calls(str(message.text), calls, lambda call: call.tool_call_id)]
    assert isinstance(message, ModelRequest)
    # What is said beside the results of tools is a prompt of its own, behind them.
    is_beside = any(isinstance(part, ToolReturnPart) for part in message.parts)
    plain: Messages = []
    for part in message.parts:
        if isinstance(part, ToolReturnPart):
            plain.append({"role": "tool", "content": part.model_response_str(), "tool_call_id": part.tool_call_id})
        elif isinstance(part, UserPromptPart):
            plain.append({"role": "note" if is_beside else "user", "content": part.content})
    return plain
