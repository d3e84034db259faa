"""A local server that speaks Anthropic's messages, for driving the real `anthropic` package.

Its replies and events are made of the package's own types, which are the published schema, and its requests are checked
against them; it refuses what the real API refuses of a conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from anthropic.types import (
    InputJSONDelta,
    Message,
    MessageDeltaUsage,
    MessageParam,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    RedactedThinkingBlock,
    RefusalStopDetails,
    SignatureDelta,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolParam,
    ToolUseBlock,
    Usage,
)
from anthropic.types.output_tokens_details import OutputTokensDetails
from anthropic.types.raw_message_delta_event import Delta
from pydantic import BaseModel, TypeAdapter, ValidationError

from tests.python.support.model_server import Failure, ModelServer, pieces

USAGE = Usage(
    input_tokens=5,
    cache_read_input_tokens=4,
    cache_creation_input_tokens=2,
    output_tokens=7,
    output_tokens_details=OutputTokensDetails(thinking_tokens=2),
)

_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[MessageParam])
_TOOLS: TypeAdapter[Any] = TypeAdapter(list[ToolParam])


def text(said: str) -> TextBlock:
    return TextBlock(type="text", text=said)


def thinking(thought: str, signature: str = "sig-of-the-thought") -> ThinkingBlock:
    return ThinkingBlock(type="thinking", thinking=thought, signature=signature)


def redacted(data: str) -> RedactedThinkingBlock:
    return RedactedThinkingBlock(type="redacted_thinking", data=data)


def call(identity: str, name: str, given: dict[str, object]) -> ToolUseBlock:
    return ToolUseBlock(type="tool_use", id=identity, name=name, input=given)


@dataclass
class Reply:
    """One message; `content` are its blocks."""

    content: list[Any] = field(default_factory=list)
    stop: Any = None
    refused: str | None = None
    """What the API says of a refusal."""
    cut_input: int | None = None
    """After how many characters the input of the last call ends."""

    @property
    def stop_reason(self) -> Any:
        has_calls = any(isinstance(block, ToolUseBlock) for block in self.content)
        return self.stop or ("refusal" if self.refused else "tool_use" if has_calls else "end_turn")

    @property
    def details(self) -> RefusalStopDetails | None:
        if self.refused is None:
            return None
        return RefusalStopDetails(type="refusal", category="cyber", explanation=self.refused)

    def message(self, content: list[Any], stop_reason: Any) -> Message:
        return Message(
            id="msg_1",
            type="message",
            role="assistant",
            model="test-model",
            content=content,
            stop_reason=stop_reason,
            stop_details=self.details if stop_reason else None,
            usage=USAGE,
        )


class AnthropicServer(ModelServer):
    """Answers request after request from `replies`; keeps what it received."""

    path = "/v1/messages"

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def wrong(self, body: dict[str, Any]) -> str | None:
        try:
            for message in _MESSAGES.validate_python(body["messages"]):
                list(message["content"])  # pydantic reads an iterable when it is asked for its items
            for tool in _TOOLS.validate_python(body.get("tools", [])):
                assert tool["input_schema"]["type"] == "object"
        except ValidationError as error:
            return str(error)
        if type(body.get("max_tokens")) is not int:
            return "max_tokens: Field required"
        return wrong_messages(body["messages"], thinks=body.get("thinking", {}).get("type") in ("enabled", "adaptive"))

    def error(self, failure: Failure) -> dict[str, Any]:
        return {"type": "error", "error": {"type": failure.kind, "message": failure.message}, "request_id": "req_1"}

    def events(self, reply: Reply, body: dict[str, Any]) -> list[str]:
        return stream(reply)

    def whole(self, reply: Reply) -> dict[str, Any]:
        return plain(reply.message(reply.content, reply.stop_reason))


def wrong_messages(messages: list[dict[str, Any]], *, thinks: bool) -> str | None:
    """What the real API says to roles that do not alternate, empty blocks, calls without results, and thoughts that are
    missing or at the end."""
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    for index, message in enumerate(messages):
        if index and message["role"] == messages[index - 1]["role"]:
            return "messages: roles must alternate"
        blocks = message["content"]
        if not blocks or any(block["type"] == "text" and not block["text"] for block in blocks):
            return f"messages.{index}: text content blocks must be non-empty"
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        after = messages[index + 1]["content"] if index + 1 < len(messages) else []
        results = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
        if calls != results:
            return (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {calls}"
            )
        if message["role"] == "assistant" and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            return f"messages.{index}: the final block in an assistant message cannot be `thinking`"
        is_open = index == len(messages) - 2
        if thinks and calls and is_open and blocks[0]["type"] not in ("thinking", "redacted_thinking"):
            return f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`"
    return None


def plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


def sse(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def stream(reply: Reply) -> list[str]:
    """A reply as the text of its events."""
    said = [sse(event.type, event.model_dump_json(by_alias=True)) for event in events(reply)]  # type: ignore[attr-defined]
    return [said[0], sse("ping", '{"type": "ping"}'), *said[1:]]


def events(reply: Reply) -> Iterator[BaseModel]:
    yield RawMessageStartEvent(type="message_start", message=reply.message([], None))
    for index, block in enumerate(reply.content):
        is_last = index == len(reply.content) - 1
        yield RawContentBlockStartEvent(type="content_block_start", index=index, content_block=begun(block))
        for delta in deltas(block, reply.cut_input if is_last else None):
            yield RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta)
        yield RawContentBlockStopEvent(type="content_block_stop", index=index)
    yield RawMessageDeltaEvent(
        type="message_delta",
        delta=Delta(stop_reason=reply.stop_reason, stop_details=reply.details),
        usage=MessageDeltaUsage(output_tokens=USAGE.output_tokens, output_tokens_details=USAGE.output_tokens_details),
    )
    yield RawMessageStopEvent(type="message_stop")


def begun(block: Any) -> Any:
    if isinstance(block, TextBlock):
        return block.model_copy(update={"text": ""})
    if isinstance(block, ThinkingBlock):
        return block.model_copy(update={"thinking": "", "signature": ""})
    return block.model_copy(update={"input": {}}) if isinstance(block, ToolUseBlock) else block


def deltas(block: Any, cut: int | None) -> Iterator[Any]:
    if isinstance(block, TextBlock):
        yield from (TextDelta(type="text_delta", text=piece) for piece in pieces(block.text))
    elif isinstance(block, ThinkingBlock):
        yield from (ThinkingDelta(type="thinking_delta", thinking=piece) for piece in pieces(block.thinking))
        yield SignatureDelta(type="signature_delta", signature=block.signature)
    elif isinstance(block, ToolUseBlock):
        written = json.dumps(block.input) if block.input else ""  # how the real one says that there are none
        for piece in ["", *pieces(written[:cut])]:
            yield InputJSONDelta(type="input_json_delta", partial_json=piece)


def error_event(kind: str, message: str) -> str:
    return sse("error", json.dumps({"type": "error", "error": {"type": kind, "message": message}}))
