"""The wire format of OpenAI's Responses API: a conversation as items in, items and stream events out.

Events are read as plain dictionaries, and kinds of events and items that are not known here are left alone: what has no
field in a `ChatMessage` is kept as it is, and goes back to the model in its place.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from hitl.attachments import Attachment
from hitl.messages import ChatMessage, ToolCall
from hitl.model_settings import TOOL_CHOICES, InvalidSettings, ModelSettings, tool_choice_of
from hitl.models.attached import in_the_form_of_its_role, is_pdf, is_shown_image, text_of
from hitl.models.chat_client import Delta, ModelReply, ResponseFormat
from hitl.models.replies import IncompleteReply, Part, keep_parts, parts_of
from hitl.models.wire import arguments_of, strict_schema

PROVIDER = "openai.responses"
"""What of a reply only this API can read is kept under this name."""

_BETWEEN = "\n\n"
"""Between two messages, or two summaries of thoughts, of one reply."""

_DELTAS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "content",  # a refusal is the model's answer too; it only comes under another name
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


# --- requests -----------------------------------------------------------------------------------------------------


def input_of(messages: Iterable[ChatMessage], *, is_stored: bool) -> list[dict[str, Any]]:
    """A conversation as the API's input items.

    `is_stored`: the provider keeps the replies, and finds a thought by its id; otherwise one that does not bring its
    encrypted content is left out, which would be refused.
    """
    items: list[dict[str, Any]] = []
    for message in map(in_the_form_of_its_role, messages):
        if message.role == "assistant":
            for part in parts_of(PROVIDER, message, between=_BETWEEN):
                item = _item(part)
                if item.get("type") != "reasoning" or is_stored or item.get("encrypted_content") or item.get("content"):
                    items.append(item)
        elif message.role == "tool":
            items.append({"type": "function_call_output", "call_id": message.tool_call_id, "output": _content(message)})
        else:
            items.append({"role": message.role, "content": _content(message)})
    return items


def _item(part: Part) -> dict[str, Any]:
    if part.kind == "own":
        return dict(part.native or {})
    if part.call is not None:
        function = part.call["function"]
        return {"type": "function_call", "call_id": part.call["id"], **function}
    return {"role": "assistant", "content": part.text, **(part.native or {})}


def _content(message: ChatMessage) -> str | list[dict[str, Any]]:
    attached = message.attached
    if not attached:
        return message.content or ""
    text = [{"type": "input_text", "text": message.content}] if message.content else []
    return [*text, *map(part_of, attached)]


def part_of(attachment: Attachment) -> dict[str, Any]:
    """What is attached as the API takes it; text, where it takes it in no other form."""
    if is_shown_image(attachment):
        return {"type": "input_image", "detail": "auto", "image_url": attachment.data_url}
    if is_pdf(attachment):
        if attachment.url is not None:
            return {"type": "input_file", "file_url": attachment.url}
        return {
            "type": "input_file",
            "filename": attachment.name or "document.pdf",
            "file_data": attachment.data_url,
        }
    return {"type": "input_text", "text": text_of(attachment)}


def tools_to_wire(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool definitions, each a member flatter than in chat-completions; not strict unless it says so, as there."""
    return [{"type": "function", "strict": False, **tool["function"]} for tool in tools]


def format_to_wire(wanted: ResponseFormat) -> dict[str, Any]:
    """`strict` wherever the schema allows it: then the provider guarantees the structure."""
    strict = strict_schema(wanted.schema)
    return {
        "format": {
            "type": "json_schema",
            "name": wanted.name,
            "schema": strict or wanted.schema,
            "strict": strict is not None,
        }
    }


def settings_to_wire(settings: ModelSettings, *, has_tools: bool) -> dict[str, Any]:
    """Settings as members of a body; `InvalidSettings` for a stop text, which this API has no word for, and for a tool
    that must be called where there is none."""
    if "stop" in settings:
        raise InvalidSettings("the Responses API ends no reply at a text: leave out settings['stop']")
    wire: dict[str, Any] = {name: settings[name] for name in ("temperature", "top_p") if name in settings}
    if "max_tokens" in settings:
        wire["max_output_tokens"] = settings["max_tokens"]
    if "reasoning_effort" in settings:
        wire["reasoning"] = {"effort": settings["reasoning_effort"]}
    choice = tool_choice_of(settings, has_tools=has_tools)
    if choice is not None:
        wire["tool_choice"] = choice if choice in TOOL_CHOICES else {"type": "function", "name": choice}
    if has_tools and "parallel_tool_calls" in settings:
        wire["parallel_tool_calls"] = settings["parallel_tool_calls"]
    return wire


# --- replies ------------------------------------------------------------------------------------------------------


