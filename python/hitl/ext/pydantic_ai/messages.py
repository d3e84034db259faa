"""pydantic-ai's messages and ours: what everybody reads of a conversation, and a conversation that it has not had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import ModelProfile

from hitl.attachments import Attachment
from hitl.ext.native import keep, recall, shown_turn
from hitl.ext.replies import RecordedReply
from hitl.ext.versions import reading
from hitl.messages import ChatMessage, FunctionCall, ToolCall
from hitl.models.attached import PDF, in_the_form_of_its_role, is_shown_image, text_of

FORM = "pydantic_ai"
"""Names the form in which a session's messages carry pydantic-ai's."""

_AUDIO = ("audio/wav", "audio/mpeg")


def prompt_of(message: ChatMessage, profiles: Sequence[ModelProfile] = ()) -> str | list[UserContent]:
    """A person's message as the prompt of a run, for models with these profiles."""
    attached = message.attached
    if not attached:
        return message.content or ""
    text: list[UserContent] = [message.content] if message.content else []
    return [*text, *(_attached(each, profiles) for each in attached)]


def profiles_of(model: object) -> list[ModelProfile]:
    """What those say of themselves that an agent's ``model`` may ask; nothing where it is only a name, or none."""
    if isinstance(model, WrapperModel):
        return profiles_of(model.wrapped)
    if isinstance(model, FallbackModel):
        return [profile for each in model.models for profile in profiles_of(each)]
    return [model.profile] if isinstance(model, Model) else []


def _attached(attachment: Attachment, profiles: Sequence[ModelProfile]) -> UserContent:
    """Bytes that all of the models take, and text for everything else, at which some of them raise.

    An address is text too: many models of pydantic-ai fetch it in the process that they are asked in, and so would a
    worker, for whoever may send a message.
    """
    data = attachment.to_bytes()
    if not data:
        return text_of(attachment)
    item = BinaryContent(data, media_type=attachment.usual_type)
    is_taken = all(_takes(profile, attachment, item) for profile in profiles or [ModelProfile()])
    return item if is_taken else text_of(attachment)


def _takes(profile: ModelProfile, attachment: Attachment, item: BinaryContent) -> bool:
    if is_shown_image(attachment):
        return profile.get("supports_image_input", True)
    if item.media_type == PDF:
        kinds = profile.get("supported_document_media_types", (PDF,))
        return profile.get("supports_document_input", True) and PDF in kinds
    if item.is_audio:
        return item.media_type in _AUDIO and profile.get("supports_audio_file_input", True)
    return item.is_video and _has_format(item) and profile.get("supports_video_input", True)


def _has_format(item: BinaryContent) -> bool:
    try:
        return bool(item.format)
    except ValueError:
        return False


def history_of(state: Sequence[ChatMessage], profiles: Sequence[ModelProfile] = ()) -> list[ModelMessage]:
    """A session's messages as those that a run goes on from, for models with these profiles."""
    history: list[ModelMessage] = []
    for item in recall(state, FORM):
        if isinstance(item, ChatMessage):
            history.append(_from_chat(item, profiles))
        else:
            with reading("pydantic-ai-slim"):
                history += ModelMessagesTypeAdapter.validate_python(item)
    return history


def turn_of(
    message: ChatMessage,
    made: Sequence[ModelMessage],
    reply: str,
    told: Sequence[ChatMessage] = (),
    before: Sequence[ModelMessage] = (),
) -> list[ChatMessage]:
    """The messages of a turn: what was ``told`` before the message, what the person said, what ``made`` of it, and the
    reply, which carries ``made``, and ``before`` it what was told as the framework has it."""
    shown = [each for each in to_chat(made) if each.role != "system"]
    shown = [*told, *shown_turn(message, shown, reply)]
    native = ModelMessagesTypeAdapter.dump_python([*before, *made], mode="json", by_alias=True)
    return keep(shown, FORM, native)


def without_told(made: Sequence[ModelMessage], told: Sequence[ModelMessage]) -> list[ModelMessage]:
    """What a run has made, without what it was told before: a processor of its history may have merged the end of that
    into its first request."""
    first, *others = made
    parts = list(cast(ModelRequest, first).parts)
    for known in _end_of(told):
        at = next((at for at, part in enumerate(parts) if _is_same(part, known)), len(parts))
        if any(isinstance(part, UserPromptPart) for part in parts[at + 1 :]):  # never the message itself
            del parts[at]
    return [replace(cast(ModelRequest, first), parts=parts), *others]


