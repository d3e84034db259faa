"""A conversation in a framework's own form, kept beside the messages that everybody reads.

What frameworks know of a conversation is more than a ``ChatMessage`` holds: signatures of a model's thoughts, metadata
of tool results. So the last message of a turn carries all messages of the turn in the framework's wire form, and says
how many of ours they stand for. Messages that carry none, for example those that a session was created with, are
converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from hitl.messages import ChatMessage
from hitl.strict_json import sendable

_MEMBER: Final = "native"
"""The member of ``user_params`` that a turn's last message has them in."""


def keep(messages: list[ChatMessage], form: str, native: list[Any]) -> list[ChatMessage]:
    """The messages of a turn, of which the last now carries ``native``, JSON in the form that ``form`` names.

    No other carries any: what a person sends under this name would be their words put into everybody's mouth, and
    addresses that a framework fetches.
    """
    messages = list(map(_sendable, messages))
    last = messages[-1]
    kept = {"form": form, "stands_for": len(messages), "messages": sendable(native)}
    return [*map(_bare, messages[:-1]), replace(last, user_params={**(last.user_params or {}), _MEMBER: kept})]


def without_old(
    messages: Iterable[ChatMessage], form: str, strip: Callable[[list[Any]], list[Any]]
) -> list[ChatMessage]:
    """A session's messages, as they are to stand before a turn that keeps a state of its own: of what ``keep`` was
    given in earlier turns, ``strip`` has taken the states of these away. Each would stay for ever, and be sent along
    with each turn."""
    return [_stripped(message, form, strip) for message in messages]


def _stripped(message: ChatMessage, form: str, strip: Callable[[list[Any]], list[Any]]) -> ChatMessage:
    kept = _kept(message, form)
    if kept is None:
        return message
    native = strip(kept["messages"])
    if native == kept["messages"]:
        return message
    return replace(message, user_params={**(message.user_params or {}), _MEMBER: {**kept, "messages": native}})


def has_kept(message: ChatMessage, form: str) -> bool:
    """Whether it is the last message of a turn that ``keep`` was given something of in this form."""
    return _kept(message, form) is not None


def _kept(message: ChatMessage, form: str) -> dict[str, Any] | None:
    # Of a reply alone: a message of a turn that was given up is in the session as it was sent. And not of whatever has
    # that name: what a session was created with may be anything.
    kept = (message.user_params or {}).get(_MEMBER) if message.role == "assistant" else None
    if not isinstance(kept, dict) or kept.get("form") != form:
        return None
    return kept if isinstance(kept.get("messages"), list) and isinstance(kept.get("stands_for"), int) else None


def _sendable(message: ChatMessage) -> ChatMessage:
    """A message that can be kept: a tool may have said what UTF-8 cannot carry, such as the name of a file."""
    said = message.to_dict()
    made = sendable(said)
    return message if made == said else ChatMessage.from_dict(made)


def _bare(message: ChatMessage) -> ChatMessage:
    params = message.user_params
    if not isinstance((params or {}).get(_MEMBER), dict):
        return message
    return replace(message, user_params={name: value for name, value in (params or {}).items() if name != _MEMBER})


def shown_turn(message: ChatMessage, made: Iterable[ChatMessage], reply: str) -> list[ChatMessage]:
    """What everybody reads of a turn: what the person said, what was ``made`` of it, in our messages, and the reply.

    What the framework has for the person's message is the message itself, with everything that was sent.
    """
    shown = list(made)
    if shown and shown[0].role == "user":
        shown[0] = message
    else:
        shown.insert(0, message)
    if shown[-1].role == "assistant" and not shown[-1].tool_calls and shown[-1].content == reply:
        return shown
    return [*shown, ChatMessage.assistant_message(content=reply)]


def recall(messages: Iterable[ChatMessage], form: str) -> Iterator[ChatMessage | list[Any]]:
    """A session's messages in order: of each turn what ``keep`` was given in this form, and what is left as it is."""
    recalled: list[ChatMessage | list[Any]] = []
    for message in messages:
        recalled.append(message)
        if (kept := _kept(message, form)) is not None:
            # Never across an earlier turn: whoever edits a session's messages may have taken some of them away.
            begin = len(recalled)
            while begin and len(recalled) - begin < kept["stands_for"] and isinstance(recalled[begin - 1], ChatMessage):
                begin -= 1
            recalled[begin:] = [kept["messages"]]
    yield from recalled
