"""The wire format of Anthropic's messages: a conversation as blocks in, blocks and stream events out.

Events are read as plain dictionaries, and kinds of events and blocks that are not known here are left alone: what has
no field in a `ChatMessage`, such as thinking with its signature, is kept as it is and goes back to the model in its
place.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from hitl.attachments import Attachment
from hitl.messages import ChatMessage, ToolCall
from hitl.model_settings import TOOL_CHOICES, ModelSettings, tool_choice_of
from hitl.models.attached import in_the_form_of_its_role, is_pdf, is_shown_image, text_of
from hitl.models.chat_client import Delta, ModelReply, ResponseFormat
from hitl.models.replies import IncompleteReply, Part, keep_parts, parts_of

PROVIDER = "anthropic.messages"
"""What of a reply only this API can read is kept under this name."""

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_THOUGHTS = ("thinking", "redacted_thinking")
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")


# --- requests -----------------------------------------------------------------------------------------------------


def conversation_to_wire(messages: Iterable[ChatMessage]) -> tuple[str, list[dict[str, Any]]]:
    """A conversation as the API takes it: the system prompt, and messages in which user and assistant take turns. What
    the system says later on stands with its prompt, since not every model takes it elsewhere."""
    system: list[str] = []
    wire: list[dict[str, Any]] = []
    for message in map(in_the_form_of_its_role, messages):
        if message.role == "system":
            system += [message.content] if message.content else []
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if message.role == "tool":
            blocks = [_result(message)]
        else:
            blocks = _reply_blocks(message) if role == "assistant" else _content(message)
        if not blocks:  # a message without text: the API takes none that is empty
            continue
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        else:
            wire.append({"role": role, "content": blocks})
    return "\n\n".join(system), wire


def _content(message: ChatMessage) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
    return [*blocks, *map(_attached, message.attached)]


def _attached(attachment: Attachment) -> dict[str, Any]:
    if not is_shown_image(attachment) and not is_pdf(attachment):
        return {"type": "text", "text": text_of(attachment)}
    if attachment.url is not None:
        source = {"type": "url", "url": attachment.url}
    else:
        source = {"type": "base64", "media_type": attachment.usual_type, "data": attachment.data or ""}
    if is_shown_image(attachment):
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, **({"title": attachment.name} if attachment.name else {})}


def _result(message: ChatMessage) -> dict[str, Any]:
    content = _content(message) if message.attached else message.content or ""
    return {"type": "tool_result", "tool_use_id": _id(message.tool_call_id or ""), "content": content}


def _reply_blocks(message: ChatMessage) -> list[dict[str, Any]]:
    parts = list(parts_of(PROVIDER, message))
    if all(part.kind == "own" and (part.native or {}).get("type") in _THOUGHTS for part in parts):
        return []  # thoughts that came to nothing: the API takes none alone
    return [_block(part) for part in parts]


def _block(part: Part) -> dict[str, Any]:
    if part.call is None:
        return dict(part.native or {}) if part.kind == "own" else {"type": "text", "text": part.text}
    function = part.call["function"]
    given = _object(function["arguments"])
    # What is no JSON is shown to the model in the form that the API's own guide gives it.
    written = given if given is not None else {"INVALID_JSON": function["arguments"]}
    return {"type": "tool_use", "id": _id(part.call["id"]), "name": function["name"], "input": written}


def _id(identity: str) -> str:
    """An id as this API takes them; another model's, in the same conversation, may be otherwise."""
    return _NO_ID.sub("_", identity) or "_"


def _object(arguments: str) -> dict[str, Any] | None:
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


