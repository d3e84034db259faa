"""LangChain's messages and ours: what everybody reads of a conversation, and a conversation that no graph has had."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from hitl.attachments import Attachment
from hitl.ext.replies import RecordedReply
from hitl.messages import ChatMessage, ToolCall
from hitl.models.attached import PDF, is_shown_image
from hitl.models.attached import text_of as text_of_file

_BLOCKS = {PDF: "file", "audio": "audio", "video": "video"}


def prompt_of(message: ChatMessage) -> HumanMessage:
    """A person's message for a graph."""
    attached = message.attached
    if not attached:
        return HumanMessage(message.content or "")
    text: list[str | dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
    return HumanMessage([*text, *map(_attached, attached)])


def _attached(attachment: Attachment) -> dict[str, Any]:
    """A block that LangChain's models read; text, where they take it in no other form."""
    if is_shown_image(attachment):
        return {"type": "image_url", "image_url": {"url": attachment.data_url}}
    kind = _BLOCKS.get(attachment.media_type) or _BLOCKS.get(attachment.media_type.partition("/")[0])
    if kind is None:
        return {"type": "text", "text": text_of_file(attachment)}
    where = {"url": attachment.url} if attachment.url else {"base64": attachment.data}
    named = {"extras": {"filename": attachment.name}} if attachment.name else {}
    return {"type": kind, "mime_type": attachment.media_type, **where, **named}


def from_chat(message: ChatMessage) -> BaseMessage:
    """A message that no graph has made."""
    if message.role == "assistant":
        calls = [
            {
                "name": call["function"]["name"],
                "args": _args(call["function"]["arguments"]),
                "id": call["id"],
                "type": "tool_call",
            }
            for call in message.tool_calls or ()
        ]
        return AIMessage(message.content or "", tool_calls=calls)
    if message.role == "tool":
        return ToolMessage(message.content or "", tool_call_id=message.tool_call_id or "", name=message.name)
    if message.role == "system":
        return SystemMessage(message.content or "")
    return prompt_of(message)


def to_chat(messages: Sequence[BaseMessage]) -> Iterator[ChatMessage]:
    """What of messages everybody reads."""
    for message in messages:
        if isinstance(message, AIMessage):
            yield spoken(message)
        elif isinstance(message, HumanMessage):
            yield ChatMessage.user_message(content=str(message.text))
        elif isinstance(message, SystemMessage):
            yield ChatMessage.system_message(content=str(message.text))
        elif isinstance(message, ToolMessage):
            yield ChatMessage.tool_message(
                content=text_of(message), tool_call_id=message.tool_call_id, name=message.name
            )


def recorded(message: BaseMessage, native: Any) -> RecordedReply:
    """A model's reply for the journal. ``native``: all of it, as the framework gets it back."""
    usage: dict[str, float] = {}
    finish = None
    if isinstance(message, AIMessage):
        finish = message.response_metadata.get("finish_reason")
        if (said := message.usage_metadata) is not None:
            usage = {name: float(said[name]) for name in ("input_tokens", "output_tokens", "total_tokens")}
            if cached := (said.get("input_token_details") or {}).get("cache_read"):
                usage["cached_tokens"] = cached
    shown = (
        spoken(message) if isinstance(message, AIMessage) else ChatMessage.assistant_message(content=str(message.text))
    )
    return RecordedReply(shown, usage, finish if isinstance(finish, str) else None, native)


def spoken(message: AIMessage) -> ChatMessage:
    """A model's message as everybody reads it."""
    thoughts = ""
    if isinstance(message.content, list) or message.additional_kwargs:  # else it has none, and to look takes long
        blocks = message.content_blocks
        thoughts = "".join(str(block.get("reasoning", "")) for block in blocks if block["type"] == "reasoning")
    calls: list[ToolCall] = [
        {
            "id": call["id"] or "",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
        }
        for call in message.tool_calls
    ]
    return ChatMessage.assistant_message(
        content=str(message.text) or None, reasoning=thoughts or None, tool_calls=calls or None
    )


def text_of(message: BaseMessage) -> str:
    """The words of a message; of one that has none, its content as JSON."""
    return str(message.text) or (
        message.content if isinstance(message.content, str) else json.dumps(message.content, default=repr)
    )


def _args(text: str) -> dict[str, Any]:
    try:
        args = json.loads(text)
    except ValueError:
        return {}
    return args if isinstance(args, dict) else {}
