"""A chat client that says what a test wrote down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hitl.errors import HitlError
from hitl.messages import ChatMessage, ToolCall
from hitl.models.chat_client import ModelReply, ModelRequest

_MEMBERS = frozenset({"content", "reasoning", "tool_calls", "usage", "finish_reason"})
_CALL_MEMBERS = frozenset({"id", "name", "args"})


class ScriptExhausted(HitlError):
    """The agent asked for one more reply than the script has."""

    code = "script_exhausted"


class ScriptedChatClient:
    """Replies from a list; no network, no key.

    Reply *n* answers the request that already holds *n* assistant messages (of earlier turns too). The
    conversation alone decides, so a script goes on rightly in another process, after a restart and in a replay.

    A reply is a dict of `content` (str), `tool_calls` (`[{"name", "args", "id"?}]`; several are parallel; `args`
    as a dict, or as a str that is sent as it is, for bad JSON), `reasoning` (str), `usage` and `finish_reason`.
    Content and reasoning are streamed word by word. TypeError or ValueError for what is no list of such replies.

    Example:
        model = ScriptedChatClient(
            [{"tool_calls": [{"name": "delete_file", "args": {"path": "/tmp/x"}}]}, {"content": "It is gone."}]
        )
        agent = ReActAgent(client=model, tools=[delete_file])
    """

    default_model: str = "scripted"
    """What agents without a `model_name` ask for."""

    def __init__(self, replies: Iterable[Mapping[str, Any]]):
        if isinstance(replies, str | Mapping):
            raise TypeError(
                f"ScriptedChatClient takes a list of replies, got {type(replies).__name__}\n\n"
                'hint: [{"content": "done"}], also for one'
            )
        self._replies = [_check_reply(index, reply) for index, reply in enumerate(replies)]
        self.requests: list[dict[str, Any]] = []
        """Each request made through this object in this process, as `{"messages": [...], "tools": [...]}`:
        messages as dictionaries without nulls, tools as chat-completions definitions; with `"settings"` where the
        request has some."""

    def prepare(self) -> None:
        """Nothing to prepare."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """The reply this conversation has come to; raises `ScriptExhausted` after the last."""
        self.requests.append(
            {
                "messages": [message.to_dict() for message in request.messages],
                "tools": json.loads(json.dumps(request.tools)),
                **({"settings": json.loads(json.dumps(request.settings))} if request.settings else {}),
            }
        )
        index = sum(message.role == "assistant" for message in request.messages)
        if index >= len(self._replies):
            last = request.messages[-1] if request.messages else None
            raise ScriptExhausted(
                f"the script has {len(self._replies)} replies, and the conversation already holds {index} assistant "
                f"messages; it ends in: {_excerpt(last)}\n\nhint: add reply number {index} to the script"
            )
        message = _message(index, self._replies[index])
        if request.on_delta is not None:
            for piece in _words(message.reasoning):
                request.on_delta({"reasoning": piece})
            for piece in _words(message.content):
                request.on_delta({"content": piece})
        reply = self._replies[index]
        finish = reply.get("finish_reason") or ("tool_calls" if message.tool_calls else "stop")
        return ModelReply(message, dict(reply.get("usage") or {}), finish)


def _check_reply(index: int, reply: Mapping[str, Any]) -> dict[str, Any]:
    """A typing error in a script must show in the line that wrote it, not as a puzzling turn."""
    if not isinstance(reply, Mapping):
        raise TypeError(f"reply {index} of the script must be a dict, got {type(reply).__name__}")
    unknown = reply.keys() - _MEMBERS
    if unknown:
        raise ValueError(
            f"reply {index} of the script has unknown members {sorted(unknown)}; known: {sorted(_MEMBERS)}"
        )
    calls = reply.get("tool_calls") or []
    if reply.get("content") is None and not calls:
        raise ValueError(f"reply {index} of the script needs content or tool_calls")
    for call in calls:
        if not isinstance(call, Mapping) or "name" not in call or call.keys() - _CALL_MEMBERS:
            raise ValueError(f"a tool call in reply {index} of the script takes name, args and id; got {call!r}")
        if not isinstance(call.get("args", {}), str | Mapping):
            raise ValueError(f"args in reply {index} of the script is a dict, or a str for raw text; got {call!r}")
    return {**reply, "tool_calls": [dict(call) for call in calls]}


def _message(index: int, reply: Mapping[str, Any]) -> ChatMessage:
    calls: list[ToolCall] = [
        {
            "id": call.get("id") or f"call_{index}_{position}",
            "type": "function",
            "function": {"name": call["name"], "arguments": _arguments(call.get("args", {}))},
        }
        for position, call in enumerate(reply["tool_calls"])
    ]
    return ChatMessage(
        role="assistant", content=reply.get("content"), reasoning=reply.get("reasoning"), tool_calls=calls or None
    )


def _arguments(args: str | Mapping[str, Any]) -> str:
    return args if isinstance(args, str) else json.dumps(dict(args), ensure_ascii=False)


def _words(text: str | None) -> list[str]:
    if not text:
        return []
    words = text.split(" ")
    return [word if position == 0 else f" {word}" for position, word in enumerate(words)]


def _excerpt(message: ChatMessage | None) -> str:
    if message is None:
        return "nothing"
    text = message.content or ""
    return f"{message.role} {text if len(text) <= 80 else text[:77] + '...'!r}"
