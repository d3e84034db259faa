"""Chat-completions wire format: messages out, replies and stream chunks in.

Chunks are read as plain dictionaries: gateways add members (`reasoning`, `reasoning_details`, `cost`) and leave
out others (`index`), and neither may break a turn.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hitl.attachments import Attachment
from hitl.messages import ChatMessage, ToolCall
from hitl.model_settings import TOOL_CHOICES, ModelSettings, tool_choice_of
from hitl.models.attached import in_the_form_of_its_role, is_pdf, is_shown_image, text_of
from hitl.models.chat_client import Delta, ModelReply, ResponseFormat
from hitl.models.replies import IncompleteReply as IncompleteReply
from hitl.models.replies import of_others

_AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def conversation_to_wire(messages: Iterable[ChatMessage], *, reasoning: bool) -> list[dict[str, Any]]:
    """A conversation as a provider takes it; `reasoning` as in `to_wire`.

    The API takes images and other files of a user alone: those of tools follow as a user's message, after the last
    of the results that belong to one message of the model.
    """
    wire: list[dict[str, Any]] = []
    of_tools: list[dict[str, Any]] = []
    for message in messages:
        if message.role != "tool":
            wire += _as_of_user(of_tools)
            of_tools = []
        elif attached := message.attached:
            told = f"Attached to the result of {message.name or 'a tool'} (call {message.tool_call_id}):"
            of_tools += [{"type": "text", "text": told}, *map(_part, attached)]
        wire.append(to_wire(message, reasoning=reasoning))
    return wire + _as_of_user(of_tools)


def _as_of_user(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": parts}] if parts else []


def to_wire(message: ChatMessage, *, reasoning: bool) -> dict[str, Any]:
    """One message as a provider takes it, without what is attached to a tool's (see `conversation_to_wire`).

    `reasoning`: send reasoning back (OpenRouter needs it between tool calls; OpenAI refuses the member).
    `user_params` never leave: they are for the agent, not for a model.
    """
    message = in_the_form_of_its_role(message)
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "user" and (attached := message.attached):
        text = [{"type": "text", "text": message.content}] if message.content else []
        wire["content"] = [*text, *map(_part, attached)]
    elif message.content is None and message.role != "assistant":
        wire["content"] = ""
    if message.tool_calls:
        wire["tool_calls"] = message.tool_calls
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.name is not None and message.role != "tool":
        wire["name"] = message.name
    if reasoning and message.role == "assistant":
        details = [detail for detail in message.reasoning_details or [] if not of_others(detail)]
        if details:
            wire["reasoning_details"] = details
        elif message.reasoning:
            wire["reasoning"] = message.reasoning
    return wire


def _part(attachment: Attachment) -> dict[str, Any]:
    if is_shown_image(attachment):
        return {"type": "image_url", "image_url": {"url": attachment.data_url}}
    if attachment.data is not None and is_pdf(attachment):
        file = {"filename": attachment.name or "document.pdf", "file_data": attachment.data_url}
        return {"type": "file", "file": file}
    if attachment.data and attachment.usual_type in _AUDIO:
        sound = {"data": attachment.data, "format": _AUDIO[attachment.usual_type]}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "text", "text": text_of(attachment)}


def response_format_to_wire(wanted: ResponseFormat) -> dict[str, Any]:
    """`strict` wherever the schema allows it: then the provider guarantees the structure."""
    strict = strict_schema(wanted.schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": wanted.name, "schema": strict or wanted.schema, "strict": strict is not None},
    }


def settings_to_wire(settings: ModelSettings, *, has_tools: bool, is_openai: bool) -> dict[str, Any]:
    """Settings as members of a body.

    The limit of a reply is `max_completion_tokens` at OpenAI (`is_openai`), whose reasoning models refuse the old name,
    and `max_tokens` everywhere else, where some servers do not know the new one. What is said of tools is left out of a
    request without any (not `has_tools`), which providers refuse otherwise; `InvalidSettings` where one must be called.
    """
    wire = {name: value for name, value in settings.items() if name not in ("extra_body", *_OF_TOOLS)}
    if "max_tokens" in wire:
        wire["max_completion_tokens" if is_openai else "max_tokens"] = wire.pop("max_tokens")
    choice = tool_choice_of(settings, has_tools=has_tools)
    if choice is not None:
        named = {"type": "function", "function": {"name": choice}}
        wire["tool_choice"] = choice if choice in TOOL_CHOICES else named
    if has_tools and "parallel_tool_calls" in settings:
        wire["parallel_tool_calls"] = settings["parallel_tool_calls"]
    return wire | settings.get("extra_body", {})


_OF_TOOLS = ("tool_choice", "parallel_tool_calls")

_NOT_STRICT: Final = frozenset(
    {"allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "prefixItems", "uniqueItems"}
)


def strict_schema(schema: Any) -> Any:
    """The schema in the form strict mode wants (every property required, nothing else allowed), or None where
    that would change what it means: an open object, or an optional property whose absence has a meaning. Also None for
    what strict mode has no words for, of which it refuses the whole request.

    Of a `oneOf` with a `discriminator` exactly one branch holds wherever any does, so that it is an `anyOf`; without
    one a value may fit two, which `anyOf` would let pass.
    """
    if isinstance(schema, list):
        parts = [strict_schema(part) for part in schema]
        return None if any(part is None for part in parts) else parts
    if not isinstance(schema, dict):
        return schema
    if not _NOT_STRICT.isdisjoint(schema):
        return None
    if "oneOf" in schema:
        if "discriminator" not in schema or "anyOf" in schema:
            return None
        said = {key: value for key, value in schema.items() if key not in ("oneOf", "discriminator")}
        schema = {"anyOf": schema["oneOf"], **said}
    if "$ref" in schema and not schema.keys() <= {"$ref", "$defs"}:
        if "anyOf" in schema:
            return None
        # Strict mode takes nothing beside a reference, a description say; beside a choice it does.
        schema = {"anyOf": [{"$ref": schema["$ref"]}], **{key: schema[key] for key in schema if key != "$ref"}}
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            inner = {name: strict_schema(part) for name, part in value.items()}
            if any(part is None for part in inner.values()):
                return None
            result[key] = inner
        elif key in ("items", "anyOf"):
            result[key] = strict_schema(value)
            if result[key] is None:
                return None
        else:
            result[key] = value
    if result.get("type") == "object":
        properties = result.get("properties")
        if not properties or result.get("additionalProperties", False) is not False:
            return None
        if set(result.get("required", ())) != set(properties):
            return None
        result["additionalProperties"] = False
    return result


# --- replies ------------------------------------------------------------------------------------------------------


class ReplyBuilder:
    """Puts a reply together from stream chunks, or from one whole completion."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._call_at: dict[int, dict[str, Any]] = {}
        self._finish_reason: str | None = None
        self._usage: dict[str, float] = {}

    def add_chunk(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Take one chunk in; returns what is new for a reader."""
        if chunk.get("usage"):
            self._usage = read_usage(chunk["usage"])
        deltas: list[Delta] = []
        for choice in (chunk.get("choices") or [])[:1]:
            deltas += self._add_message(choice.get("delta") or {})
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return deltas

    def add_completion(self, completion: Mapping[str, Any]) -> None:
        """Take a whole, unstreamed completion in."""
        choices = completion.get("choices") or []
        if not choices:
            raise IncompleteReply("the model's completion holds no choice")
        message = dict(choices[0].get("message") or {})
        message["tool_calls"] = [{**call, "index": i} for i, call in enumerate(message.get("tool_calls") or [])]
        self._add_message(message)
        self._finish_reason = choices[0].get("finish_reason") or "stop"
        self._usage = read_usage(completion.get("usage") or {})

    def _add_message(self, part: Mapping[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        # A refusal is the model's answer too; it only comes under another name.
        content, thought = _parted(part.get("content") or part.get("refusal") or "")
        if content:
            self._content.append(content)
            deltas.append({"content": content})
        if reasoning := part.get("reasoning") or part.get("reasoning_content") or thought:
            self._reasoning.append(reasoning)
            deltas.append({"reasoning": reasoning})
        for detail in part.get("reasoning_details") or []:
            self._add_detail(detail)
        for call in part.get("tool_calls") or []:
            self._add_call(call)
        return deltas

    def _add_detail(self, detail: Mapping[str, Any]) -> None:
        last = self._details[-1] if self._details else None
        same = last is not None and all(last.get(key) == detail.get(key) for key in ("type", "index"))
        if last is None or not same or detail.get("index") is None:
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            if key in ("text", "summary", "data") and isinstance(value, str):
                last[key] = (last.get(key) or "") + value
            elif value is not None:
                last[key] = value

    def _add_call(self, part: Mapping[str, Any]) -> None:
        function = part.get("function") or {}
        index = part.get("index")
        identity = part.get("id")
        known = self._call_at.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        # Some gateways number every call 0, or not at all: another id is another call.
        if known is None or (identity and known["id"] and identity != known["id"]):
            known = {"id": "", "name": "", "arguments": []}
            self._calls.append(known)
        if index is not None:
            self._call_at[index] = known
        known["id"] = known["id"] or identity or ""
        name = function.get("name")
        if name and name != known["name"]:  # some gateways repeat the whole name in every chunk
            known["name"] += name
        arguments = function.get("arguments")
        if arguments is not None:
            known["arguments"].append(arguments_of(arguments))

    def finish(self) -> ModelReply:
        """The whole reply; `IncompleteReply` when the model never said that it was done."""
        if self._finish_reason is None:
            raise IncompleteReply("the model's stream ended before the reply was complete")
        if self._finish_reason == "error":  # a gateway's word: what is behind it broke off
            raise IncompleteReply("the model's provider broke off the reply")
        calls: list[ToolCall] = [
            {
                "id": str(call["id"] or f"call_{uuid.uuid4().hex}"),
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for call in self._calls
        ]
        message = ChatMessage(
            role="assistant",
            content="".join(self._content) or (None if calls else ""),
            reasoning="".join(self._reasoning) or None,
            reasoning_details=self._details or None,
            tool_calls=calls or None,
        )
        return ModelReply(message, self._usage, self._finish_reason)


def _parted(content: str | list[Any]) -> tuple[str, str]:
    """Text, and what was thought: the format says a string, and servers whose models think send a list of both."""
    if isinstance(content, str):
        return content, ""
    thoughts = [text for part in content if part["type"] == "thinking" for text in part["thinking"]]
    said = ["".join(each["text"] for each in parts if each["type"] == "text") for parts in (content, thoughts)]
    return said[0], said[1]


def arguments_of(given: object) -> str:
    """The arguments of a call: the format says a string, and a few servers send the object itself."""
    if isinstance(given, str):
        return given
    import json

    return json.dumps(given, ensure_ascii=False)


def read_usage(usage: Mapping[str, Any]) -> dict[str, float]:
    """A provider's usage object in our words; members nobody told are left out."""
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    told = {
        "input_tokens": usage.get("prompt_tokens"),
        "output_tokens": usage.get("completion_tokens"),
        "total_tokens": usage.get("total_tokens"),
        "cached_tokens": prompt.get("cached_tokens"),
        "reasoning_tokens": completion.get("reasoning_tokens"),
        "cost": usage.get("cost"),
    }
    return {name: value for name, value in told.items() if isinstance(value, int | float)}
