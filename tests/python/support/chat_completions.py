"""A local server that speaks the chat-completions wire format, for driving the real `openai` package.

It sends what the real API sends (role chunk, split tool-call fragments, a usage chunk with no choices, `[DONE]`), and
refuses what the real API refuses: a wrong key, and a history whose tool calls are not all answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.python.support.model_server import API_KEY as API_KEY
from tests.python.support.model_server import Failure as Failure
from tests.python.support.model_server import ModelServer, pieces
from tests.python.support.model_server import Received as Received
from tests.python.support.model_server import Silence as Silence

USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 0},
}


@dataclass
class Reply:
    """One completion; `calls` are (id, name, arguments as text)."""

    content: str | None = None
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish_reason: str | None = None
    extra_deltas: list[dict[str, Any]] = field(default_factory=list)
    """Sent before anything else: `reasoning`, `reasoning_details`."""
    cut: bool = False
    """End the stream cleanly, but before the finish reason."""

    @property
    def finish(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")


@dataclass
class Chunks:
    """A stream given chunk by chunk, for gateways that bend the format."""

    deltas: list[dict[str, Any]]
    finish: str = "tool_calls"


class ChatCompletionsServer(ModelServer):
    """Answers request after request from `replies`; keeps what it received."""

    path = "/v1/chat/completions"
    prefix = "/v1"

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def wrong(self, body: dict[str, Any]) -> str | None:
        return wrong_history(body["messages"])

    def error(self, failure: Failure) -> dict[str, Any]:
        return {"error": {"message": failure.message, "type": failure.kind, "param": None, "code": None}}

    def events(self, reply: Reply | Chunks, body: dict[str, Any]) -> list[str]:
        include_usage = (body.get("stream_options") or {}).get("include_usage", False)
        return [f"data: {event}\n\n" for event in stream_events(reply, include_usage)]

    def whole(self, reply: Reply) -> dict[str, Any]:
        return completion(reply)


def wrong_history(messages: list[dict[str, Any]]) -> str | None:
    """What the real API says to a history in which tool calls and tool messages do not match."""
    open_calls: list[str] = []
    for message in messages:
        if set(message) - {"role", "content", "tool_calls", "tool_call_id", "name", "reasoning", "reasoning_details"}:
            return f"Additional properties are not allowed: {sorted(message)}"
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"No tool call found with id {message['tool_call_id']}"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"tool_call_ids did not have response messages: {', '.join(open_calls)}"
        open_calls = [call["id"] for call in message.get("tool_calls", [])]
        if len(set(open_calls)) < len(open_calls):
            return "Duplicate tool call ids"
    return f"tool_call_ids did not have response messages: {', '.join(open_calls)}" if open_calls else None


def completion(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content, "refusal": None, "annotations": []}
    if reply.calls:
        message["tool_calls"] = [
            {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
            for identity, name, arguments in reply.calls
        ]
    for extra in reply.extra_deltas:
        message.update(extra)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "test-model",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}],
        "usage": USAGE,
        "system_fingerprint": "fp_1",
    }


def stream_events(reply: Reply | Chunks, include_usage: bool) -> Iterator[str]:
    def chunk(choices: list[dict[str, Any]], usage: Any = None) -> str:
        return json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": "test-model",
                "service_tier": "default",
                "system_fingerprint": "fp_1",
                "choices": choices,
                **({"usage": usage} if include_usage else {}),
                "obfuscation": "x" * 8,
            }
        )

    def choice(delta: dict[str, Any], finish: str | None = None) -> str:
        return chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    yield choice({"role": "assistant", "content": None if isinstance(reply, Reply) and reply.calls else ""})
    for delta in reply.deltas if isinstance(reply, Chunks) else reply_deltas(reply):
        yield choice(delta)
    if isinstance(reply, Reply) and reply.cut:
        return
    yield choice({}, reply.finish)
    if include_usage:
        yield chunk([], USAGE)
    yield "[DONE]"


def reply_deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    yield from reply.extra_deltas
    for piece in pieces(reply.content or ""):
        yield {"content": piece}
    for index, (identity, name, _) in enumerate(reply.calls):
        function = {"name": name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": identity, "type": "function", "function": function}]}
    # Fragments of parallel calls take turns: only the index says where each belongs.
    fragments = [pieces(arguments) for _, _, arguments in reply.calls]
    for turn in range(max((len(parts) for parts in fragments), default=0)):
        for index, parts in enumerate(fragments):
            if turn < len(parts):
                yield {"tool_calls": [{"index": index, "function": {"arguments": parts[turn]}}]}
