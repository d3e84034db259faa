"""What of a conversation a model is shown: all of it, or what history processors and a compaction make of it, in order.

What stands before a compaction keeps the numbers that messages have in their session, since the summary says for which
of them it stands. So it leaves messages out and changes those that it was given, and makes none: of a message without a
number nobody could say whether a summary holds it, and each request would sum it up again.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from hitl.agents.compaction import Compaction, Numbered, SummedUp, heads_of
from hitl.agents.participant import Participant
from hitl.messages import ChatMessage
from hitl.tools.approvals import make_context
from hitl.tools.context import RunContext
from hitl.tools.guardrails import guardrail_name
from hitl.tools.invoking import invoke
from hitl.turn.callables import check_takes
from hitl.turn.runtime import Turn

HistoryProcessor = Callable[
    [RunContext[Any], list[ChatMessage]], Sequence[ChatMessage] | Awaitable[Sequence[ChatMessage]]
]
"""`(ctx, messages) -> messages`, plain or async: what a model is shown instead of `messages`, this once."""


def read_processors(
    owner: str, given: Iterable[HistoryProcessor | Compaction], first: Compaction | None
) -> tuple[HistoryProcessor | Compaction, ...]:
    """Check what is given as `history_processors=` and `compaction=`: all of it, in order."""
    if first is not None and not isinstance(first, Compaction):
        raise TypeError(f"{owner}: compaction must be a Compaction, got {type(first).__name__}")
    processors = tuple(given)
    compactions = sum(isinstance(each, Compaction) for each in processors)
    if compactions and first is not None:
        raise TypeError(
            f"{owner}: compaction= puts a Compaction before all history_processors, which have one; give one"
        )
    if compactions > 1:
        raise ValueError(f"{owner}: history_processors has {compactions} Compactions; an agent takes one")
    each: Any
    for each in processors:
        if isinstance(each, Compaction):
            continue
        if not callable(each) or isinstance(each, type):
            raise TypeError(f"{owner}: a history processor is a function (ctx, messages) or a Compaction, got {each!r}")
        label = f"{owner}: history processor {guardrail_name(each)!r}"
        check_takes(label, each, "the RunContext", "the messages")
    return processors if first is None else (first, *processors)


async def processed(turn: Turn, agent: Participant, history: list[ChatMessage]) -> tuple[list[ChatMessage], float]:
    """What the agent's model is shown of `history`, which grows by a summary where one is written, and the tokens that
    it cost. Each processor is a step, which records numbers for the messages that stay, so that a record is small
    however long the conversation is."""
    processors: Sequence[Any] = agent.history_processors
    at = next((index for index, each in enumerate(processors) if isinstance(each, Compaction)), None)
    given, tokens = SummedUp(history).given(), 0.0
    if at is not None:
        for index, processor in enumerate(processors[:at]):
            recorded = await _step(turn, processor, [message for _, message in given], _numbers_in(history, given))
            if isinstance(recorded, list):
                # No compaction stood behind it when that was recorded: this request goes on without one.
                messages = _read(recorded, SummedUp(history).shown(given))
                rest = [*processors[index + 1 : at], *processors[at + 1 :]]
                return await _changed(turn, rest, history, messages), 0
            if recorded is not None:
                given = _read_numbered(recorded, history)
        summary, tokens = await processors[at].sum_up(turn, agent, history, given)
        if summary is not None:
            history.append(summary)
        processors = processors[at + 1 :]
    return await _changed(turn, processors, history, SummedUp(history).shown(given)), tokens


async def _changed(
    turn: Turn, processors: Sequence[HistoryProcessor], history: Sequence[ChatMessage], messages: list[ChatMessage]
) -> list[ChatMessage]:
    """The messages as each processor leaves them; no compaction comes after these."""
    for processor in processors:
        recorded = await _step(turn, processor, messages, _positions)
        if isinstance(recorded, dict):  # one came after it when that was recorded
            messages = SummedUp(history).shown(_read_numbered(recorded, history))
        elif recorded is not None:
            messages = _read(recorded, messages)
    return messages


_Write = Callable[[str, list[ChatMessage], list[ChatMessage], Sequence[ChatMessage]], Any]
"""What is recorded of a processor: its name, what it was given, the copies that it got, and what it returned."""


async def _step(turn: Turn, processor: HistoryProcessor, given: list[ChatMessage], write: _Write) -> Any:
    """What is recorded of a processor; None where a turn that began without it is past this place."""
    name = guardrail_name(processor)

    async def ask() -> Any:
        # Copies: what it changes in a message is what the model is shown, and no part of the conversation. One by one,
        # since a message may be there twice.
        copies = [copy.deepcopy(message) for message in given]
        kept = await invoke(turn, processor, make_context(turn, None), list(copies))
        if not isinstance(kept, list | tuple) or not all(isinstance(message, ChatMessage) for message in kept):
            raise TypeError(f"history processor {name!r} must return a list of ChatMessage, got {type(kept).__name__}")
        _check_calls(name, kept)
        return write(name, given, copies, kept)

    # With a key, so that turns which began without it go on; they keep what they have sent.
    return await turn.run_step("step", f"history.{name}", ask, key=f"history.{name}", past=None)


def _positions(
    name: str, given: list[ChatMessage], copies: list[ChatMessage], kept: Sequence[ChatMessage]
) -> list[Any]:
    """A message that stays is its position in what was given; any other itself."""
    at = {id(message): index for index, message in enumerate(copies)}
    return [
        at[id(message)] if id(message) in at and message == given[at[id(message)]] else message.to_dict()
        for message in kept
    ]


def _read(recorded: list[Any], given: Sequence[ChatMessage]) -> list[ChatMessage]:
    return [given[item] if isinstance(item, int) else ChatMessage.from_dict(item) for item in recorded]


def _numbers_in(history: Sequence[ChatMessage], numbered: Sequence[Numbered]) -> _Write:
    """A message is the number that it has in the session, with what has become of it where that is something else."""

    def write(
        name: str, given: list[ChatMessage], copies: list[ChatMessage], kept: Sequence[ChatMessage]
    ) -> dict[str, Any]:
        number_of = {id(message): number for message, (number, _) in zip(copies, numbered, strict=True)}
        if not all(id(message) in number_of for message in kept):
            raise ValueError(
                f"history processor {name!r} stands before a compaction and returned a message that it was not given: "
                "it may leave messages out and assign to the fields of those that it is given; what makes messages "
                "goes behind the compaction"
            )
        numbers, heads = {number_of[id(message)] for message in kept}, heads_of(history)
        kept_heads = {heads[number] for number in numbers}
        if any(heads[number] in kept_heads and number not in numbers for number, _ in numbered):
            raise ValueError(
                f"history processor {name!r} stands before a compaction and left out a part of a message with tool "
                "calls and their results: keep all of it, or nothing"
            )
        return {
            "messages": [
                number if message == history[number] else [number, message.to_dict()]
                for message in kept
                for number in [number_of[id(message)]]
            ]
        }

    return write


def _read_numbered(recorded: dict[str, Any], history: Sequence[ChatMessage]) -> list[Numbered]:
    return [
        (item, history[item]) if isinstance(item, int) else (item[0], ChatMessage.from_dict(item[1]))
        for item in recorded["messages"]
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