def _end_of(messages: Sequence[ModelMessage]) -> list[ModelRequestPart]:
    """The parts after the last reply."""
    begin = max((at for at, each in enumerate(messages, 1) if isinstance(each, ModelResponse)), default=0)
    return [part for each in messages[begin:] if isinstance(each, ModelRequest) for part in each.parts]


def _is_same(part: object, known: ModelRequestPart) -> bool:
    if isinstance(known, ToolReturnPart):
        return isinstance(part, ToolReturnPart) and part.tool_call_id == known.tool_call_id
    return isinstance(known, UserPromptPart) and isinstance(part, UserPromptPart) and part.content == known.content


def with_system_prompt(told: Sequence[ModelMessage], earlier: Sequence[ModelMessage]) -> list[ModelMessage]:
    """What a conversation begins with, and the system prompt that the framework has put there, or, where a processor of
    its history has taken that away, into one of the ``earlier`` messages that are left."""
    parts = [part for each in earlier for part in each.parts if isinstance(part, SystemPromptPart)]
    first, *others = told
    return [replace(cast(ModelRequest, first), parts=[*parts, *cast(ModelRequest, first).parts]), *others]


def to_chat(messages: Sequence[ModelMessage]) -> Iterator[ChatMessage]:
    """What of messages everybody reads."""
    return (ChatMessage(**shown) for shown in _shown(messages))


def compared(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """What ``to_chat`` shows of messages, as JSON and without system prompts. Made without the messages in between,
    which are checked: a conversation comes by here as often as its model is asked."""
    return [shown for shown in _shown(messages) if shown["role"] != "system"]


def _shown(messages: Sequence[ModelMessage]) -> Iterator[dict[str, Any]]:
    """The fields of each message that everybody reads, without those that are None."""
    for message in messages:
        if isinstance(message, ModelResponse):
            yield _spoken(message)
            continue
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield {"role": "user", "content": _text_of(part.content)}
            elif isinstance(part, SystemPromptPart):
                yield {"role": "system", "content": part.content}
            elif isinstance(part, ToolReturnPart):
                said = part.model_response_str()
                yield {"role": "tool", "content": said, "tool_call_id": part.tool_call_id, "name": part.tool_name}
            elif isinstance(part, RetryFeedbackPart):
                yield {"role": "user", "content": part.model_response()}


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
    return RecordedReply(ChatMessage(**_spoken(response)), usage, response.finish_reason, native)


def _spoken(response: ModelResponse) -> dict[str, Any]:
    """What a model has said, thought and wants called."""
    text, thoughts, calls = "", "", list[ToolCall]()
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            called: FunctionCall = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            calls.append({"id": part.tool_call_id, "type": "function", "function": called})
        elif isinstance(part, TextPart):
            text += part.content
        elif isinstance(part, ThinkingPart):
            thoughts += part.content
    said: dict[str, Any] = {"content": text, "reasoning": thoughts, "tool_calls": calls}
    return {"role": "assistant", **{name: value for name, value in said.items() if value}}


def _from_chat(message: ChatMessage, profiles: Sequence[ModelProfile]) -> ModelMessage:
    """A message that no run of pydantic-ai has made."""
    message = in_the_form_of_its_role(message)
    if message.role == "assistant":
        thoughts = [ThinkingPart(message.reasoning)] if message.reasoning else []
        text = [TextPart(message.content)] if message.content else []
        calls = [
            ToolCallPart(call["function"]["name"], call["function"]["arguments"], tool_call_id=call["id"])
            for call in message.tool_calls or ()
        ]
        return ModelResponse(parts=[*thoughts, *text, *calls])
    if message.role == "tool":
        prompt = prompt_of(message, profiles)
        texts = [each for each in prompt if isinstance(each, str)]
        # What is text alone stays a text, which models read as it is and not as JSON.
        content: Any = "\n\n".join(texts) if isinstance(prompt, list) and len(texts) == len(prompt) else prompt
        part = ToolReturnPart(message.name or "tool", content, tool_call_id=message.tool_call_id or "")
        return ModelRequest(parts=[part])
    if message.role == "system":
        return ModelRequest(parts=[SystemPromptPart(message.content or "")])
    return ModelRequest(parts=[UserPromptPart(prompt_of(message, profiles))])


def _text_of(content: str | Sequence[UserContent]) -> str:
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else cast(Any, getattr(part, "content", None)) for part in content]
    return "\n".join(part for part in parts if isinstance(part, str))
