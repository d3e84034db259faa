"""A scene as an agent of LangChain, a graph of LangGraph."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool, ToolException
from langgraph.types import interrupt

from hitl.ext.langgraph import as_agent
from tests.python.behaviours.faces.native import first_answer
from tests.python.behaviours.frameworks import Messages, Played, reply_at, with_calls, words
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects, policies

CALL_LIMIT = 20


def agent_of(scene: Scene, ledger: Ledger, *, streaming: bool = False) -> Played:
    requests: list[Messages] = []
    graph = _agent(scene, ledger, "shop", requests)
    return as_agent(graph, context=lambda given: given, stream=streaming), requests


def _agent(scene: Scene, ledger: Ledger, name: str, requests: list[Messages]) -> Any:
    functions = effects(ledger)
    known = {**functions, "ask": _ask, "survey": _survey, "first_answer": first_answer, "whose": _whose}
    tools = [_tool(known[each], each) for each in (*scene.gated, *scene.free)]
    gated: dict[str, Any] = {each: _gate(scene, ledger) for each in scene.gated}
    for inner_name, inner in scene.inner.items():
        tools.append(_consulting(_agent(inner, ledger, inner_name, []), inner_name))
        if scene.approve_inner:
            gated[inner_name] = {"allowed_decisions": ["approve", "reject"]}
    limit: Any = ModelCallLimitMiddleware(run_limit=CALL_LIMIT, exit_behavior="error")
    gate: Any = HumanInTheLoopMiddleware(gated, interrupt_mode="per_call")
    model = Scripted(scene=scene, requests=requests)
    return create_agent(model, tools, middleware=[limit, gate], name=name, context_schema=dict)


def _gate(scene: Scene, ledger: Ledger) -> dict[str, Any]:
    gate: dict[str, Any] = {"allowed_decisions": scene.allowed}
    if scene.policy is not None:
        policy = policies(ledger)[scene.policy]
        gate["when"] = lambda request: _at_once(policy(request.tool_call["args"]))
    return gate


def _at_once(policy: Any) -> bool:
    """What a policy says: LangChain takes plain functions."""
    try:
        policy.send(None)
    except StopIteration as done:
        return bool(done.value)
    raise AssertionError("the policy waits")


def _tool(function: Callable[..., Any], name: str) -> StructuredTool:
    async def telling(**args: Any) -> Any:
        try:
            return await function(**args)
        except ValueError as error:
            raise ToolException(str(error)) from error

    made = StructuredTool.from_function(coroutine=function, name=name, handle_tool_error=True)
    return made.model_copy(update={"coroutine": telling})


async def _ask(question: str) -> str:
    """Ask a person; the answer as JSON."""
    return json.dumps(interrupt({"type": "question", "question": question, "risk": "high"}))


async def _survey(questions: list[str]) -> str:
    """Ask one question after the other; the answers as JSON."""
    return json.dumps([interrupt({"type": "question", "question": question}) for question in questions])


async def _whose(runtime: ToolRuntime[Any]) -> str:
    """What the run's context says."""
    return json.dumps(runtime.context)


def _consulting(helper: Any, name: str) -> StructuredTool:
    async def consult(input: str) -> str:
        """Let another agent do it."""
        result = await helper.ainvoke({"messages": [("user", input)]})
        return str(result["messages"][-1].text)

    return StructuredTool.from_function(coroutine=consult, name=name)


class Scripted(BaseChatModel):
    """Says what the scene says."""

    scene: Any
    requests: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        reply = self._reply(messages)
        said = AIMessage(reply["content"] or "", tool_calls=reply["calls"])
        if usage := reply["usage"]:
            whole = {"input_tokens": 0, "output_tokens": 0, **usage}
            said.usage_metadata = {**whole, "total_tokens": sum(whole.values())}  # type: ignore[typeddict-item]
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self._reply(messages)
        for word in words(reply["content"] or ""):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        chunks: Any = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": place}
            for place, call in enumerate(reply["calls"])
        ]
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=chunks))

    def _reply(self, messages: list[BaseMessage]) -> dict[str, Any]:
        self.requests.append([_plain(message) for message in messages])
        return reply_at(self.scene, sum(isinstance(message, AIMessage) for message in messages))


def _plain(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, AIMessage):
        return with_calls(str(message.text), message.tool_calls, lambda call: call["id"])
    if isinstance(message, ToolMessage):
        return {"role": "tool", "content": str(message.text), "tool_call_id": message.tool_call_id}
    assert isinstance(message, HumanMessage)
    return {"role": "user", "content": str(message.text)}