class ResponseBuilder:
    """Puts a reply together from stream events, or from one whole response."""

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._response: Mapping[str, Any] | None = None
        self._last: dict[str, tuple[Any, ...]] = {}
        """Where in the output the last piece for a reader was, of each kind of delta."""
        self.failure: dict[str, Any] | None = None
        """What the provider says of a reply that came to nothing: `code`, `message`."""

    def add_event(self, event: Mapping[str, Any]) -> list[Delta]:
        """Take one event in; returns what is new for a reader."""
        kind = event.get("type")
        if kind in _DELTAS:
            return self._deltas(_DELTAS[kind], event)
        if kind == "response.output_item.done":
            self._items[event["output_index"]] = event["item"]
        elif kind in _ENDS:
            self.add_response(event["response"])
        elif kind == "error":
            self.failure = dict(event)
        return []

    def add_response(self, response: Mapping[str, Any]) -> None:
        """Take a whole response in."""
        self._response = response
        if response.get("status") in ("failed", "cancelled"):
            self.failure = dict(response.get("error") or {"message": f"the response is {response['status']}"})

    def _deltas(self, name: str, event: Mapping[str, Any]) -> list[Delta]:
        piece = event.get("delta")
        if not piece:
            return []
        # A message is one text whatever its parts; of a thought each part is a text.
        part = () if name == "content" else (event.get("summary_index"), event.get("content_index"))
        here = (event.get("output_index"), *part)
        before, self._last[name] = self._last.get(name, here), here
        pieces = [piece] if before == here else [_BETWEEN, piece]
        return [{"content": text} if name == "content" else {"reasoning": text} for text in pieces]

    def finish(self) -> ModelReply:
        """The whole reply; `IncompleteReply` when the model never said that it was done, `InvalidSettings` where it is
        to be asked for again until it has."""
        response = self._response
        if response is None:
            raise IncompleteReply("the model's stream ended before the reply was complete")
        if response.get("status") in ("queued", "in_progress"):
            raise InvalidSettings(
                f"the reply is made in the background: its status is {response['status']}, and nobody asks for it again"
                "\n\nhint: leave out background, for example of the client's parameters"
            )
        if response.get("status") not in (None, "completed", "incomplete"):
            raise IncompleteReply(f"the reply is not complete: its status is {response['status']}")
        # Some servers list at the end of a stream nothing of what they have said in it.
        items = response.get("output") or [self._items[index] for index in sorted(self._items)]
        parts, thoughts, calls = list[Part](), list[str](), list[ToolCall]()
        is_whole = response.get("status") != "incomplete"
        for item in items:
            kind = item.get("type")
            if kind == "message":
                phase = {"phase": item["phase"]} if item.get("phase") else None
                if text := "".join(part.get("text") or part.get("refusal") or "" for part in item.get("content") or []):
                    parts.append(Part("text", text=text, native=phase))
            elif kind != "function_call":
                thoughts += _thoughts(item)
                parts.append(Part("own", native=_without_nulls(item)))
            elif is_whole or item.get("status") == "completed":  # half a call must not run
                calls.append(_call(item))
                parts.append(Part("call", call=calls[-1]))
        text = _BETWEEN.join(part.text for part in parts if part.kind == "text")
        message = ChatMessage(
            role="assistant",
            content=text or (None if calls else ""),
            reasoning=_BETWEEN.join(thoughts) or None,
            reasoning_details=keep_parts(PROVIDER, parts),
            tool_calls=calls or None,
        )
        return ModelReply(message, read_usage(response.get("usage") or {}), _finish_reason(response, bool(calls)))


def _thoughts(item: Mapping[str, Any]) -> list[str]:
    if item.get("type") != "reasoning":
        return []
    return [text for part in [*(item.get("summary") or []), *(item.get("content") or [])] if (text := part.get("text"))]


def _call(item: Mapping[str, Any]) -> ToolCall:
    return {
        "id": str(item.get("call_id") or f"call_{uuid.uuid4().hex}"),
        "type": "function",
        "function": {"name": str(item.get("name") or ""), "arguments": arguments_of(item.get("arguments") or "")},
    }


def _without_nulls(item: Mapping[str, Any]) -> dict[str, Any]:
    """What the API sends as null it does not always take as null. A status is of replies alone."""
    return {name: value for name, value in item.items() if value is not None and name != "status"}


def _finish_reason(response: Mapping[str, Any], has_calls: bool) -> str:
    if response.get("status") == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason") or "length"
        return reason if reason == "content_filter" else "length"
    return "tool_calls" if has_calls else "stop"


def read_usage(usage: Mapping[str, Any]) -> dict[str, float]:
    """A response's usage in our words; members nobody told are left out."""
    told = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "total_tokens": usage.get("total_tokens"),
        "cached_tokens": (usage.get("input_tokens_details") or {}).get("cached_tokens"),
        "reasoning_tokens": (usage.get("output_tokens_details") or {}).get("reasoning_tokens"),
    }
    return {name: value for name, value in told.items() if isinstance(value, int | float)}
