"""Strands' messages and ours: what everybody reads of a conversation, and a conversation that it has not had."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from strands.types.content import ContentBlock, Message
from strands.types.session import decode_bytes_values, encode_bytes_values

from hitl.attachments import Attachment
from hitl.ext.gating import edit_note
from hitl.ext.native import keep, recall, shown_turn
from hitl.ext.replies import RecordedReply
from hitl.messages import ChatMessage, ToolCall
from hitl.models.attached import text_of

FORM: Final = "strands"
"""Names the form in which a session's messages carry Strands'."""

_INSTEAD: Final = "instead"
_STATE: Final = "state"
# Items of that form besides messages: that what follows stands for the whole conversation, as a conversation manager
# left it, and the agent's state after a turn.

_IMAGES: Final = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS: Final = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9 ()\[\]-]+")

_NOTE: Final = edit_note({}).partition("{")[0]
_USAGE: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
    "cacheReadInputTokens": "cached_tokens",
}


@dataclass
class History:
    """What a turn goes on from."""

    messages: list[Message] = field(default_factory=list)
    state: dict[str, Any] | None = None
    """The agent's, as the last turn that changed it left it; None: as it was made."""
    whole: bool = False
    """Whether the agent's own messages, those that it was made with, are among them."""


def history_of(state: Sequence[ChatMessage]) -> History:
    """A session's messages as those that a run goes on from."""
    history = History()
    for item in recall(state, FORM):
        if isinstance(item, ChatMessage):
            _append(history.messages, _from_chat(item))
            continue
        for each in cast(list[dict[str, Any]], decode_bytes_values(item)):
            if _INSTEAD in each:
                history.messages.clear()
                history.whole = True
            elif _STATE in each:
                history.state = each[_STATE]
            else:
                history.messages.append(cast(Message, each))
    return history


def prompt_of(message: ChatMessage) -> str | list[ContentBlock]:
    """A person's message as the prompt of a run."""
    attached = message.attached
    if not attached:
        return message.content or ""
    text: list[ContentBlock] = [{"text": message.content}] if message.content else []
    return [*text, *(_attached(number, each) for number, each in enumerate(attached, 1))]


def _attached(number: int, attachment: Attachment) -> ContentBlock:
    """A block of a prompt; text where Strands knows no format for it, or where only its address is known."""
    data, kind = attachment.to_bytes(), attachment.media_type
    if data is not None and kind in _IMAGES:
        return cast(ContentBlock, {"image": {"format": _IMAGES[kind], "source": {"bytes": data}}})
    if data is not None and kind in _DOCUMENTS:
        # Bedrock takes few characters in a name, and no name twice.
        name = f"{number} {_NO_NAME.sub(' ', attachment.name or 'document').strip()}"
        document = {"format": _DOCUMENTS[kind], "name": name, "source": {"bytes": data}}
        return cast(ContentBlock, {"document": document})
    return {"text": text_of(attachment)}


def turn_of(
    message: ChatMessage,
    reply: str,
    *,
    before: Sequence[Message],
    after: Sequence[Message],
    added: Sequence[Message],
    state: Mapping[str, Any] | None,
) -> list[ChatMessage]:
    """The messages of a turn: what the person said, what was ``added``, and the reply.

    The reply carries what the agent's messages are ``after`` the turn: those that it did not have ``before``, or, where
    a conversation manager took some of these away, all of them. ``state``: the agent's, where a turn has changed it.
    """
    shown = shown_turn(message, to_chat(added), reply)
    is_longer = list(after[: len(before)]) == list(before)
    kept: list[Any] = list(after[len(before) :]) if is_longer else [{_INSTEAD: True}, *after]
    if state is not None:
        kept.append({_STATE: dict(state)})
    return keep(shown, FORM, encode_bytes_values(kept))


def to_chat(messages: Sequence[Message]) -> Iterator[ChatMessage]:
    """What of messages everybody reads."""
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            names.update({use["toolUseId"]: use["name"] for use in _uses(message)})
            yield spoken(message)
            continue
        text: list[str] = []
        for block in message["content"]:
            if "toolResult" not in block:
                text += _texts(block)
                continue
            result = block["toolResult"]
            said = [each for content in result["content"] for each in _texts(content)]
            note = said.pop() if len(said) > 1 and said[-1].startswith(_NOTE) else None
            call_id = result["toolUseId"]
            yield ChatMessage.tool_message(
                content="\n".join(said), tool_call_id=call_id, name=names.get(call_id, "tool")
            )
            if note is not None:
                yield ChatMessage.user_message(content=note)
        if text:
            yield ChatMessage.user_message(content="\n".join(text))


def spoken(message: Message) -> ChatMessage:
    """What a model said."""
    content = message["content"]
    text = [block["text"] for block in content if "text" in block]
    thoughts = [
        block["reasoningContent"]["reasoningText"].get("text") or ""
        for block in content
        if "reasoningContent" in block and "reasoningText" in block["reasoningContent"]
    ]
    calls: list[ToolCall] = [
        {
            "id": use["toolUseId"],
            "type": "function",
            "function": {"name": use["name"], "arguments": json.dumps(use["input"], ensure_ascii=False)},
        }
        for use in _uses(message)
    ]
    return ChatMessage.assistant_message(
        content="".join(text) or None, reasoning="".join(thoughts) or None, tool_calls=calls or None
    )


def recorded(native: Mapping[str, Any]) -> RecordedReply:
    """A model's reply for the journal. ``native``: stop_reason, message, usage and metrics."""
    said = native["usage"]
    usage = {ours: said[theirs] for theirs, ours in _USAGE.items() if said.get(theirs) is not None}
    return RecordedReply(spoken(native["message"]), usage, native["stop_reason"], dict(native))


def _uses(message: Message) -> list[Any]:
    return [block["toolUse"] for block in message["content"] if "toolUse" in block]


def _texts(block: Mapping[str, Any]) -> list[str]:
    if "text" in block:
        return [block["text"]]
    if "json" in block:
        return [json.dumps(block["json"], ensure_ascii=False)]
    return []


def _append(messages: list[Message], message: Message) -> None:
    """Results of one reply's calls are one message of Strands."""
    if messages and "toolResult" in message["content"][0] and "toolResult" in messages[-1]["content"][0]:
        messages[-1]["content"].extend(message["content"])
    else:
        messages.append(message)


def _from_chat(message: ChatMessage) -> Message:
    """A message that no run of Strands has made."""
    content: list[ContentBlock]
    if message.role == "assistant":
        content = [{"text": message.content}] if message.content else []
        for call in message.tool_calls or ():
            arguments = json.loads(call["function"]["arguments"] or "{}")
            use = {"toolUseId": call["id"], "name": call["function"]["name"], "input": arguments}
            content.append(cast(ContentBlock, {"toolUse": use}))
        return {"role": "assistant", "content": content or [{"text": ""}]}
    if message.role == "tool":
        result = {
            "toolUseId": message.tool_call_id or "",
            "status": "success",
            "content": [{"text": message.content or ""}],
        }
        return {"role": "user", "content": [cast(ContentBlock, {"toolResult": result})]}
    prompt = prompt_of(message)
    return {"role": "user", "content": [{"text": prompt}] if isinstance(prompt, str) else prompt}
