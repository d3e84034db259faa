"""What of a conversation a model is shown: all of it, or what history processors make of it."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from hitl.messages import ChatMessage
from hitl.tools.approvals import invoke, make_context
from hitl.tools.context import RunContext
from hitl.tools.guardrails import guardrail_name
from hitl.turn.callables import check_takes
from hitl.turn.runtime import Turn

HistoryProcessor = Callable[
    [RunContext[Any], list[ChatMessage]], Sequence[ChatMessage] | Awaitable[Sequence[ChatMessage]]
]
"""`(ctx, messages) -> messages`, plain or async: what a model is shown instead of `messages`, this once."""


def read_processors(owner: str, given: Iterable[HistoryProcessor]) -> tuple[HistoryProcessor, ...]:
    """Check what is given as `history_processors=`."""
    processors = tuple(given)
    each: Any
    for each in processors:
        if not callable(each) or isinstance(each, type):
            raise TypeError(f"{owner}: a history processor is a function (ctx, messages), got {each!r}")
        label = f"{owner}: history processor {guardrail_name(each)!r}"
        check_takes(label, each, "the RunContext", "the messages")
    return processors


async def processed(
    turn: Turn, processors: Sequence[HistoryProcessor], messages: list[ChatMessage]
) -> list[ChatMessage]:
    """The messages as each processor leaves them. Each is a step, which records numbers for the messages that stay, so
    that a record is small however long the conversation is."""
    for processor in processors:

        async def ask(processor: HistoryProcessor = processor, given: list[ChatMessage] = messages) -> list[Any]:
            # Copies: what it changes in a message is what the model is shown, and no part of the conversation.
            copies = copy.deepcopy(given)
            kept = await invoke(turn, processor, make_context(turn, None), list(copies))
            return _numbered(guardrail_name(processor), given, copies, kept)

        # With a key, so that turns which began without it go on; they keep what they have sent.
        name = f"history.{guardrail_name(processor)}"
        recorded: list[Any] | None = await turn.run_step("step", name, ask, key=name, past=None)
        if recorded is not None:
            messages = [messages[item] if isinstance(item, int) else ChatMessage.from_dict(item) for item in recorded]
    return messages


def _numbered(name: str, given: list[ChatMessage], copies: list[ChatMessage], kept: Any) -> list[Any]:
    if not isinstance(kept, list | tuple) or not all(isinstance(message, ChatMessage) for message in kept):
        raise TypeError(f"history processor {name!r} must return a list of ChatMessage, got {type(kept).__name__}")
    _check_calls(name, kept)
    numbers = {id(message): number for number, message in enumerate(copies)}
    return [
        numbers[id(message)] if id(message) in numbers and message == given[numbers[id(message)]] else message.to_dict()
        for message in kept
    ]


def _check_calls(name: str, messages: Sequence[ChatMessage]) -> None:
    """ValueError where calls and what came of them are parted: providers refuse such a conversation."""
    open_calls: set[str] = set()
    for message in [*messages, ChatMessage.user_message(content="")]:
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise ValueError(f"history processor {name!r} left the result of a tool call without the call")
            open_calls.discard(message.tool_call_id or "")
        elif open_calls:
            raise ValueError(f"history processor {name!r} left a tool call without its result")
        else:
            open_calls = {call["id"] for call in message.tool_calls or []}
