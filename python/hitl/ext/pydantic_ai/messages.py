"""pydantic-ai's messages and ours: what everybody reads of a conversation, and a conversation that it has not had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from hitl.attachments import Attachment
from hitl.ext.native import keep, recall, shown_turn
from hitl.ext.replies import RecordedReply
from hitl.ext.versions import reading
from hitl.messages import ChatMessage, ToolCall

FORM = "pydantic_ai"
"""Names the form in which a session's messages carry pydantic-ai's."""

_ADDRESSES: dict[str, type[ImageUrl | AudioUrl | VideoUrl | DocumentUrl]] = {
    "image": ImageUrl,
    "audio": AudioUrl,
    "video": VideoUrl,
}


def prompt_of(message: ChatMessage) -> str | list[UserContent]:
    """A person's message as the prompt of a run."""
    attached = message.attached
    if not attached:
        return message.content or ""
    text: list[UserContent] = [message.content] if message.content else []
    return [*text, *map(_attached, attached)]


def _attached(attachment: Attachment) -> UserContent:
    """What a model cannot be shown is the framework's to say, as where a prompt was made for it."""
    kind, data = attachment.media_type, attachment.to_bytes()
    if data is not None:
        return BinaryContent(data, media_type=kind)
    address = _ADDRESSES.get(kind.partition("/")[0], DocumentUrl)
    return address(attachment.data_url, media_type=kind)


def history_of(state: Sequence[ChatMessage]) -> list[ModelMessage]:
    """A session's messages as those that a run goes on from."""
    history: list[ModelMessage] = []
    for item in recall(state, FORM):
        if isinstance(item, ChatMessage):
            history.append(_from_chat(item))
        else:
            with reading("pydantic-ai-slim"):
                history += ModelMessagesTypeAdapter.validate_python(item)
    return history


def turn_of(message: ChatMessage, made: Sequence[ModelMessage], reply: str) -> list[ChatMessage]:
    """The messages of a turn: what the person said, what ``made`` of it, and the reply, which carries ``made``."""
    shown = shown_turn(message, (each for each in to_chat(made) if each.role != "system"), reply)
    native = ModelMessagesTypeAdapter.dump_python(list(made), mode="json", by_alias=True)
    return keep(shown, FORM, native)


def to_chat(messages: Sequence[ModelMessage]) -> Iterator[ChatMessage]:
    """What of messages everybody reads."""
    for message in messages:
        if isinstance(message, ModelResponse):
            yield _spoken(message)
            continue
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield ChatMessage.user_message(content=_text_of(part.content))
            elif isinstance(part, SystemPromptPart):
                yield ChatMessage.system_message(content=part.content)
            elif isinstance(part, ToolReturnPart):
                yield ChatMessage.tool_message(
                    content=part.model_response_str(), tool_call_id=part.tool_call_id, name=part.tool_name
                )
            elif isinstance(part, RetryFeedbackPart):
                yield ChatMessage.user_message(content=part.model_response())


def recorded(response: ModelResponse, native: Any) -> RecordedReply:
    """A model's reply for the journal. ``native``: its wire form."""
    said = response.usage
    usage: dict[str, float] = {
        "input_tokens": said.input_tokens,
        "output_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
    }
    if said.cache_read_tokens:
        usage["cached_tokens"] = said.cache_read_tokens
    return RecordedReply(_spoken(response), usage, response.finish_reason, native)


def _spoken(response: ModelResponse) -> ChatMessage:
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    thoughts = "".join(part.content for part in response.parts if isinstance(part, ThinkingPart))
    calls: list[ToolCall] = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    return ChatMessage.assistant_message(content=text or None, reasoning=thoughts or None, tool_calls=calls or None)


def _from_chat(message: ChatMessage) -> ModelMessage:
    """A message that no run of pydantic-ai has made."""
    if message.role == "assistant":
        thoughts = [ThinkingPart(message.reasoning)] if message.reasoning else []
        text = [TextPart(message.content)] if message.content else []
        calls = [
            ToolCallPart(call["function"]["name"], call["function"]["arguments"], tool_call_id=call["id"])
            for call in message.tool_calls or ()
        ]
        return ModelResponse(parts=[*thoughts, *text, *calls])
    if message.role == "tool":
        part = ToolReturnPart(message.name or "tool", message.content or "", tool_call_id=message.tool_call_id or "")
        return ModelRequest(parts=[part])
    if message.role == "system":
        return ModelRequest(parts=[SystemPromptPart(message.content or "")])
    return ModelRequest(parts=[UserPromptPart(prompt_of(message))])


def _text_of(content: str | Sequence[UserContent]) -> str:
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else cast(Any, getattr(part, "content", None)) for part in content]
    return "\n".join(part for part in parts if isinstance(part, str))