def tools_to_wire(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool definitions."""
    wire = []
    for tool in tools:
        function = tool["function"]
        schema = {"type": "object", **(function.get("parameters") or {})}
        about = {name: function[name] for name in ("description", "strict") if function.get(name)}
        wire.append({"name": function["name"], **about, "input_schema": schema})
    return wire


def can_be_guaranteed(schema: Mapping[str, Any]) -> bool:
    """Whether the API can hold a reply to this schema: every value has a type, and every object says which members it
    has."""
    if not schema.keys() & {"type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"}:
        return False
    if schema.get("type") == "object" and (
        not schema.get("properties") or schema.get("additionalProperties", False) is not False
    ):
        return False
    inner = [schema["items"]] if isinstance(schema.get("items"), dict) else []
    for name in ("properties", "$defs"):
        inner += (schema.get(name) or {}).values()
    for name in ("anyOf", "oneOf", "allOf"):
        inner += schema.get(name) or []
    return "prefixItems" not in schema and all(map(can_be_guaranteed, inner))


def told_format(wanted: ResponseFormat) -> str:
    """The structure of a reply in words, where the API cannot guarantee it."""
    schema = json.dumps(wanted.schema, ensure_ascii=False)
    return f"Your final reply is a JSON object and nothing else, valid against this JSON Schema:\n{schema}"


def settings_to_wire(settings: ModelSettings, *, has_tools: bool) -> dict[str, Any]:
    """Settings as members of a body; `InvalidSettings` for a tool that must be called where there is none."""
    wire: dict[str, Any] = {name: settings[name] for name in ("temperature", "top_p", "max_tokens") if name in settings}
    if "stop" in settings:
        stop = settings["stop"]
        wire["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    effort = settings.get("reasoning_effort")
    if effort == "none":
        wire["thinking"] = {"type": "disabled"}
    elif effort is not None:
        wire["output_config"] = {"effort": "low" if effort == "minimal" else effort}
    choice = tool_choice_of(settings, has_tools=has_tools)
    if choice is not None:
        wire["tool_choice"] = {"type": _CHOICES[choice]} if choice in TOOL_CHOICES else {"type": "tool", "name": choice}
    if has_tools and settings.get("parallel_tool_calls") is False and choice != "none":
        wire["tool_choice"] = {**wire.get("tool_choice", {"type": "auto"}), "disable_parallel_tool_use": True}
    return wire


# --- replies ------------------------------------------------------------------------------------------------------


class MessageBuilder:
    """Puts a reply together from stream events, or from one whole message."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, Any]] = []
        self._inputs: dict[int, list[str]] = {}
        """Of the blocks that have one, the pieces of their input's JSON."""
        self._usage: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}
        """The stop reason, and its details."""

    def add_event(self, event: Mapping[str, Any]) -> list[Delta]:
        """Take one event in; returns what is new for a reader. `IncompleteReply` for one that fits nowhere."""
        kind = event.get("type")
        if kind == "message_start":
            self._usage = dict(event["message"].get("usage") or {})
        elif kind == "content_block_start":
            if event.get("index") != len(self._blocks):
                raise IncompleteReply(f"the model's stream is broken: block {event.get('index')} is not the next")
            self._blocks.append(dict(event["content_block"]))
            return self._deltas(self._blocks[-1])
        elif kind == "content_block_delta":
            return self._add_delta(event.get("index"), event["delta"])
        elif kind == "message_delta":
            self._stop = event["delta"]
            self._usage |= {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
        return []

    def add_message(self, message: Mapping[str, Any]) -> None:
        """Take a whole, unstreamed message in."""
        self._blocks = [dict(block) for block in message.get("content") or []]
        self._usage = message.get("usage") or {}
        self._stop = dict(message)

    def _add_delta(self, index: Any, delta: Mapping[str, Any]) -> list[Delta]:
        if not isinstance(index, int) or not 0 <= index < len(self._blocks):
            raise IncompleteReply(f"the model's stream is broken: there is no block {index}")
        block, kind = self._blocks[index], delta.get("type")
        if kind == "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
            return self._deltas({"type": "text", "text": delta["text"]})
        if kind == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
            return self._deltas({"type": "thinking", "thinking": delta["thinking"]})
        if kind == "signature_delta":
            block["signature"] = block.get("signature", "") + delta["signature"]
        elif kind == "input_json_delta":
            self._inputs.setdefault(index, []).append(delta["partial_json"])
        return []

    @staticmethod
    def _deltas(block: Mapping[str, Any]) -> list[Delta]:
        if block["type"] == "text" and block.get("text"):
            return [{"content": block["text"]}]
        if block["type"] == "thinking" and block.get("thinking"):
            return [{"reasoning": block["thinking"]}]
        return []

    def finish(self) -> ModelReply:
        """The whole reply; `IncompleteReply` when the model never said that it was done."""
        reason = self._stop.get("stop_reason")
        if reason is None:
            raise IncompleteReply("the model's stream ended before the reply was complete")
        finish = _FINISH_REASONS.get(reason, reason)
        parts: list[Part] = []
        for index, block in enumerate(self._blocks):
            parts += self._part(index, block, finish)
        calls = [part.call for part in parts if part.call is not None]
        text = "".join(part.text for part in parts if part.kind == "text")
        if not text and finish == "content_filter":
            text = (self._stop.get("stop_details") or {}).get("explanation") or ""
        message = ChatMessage(
            role="assistant",
            content=text or (None if calls else ""),
            reasoning="\n\n".join(block["thinking"] for block in self._blocks if block.get("thinking")) or None,
            reasoning_details=keep_parts(PROVIDER, parts),
            tool_calls=calls or None,
        )
        return ModelReply(message, read_usage(self._usage), finish)

    def _part(self, index: int, block: dict[str, Any], finish: str) -> list[Part]:
        written = "".join(self._inputs.get(index, ()))
        if block["type"] == "text":
            return [Part("text", text=block["text"])] if block.get("text") else []
        if block["type"] == "tool_use":
            arguments = written or json.dumps(block.get("input") or {}, ensure_ascii=False)
            is_last = index == len(self._blocks) - 1
            # Half a call must not run, and of a refused reply none.
            if finish == "content_filter" or (finish == "length" and is_last and not _is_whole(written, block)):
                return []
            call: ToolCall = {
                "id": str(block.get("id") or f"call_{uuid.uuid4().hex}"),
                "type": "function",
                "function": {"name": str(block.get("name") or ""), "arguments": arguments},
            }
            return [Part("call", call=call)]
        if written:
            block = {**block, "input": _object(written) or {}}
        return [Part("own", native={name: value for name, value in block.items() if value is not None})]


def _is_whole(written: str, block: Mapping[str, Any]) -> bool:
    """Whether the last call of a reply that was cut short has all of its input. Without any it may be one that takes
    none, or one that was cut before it: that it must not run is what can be said of both."""
    return bool(written and _object(written) is not None) or bool(block.get("input"))


def read_usage(usage: Mapping[str, Any]) -> dict[str, float]:
    """A message's usage in our words. What is read from a cache or written to it is input too, which here stands
    apart; members nobody told are left out."""
    cached, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    asked, said = usage.get("input_tokens"), usage.get("output_tokens")
    told: dict[str, Any] = {}
    if asked is not None:
        told["input_tokens"] = asked + (cached or 0) + (written or 0)
    told["output_tokens"] = said
    if asked is not None and said is not None:
        told["total_tokens"] = told["input_tokens"] + said
    told["cached_tokens"] = cached
    told["reasoning_tokens"] = (usage.get("output_tokens_details") or {}).get("thinking_tokens")
    return {name: value for name, value in told.items() if isinstance(value, int | float)}
