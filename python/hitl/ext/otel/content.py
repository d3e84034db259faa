"""What was said, in the form that the GenAI conventions have for it. Only where it was asked for. Of files the name and
type, never the bytes: they are no text to search, and larger than a span may be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hitl.attachments import Attachment, described
from hitl.messages import ChatMessage

_OF_A_FILE = {"media_type", "data", "url", "name"}


def of_request(messages: Iterable[ChatMessage]) -> dict[str, str]:
    """Attributes of a request to a model."""
    said = [(message.to_dict(), [_file(attachment) for attachment in message.attached]) for message in messages]
    system = [_text(message) for message, _ in said if message["role"] == "system" and message.get("content")]
    asked = [
        {"role": message["role"], "parts": [*_parts(message), *files]}
        for message, files in said
        if message["role"] != "system"
    ]
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


def of_result(recorded: Any) -> str:
    """What a tool returned, as it is stored, with a mark in the place of each file."""
    return text_of(_marked(recorded))


def _marked(value: Any) -> Any:
    """Attachments are told by the JSON that they are stored as, or become where their class cannot be stored: what was
    stored by another version, or with classes that are not here, can be told too."""
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = value.get("value") if value.get("$hitl") == "dataclass" else value
    if isinstance(inner, dict) and "media_type" in inner and ("data" in inner or "url" in inner):
        is_one = value is not inner or inner.keys() <= _OF_A_FILE
        kind, name = inner["media_type"], inner.get("name")
        if is_one and isinstance(kind, str) and isinstance(name, str | None):
            return f"[attachment: {described(kind, name)}]"
    return {key: _marked(item) for key, item in value.items()}


def _file(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.usual_type.partition("/")[0]
    told: dict[str, Any] = {"type": "blob" if attachment.url is None else "uri", "mime_type": attachment.usual_type}
    told["modality"] = kind if kind in ("image", "audio", "video") else "document"
    if attachment.url is not None:
        told["uri"] = attachment.url
    return told if attachment.name is None else {**told, "name": attachment.name}


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
