"""Steps, questions and answers as attributes of spans: those of OpenTelemetry's GenAI conventions where they have one,
else ``hitl....``. None of them holds what was said, asked or answered; ``hitl.ext.otel.content`` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hitl.ext.otel import content
from hitl.journal.ports import InterruptRequest, StepIdentity

_OPERATIONS: Final = {"model": "chat", "tool": "execute_tool"}

_SETTINGS: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}
_USAGE: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}

_LABELS: Final = frozenset(
    {
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.tool.name",
        "hitl.step.kind",
        "hitl.step.name",
        "hitl.interrupt.type",
        "hitl.wait.outcome",
        "hitl.decision",
        "error.type",
    }
)
"""Attributes that take few values."""


def name(step: StepIdentity) -> str:
    """What the span of a step is called."""
    return f"{_OPERATIONS.get(step['kind'], step['kind'])} {step['name']}"


def step(step: StepIdentity) -> dict[str, Any]:
    """What a step's identity says."""
    attributes: dict[str, Any] = {"hitl.step.path": step["path"]}
    kind = step["kind"]
    if kind in _OPERATIONS:
        attributes["gen_ai.operation.name"] = _OPERATIONS[kind]
    if kind == "model":
        attributes["gen_ai.request.model"] = step["name"]
    elif kind == "tool":
        attributes |= {"gen_ai.tool.name": step["name"], "gen_ai.tool.type": "function"}
    else:
        attributes |= {"hitl.step.kind": kind, "hitl.step.name": step["name"]}
    if "tool_call_id" in step:
        attributes["gen_ai.tool.call.id"] = step["tool_call_id"]
    return attributes


def request(client: object, request: Any) -> dict[str, Any]:
    """What a request to a model (``hitl.models.ModelRequest``) says, besides its messages."""
    settings = request.settings
    attributes: dict[str, Any] = {
        attribute: settings[name]
        for name, attribute in _SETTINGS.items()
        if isinstance(settings.get(name), int | float)
    }
    attributes["gen_ai.provider.name"] = getattr(client, "provider", None) or type(client).__name__
    if request.response_format is not None:
        attributes["gen_ai.output.type"] = "json"
    return attributes


def reply(step: StepIdentity, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What a recorded reply of a model says, besides the message."""
    recorded = outcome.get("value")
    if step["kind"] != "model" or not isinstance(recorded, dict):
        return {}
    attributes: dict[str, Any] = {"gen_ai.response.model": recorded.get("model") or step["name"]}
    if isinstance(finish := recorded.get("finish_reason"), str):
        attributes["gen_ai.response.finish_reasons"] = [finish]
    usage = recorded.get("usage")
    for said, attribute in _USAGE.items():
        value: Any = usage.get(said) if isinstance(usage, dict) else None
        if type(value) in (int, float):
            attributes[attribute] = int(value)
    return attributes


def said(step: StepIdentity, shown: Mapping[str, Any] | None, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What was said: a model's reply, a tool's arguments and result."""
    recorded: Any = outcome.get("value")
    if step["kind"] == "model":
        message = recorded.get("message") if isinstance(recorded, dict) else None
        return content.of_reply(message, recorded.get("finish_reason")) if isinstance(message, dict) else {}
    if step["kind"] != "tool":
        return {}
    attributes = {} if shown is None else {"gen_ai.tool.call.arguments": content.text_of(dict(shown))}
    return attributes if recorded is None else {**attributes, "gen_ai.tool.call.result": content.of_result(recorded)}


def question(request: InterruptRequest) -> dict[str, Any]:
    """What is asked, besides what it says."""
    attributes: dict[str, Any] = {"gen_ai.agent.name": request["agent"]}
    tool = request["payload"].get("tool_name")
    if request["type"] in ("tool_approval", "unknown_outcome") and isinstance(tool, str):
        attributes["gen_ai.tool.name"] = tool
    return attributes


def answer(outcome: Mapping[str, Any], by: str | None) -> dict[str, Any]:
    """How it was answered, and by whom, besides what was."""
    if "answer" not in outcome:
        return {"hitl.wait.outcome": "expired"}
    value = outcome["answer"]
    decision = value.get("type") if isinstance(value, dict) else None
    decided_by = value.get("by") if isinstance(value, dict) else None
    return {
        "hitl.wait.outcome": "answered",
        "hitl.answered_by": by or ("policy" if decided_by == "policy" else None),
        "hitl.decision": decision if decision in ("approve", "edit", "reject", "respond") else None,
    }


def labels(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What of them a metric is told apart by."""
    return {name: value for name, value in attributes.items() if name in _LABELS and value is not None}
