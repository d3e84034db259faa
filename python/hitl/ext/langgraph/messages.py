"""LangChain's messages and ours: what everybody reads of a conversation, and a conversation that no graph has had."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
from hitl.models.attached import PDF, in_the_form_of_its_role, is_shown_image
from hitl.models.attached import text_of as text_of_file

_BLOCKS = {PDF: "file", "audio": "audio", "video": "video"}
_AUDIO = {
    "audio/mpeg": "audio/mp3",
    "audio/vnd.wave": "audio/wav",
}
# LangChain makes of a type's second half the format that OpenAI's API is told, which knows `mp3` and `wav`.


def prompt_of(message: ChatMessage) -> HumanMessage:
    """A person's message for a graph."""
    attached = message.attached
    if not attached:
        return HumanMessage(message.content or "")
    text: list[str | dict[str, Any]] = [_text(message.content)] if message.content else []
    return HumanMessage([*text, *map(_attached, attached)])


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _attached(attachment: Attachment) -> dict[str, Any]:
    """A block that LangChain's models read; text, where they take it in no other form.

    An address is text: some models of LangChain refuse it, and some fetch it in the process that they are asked in,
    and so would a worker, for whoever may send a message.
    """
    media_type = _AUDIO.get(attachment.usual_type, attachment.usual_type)
    kind = _BLOCKS.get(media_type) or _BLOCKS.get(media_type.partition("/")[0])
    if not attachment.data:
        return _text(text_of_file(attachment))
    if is_shown_image(attachment):
        return {"type": "image_url", "image_url": {"url": attachment.data_url}}
    if kind is None:
        return _text(text_of_file(attachment))
    name = attachment.name or ("document.pdf" if kind == "file" else None)  # a PDF without one is refused by OpenAI
    named = {"extras": {"filename": name}} if name else {}
    return {"type": kind, "mime_type": media_type, "base64": attachment.data, **named}


def from_chats(messages: Iterable[ChatMessage]) -> Iterator[BaseMessage]:
    """Messages that no graph has made.

    Some models take text alone of a tool, and nothing between its results: what is attached to these follows the last
    of them as a message of the user, as hitl's own client of such an API sends it.
    """
    of_tools: list[str | dict[str, Any]] = []
    for message in map(in_the_form_of_its_role, messages):
        if message.role != "tool":
            if of_tools:
                yield HumanMessage(of_tools)
            of_tools = []
            yield _from_chat(message)
            continue
        blocks = [_attached(each) for each in message.attached]
        told = [block["text"] for block in blocks if block["type"] == "text"]
        if shown := [block for block in blocks if block["type"] != "text"]:
            result = f"Attached to the result of {message.name or 'a tool'} (call {message.tool_call_id}):"
            of_tools += [_text(result), *shown]
        said = [message.content] if message.content else []
        yield _from_chat(replace(message, content="\n\n".join([*said, *told])))
    if of_tools:
        yield HumanMessage(of_tools)


def _from_chat(message: ChatMessage) -> BaseMessage:
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
