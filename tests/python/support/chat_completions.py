"""A local server that speaks the chat-completions wire format, for driving the real `openai` package.

It sends what the real API sends (role chunk, split tool-call fragments, a usage chunk with no choices, `[DONE]`), and
refuses what the real API refuses: a wrong key, and a history whose tool calls are not all answered.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

API_KEY = "test-key"
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
class Failure:
    """An HTTP error."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Chunks:
    """A stream given chunk by chunk, for gateways that bend the format."""

    deltas: list[dict[str, Any]]
    finish: str = "tool_calls"


@dataclass
class Silence:
    """No answer: the connection is closed once it is `over`."""

    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ChatCompletionsServer:
    """Answers request after request from `replies`; keeps what it received."""

    def __init__(self) -> None:
        self.replies: list[Reply | Failure | Chunks | Silence] = []
        self.received: list[Received] = []
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server._answer(self, body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def _answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            self.received.append(Received(handler.path, headers, body))
            if handler.path != "/v1/chat/completions":
                reply: Reply | Failure | Chunks | Silence = Failure(404, f"Unknown path {handler.path}")
            elif headers.get("authorization") != f"Bearer {API_KEY}":
                reply = Failure(401, "Incorrect API key provided")
            elif (wrong := wrong_history(body["messages"])) is not None:
                reply = Failure(400, wrong)
            else:
                reply = self.replies.pop(0)
        if isinstance(reply, Silence):
            reply.over.wait()
            handler.close_connection = True
        elif isinstance(reply, Failure):
            error = {"error": {"message": reply.message, "type": "server_error", "param": None, "code": None}}
            send(handler, reply.status, json.dumps(error).encode(), "application/json", reply.headers)
        elif body.get("stream"):
            include_usage = (body.get("stream_options") or {}).get("include_usage", False)
            events = "".join(f"data: {event}\n\n" for event in stream_events(reply, include_usage))
            send(handler, 200, events.encode(), "text/event-stream; charset=utf-8", {})
        else:
            assert isinstance(reply, Reply)
            send(handler, 200, json.dumps(completion(reply)).encode(), "application/json", {})

    @contextmanager
    def serving(self) -> Iterator[ChatCompletionsServer]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


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


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
