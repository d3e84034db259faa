"""A scene as an agent of Strands."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, ToolContext, tool
from strands.models import Model
from strands.vended_interventions.hitl import HumanInTheLoop
from strands.vended_interventions.hitl.classifier import ClassifierResult

from hitl.ext.strands import as_agent
from tests.python.behaviours.faces.native import first_answer
from tests.python.behaviours.frameworks import Messages, Played, reply_at, with_calls, words
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects, policies


def agent_of(scene: Scene, ledger: Ledger, *, streaming: bool = False) -> Played:
    requests: list[Messages] = []
    approvals: Any = {name: {"allowed_decisions": scene.allowed} for name in scene.gated}
    return as_agent(_agent(scene, ledger, "shop", requests), approvals=approvals, stream=streaming), requests


def _agent(scene: Scene, ledger: Ledger, name: str, requests: list[Messages]) -> Agent:
    functions = effects(ledger)
    known = {**functions, "first_answer": first_answer}
    asking = {"ask": _ask, "survey": _survey, "whose": _whose}
    tools: list[Any] = [asking.get(each) or tool(known[each]) for each in (*scene.gated, *scene.free)]
    gated = list(scene.gated)
    for inner_name, inner in scene.inner.items():
        helper = _agent(inner, ledger, inner_name, [])
        tools.append(helper.as_tool(name=inner_name, description="Let another agent do it."))
        if scene.approve_inner:
            gated.append(inner_name)
    free = [each for each in (*scene.free, *scene.inner) if each not in gated]
    gate = HumanInTheLoop(allowed_tools=free, classifier=_classifier(scene, ledger))
    return Agent(Scripted(scene, requests), name=name, tools=tools, interventions=[gate], callback_handler=None)


def _classifier(scene: Scene, ledger: Ledger) -> Any:
    if scene.policy is None:
        return None
    policy = policies(ledger)[scene.policy]

    async def classify(event: Any, **more: Any) -> ClassifierResult:
        required = await policy(event.tool_use["input"])
        return ClassifierResult(requires_human_in_the_loop=required, reason="")

    return classify


@tool(name="ask", context=True)
async def _ask(question: str, tool_context: ToolContext) -> str:
    """Ask a person; the answer as JSON."""
    return json.dumps(tool_context.interrupt("question", reason={"question": question, "risk": "high"}))


@tool(name="survey", context=True)
async def _survey(questions: list[str], tool_context: ToolContext) -> str:
    """Ask one question after the other; the answers as JSON."""
    return json.dumps([tool_context.interrupt(question, reason={"question": question}) for question in questions])


@tool(name="whose", context=True)
async def _whose(tool_context: ToolContext) -> str:
    """What the invocation's state says."""
    return json.dumps({"user": tool_context.invocation_state["user"]})


class Scripted(Model):
    """Says what the scene says."""

    def __init__(self, scene: Scene, requests: list[Messages]) -> None:
        self._scene = scene
        self._requests = requests

    def get_config(self) -> Any:
        return {"model_id": "scripted"}

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self._requests.append([each for message in messages for each in _plain(message)])
        reply = reply_at(self._scene, sum(message["role"] == "assistant" for message in messages))
        yield {"messageStart": {"role": "assistant"}}
        if reply["content"] is not None:
            yield {"contentBlockStart": {"start": {}}}
            for word in words(reply["content"]):
                yield {"contentBlockDelta": {"delta": {"text": word}}}
            yield {"contentBlockStop": {}}
        for call in reply["calls"]:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": call["name"], "toolUseId": call["id"]}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call["args"])}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if reply["calls"] else "end_turn"}}
        usage = {"inputTokens": 0, "outputTokens": 0}
        usage |= {_USAGE[name]: count for name, count in reply["usage"].items()}
        yield {"metadata": {"usage": {**usage, "totalTokens": sum(usage.values())}, "metrics": {}}}


_USAGE = {"input_tokens": "inputTokens", "output_tokens": "outputTokens"}


def _plain(message: Any) -> Messages:
    if message["role"] == "assistant":
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        return [with_calls("", calls, lambda call: call["toolUseId"])]
    plain: Messages = []
    for block in message["content"]:
        if "toolResult" in block:
            result = block["toolResult"]
            texts = [part["text"] if "text" in part else json.dumps(part["json"]) for part in result["content"]]
            plain.append({"role": "tool", "content": "\n\n".join(texts).strip(), "tool_call_id": result["toolUseId"]})
        else:
            plain.append({"role": "note" if plain else "user", "content": block["text"]})
    return plain
