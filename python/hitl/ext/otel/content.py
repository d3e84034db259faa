"""What was said, in the form that the GenAI conventions have for it. Only where it was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hitl.messages import ChatMessage


def of_request(messages: Iterable[ChatMessage]) -> dict[str, str]:
    """Attributes of a request to a model."""
    said = [message.to_dict() for message in messages]
    system = [_text(message) for message in said if message["role"] == "system" and message.get("content")]
    asked = [{"role": message["role"], "parts": _parts(message)} for message in said if message["role"] != "system"]
    attributes = {"gen_ai.input.messages": text_of(asked)}
    if system:
        attributes["gen_ai.system_instructions"] = text_of(system)
    return attributes


def of_reply(message: Mapping[str, Any], finish_reason: str | None) -> dict[str, str]:
    """Attributes of what it said."""
    reply = {"role": "assistant", "parts": _parts(message), "finish_reason": finish_reason or ""}
    return {"gen_ai.output.messages": text_of([reply])}


def text_of(value: Any) -> str:
    """A value as JSON, what is none as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _text(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "text", "content": message["content"]}


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        return [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}]
    parts = [_text(message)] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        parts.append(
            {
                "type": "tool_call",
                "id": call.get("id"),
                "name": function.get("name"),
                "arguments": function.get("arguments"),
            }
        )
    return parts
