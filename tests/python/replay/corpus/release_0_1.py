"""The agents of the journals that release 0.1 recorded. Never edit an agent here: its journals would not fit it.

Each waits for a person at least once. A message is its input, the response what came of it.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import hitl
from hitl import ChatMessage, ReActAgent, interrupt, step, tool
from hitl.testing import ScriptedChatClient

State = list[ChatMessage]


def _reply(message: ChatMessage, state: State, value: Any) -> tuple[ChatMessage, State]:
    response = ChatMessage.assistant_message(content=json.dumps(value, default=str, sort_keys=True))
    return response, [*state, message, response]


@dataclass
class Order:
    """A typed value that is stored in a journal."""

    number: int
    total: Decimal
    placed: datetime
    lines: tuple[str, ...]


async def _fetch(number: int) -> Order:
    return Order(number, Decimal("12.50"), datetime(2024, 2, 29, 12, 30, tzinfo=UTC), ("tea", "milk"))


async def _fail(reason: str) -> None:
    raise LookupError(reason)


async def _double(number: int) -> int:
    return number * 2


async def asks_once(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """The simplest."""
    return _reply(message, state, await interrupt({"type": "color_picker", "prompt": message.content}))


async def asks_between_steps(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Values of many types come back from the journal."""
    order = await step(_fetch, 7)
    answer = await interrupt({"type": "confirm", "total": str(order.total)}, response_schema={"type": "boolean"})
    return _reply(message, state, [order.number, order.placed.isoformat(), order.lines, answer, await step(_double, 4)])


async def asks_many_at_once(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Some of the questions are answered when it pauses."""
    kinds = ("first", "later", "last")
    answers = await asyncio.gather(*(interrupt({"type": kind}) for kind in kinds))
    return _reply(message, state, answers)


async def races(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """The loser of a race is withdrawn; then it asks again."""
    tasks = [asyncio.create_task(interrupt({"type": kind})) for kind in ("first", "never")]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for loser in pending:
        loser.cancel()
    won = [task.result() for task in done]
    return _reply(message, state, [won, await interrupt({"type": "later"})])


async def times_out(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """A timer has fired; another one is pending."""
    try:
        async with asyncio.timeout(0.001):
            await interrupt({"type": "never"})
    except TimeoutError:
        pass
    async with asyncio.timeout(3600):
        return _reply(message, state, await interrupt({"type": "later"}))


async def expires(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """A question that nobody answered in time."""
    first = await interrupt({"type": "expires"}, expires_in=60, on_expire="nobody")
    return _reply(message, state, [first, await interrupt({"type": "later"})])


async def runs_tools(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Bodies that ask: one has finished, one waits, and has steps of its own behind it."""

    async def shopping(number: int) -> Any:
        doubled = await asyncio.gather(step(_double, number), step(_double, number + 1))
        return [*doubled, await interrupt({"type": "first" if number == 1 else "later"})]

    return _reply(message, state, [await step(shopping, number) for number in (1, 2)])


def is_sync(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """A plain function, in a thread."""
    order = step.sync(lambda: 7)
    first = interrupt.sync({"type": "first"})
    drawn = hitl.random.sync()
    return _reply(message, state, [order, first, 0 <= drawn < 1, interrupt.sync({"type": "later"})])


async def keeps_its_clock(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Time, ids and chance are what they were."""
    before = [await hitl.now(), await hitl.uuid(), await hitl.random()]
    await interrupt({"type": "later"})
    return _reply(message, state, before)


async def has_keys(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Keyed steps, one of them twice; a once step that is over; an edit that was marked."""

    @step(key="charge", once=True)
    async def charge(cents: int) -> str:
        return f"{cents} charged"

    charged = [await charge(100), await charge(250)]
    new = await hitl.patched("ask-twice")
    await interrupt({"type": "first"}, key="approval")
    return _reply(message, state, [*charged, new, await interrupt({"type": "later"}, key="approval")])


async def meets_errors(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Recorded errors, alone and in a group."""
    seen = []
    try:
        await step(_fail, "no such order")
    except LookupError as error:
        seen.append(str(error))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(step(_fail, "in a group"))
            group.create_task(interrupt({"type": "never"}))
    except* LookupError as errors:
        seen += [str(error) for error in errors.exceptions]
    return _reply(message, state, [seen, await interrupt({"type": "later"})])


async def shares(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Tasks with a queue and a lock, and results in the order in which they came."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    lock = asyncio.Lock()

    async def one(number: int) -> int:
        async with lock:
            await queue.put(await step(_double, number))
        return await step(_double, number + 10)

    came = [await result for result in asyncio.as_completed([one(number) for number in range(3)])]
    return _reply(message, state, [came, queue.qsize(), await interrupt({"type": "later"})])


@tool(requires_approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool
async def look_up(name: str) -> str:
    """Find a file."""
    return f"/tmp/{name}"


needs_approval = ReActAgent(
    client=ScriptedChatClient(
        [
            {"tool_calls": [{"name": "look_up", "args": {"name": "a"}}, {"name": "look_up", "args": {"name": "b"}}]},
            {"content": "Let me.", "tool_calls": [{"name": "delete_file", "args": {"path": "/tmp/a"}}]},
            {"content": "Both are gone."},
        ]
    ),
    tools=[look_up, delete_file],
    name="needs_approval",
)
"""A model, tools, and an approval of a person."""

_helper = ReActAgent(
    client=ScriptedChatClient(
        [{"tool_calls": [{"name": "delete_file", "args": {"path": "/tmp/c"}}]}, {"content": "It is gone."}]
    ),
    tools=[delete_file],
    name="helper",
)

delegates = ReActAgent(
    client=ScriptedChatClient(
        [{"tool_calls": [{"name": "helper", "args": {"input": "delete c"}}]}, {"content": "The helper did it."}]
    ),
    tools=[_helper.as_tool()],
    name="delegates",
)
"""An agent as a tool, which waits for an approval."""

AGENTS: dict[str, Any] = {
    "asks_once": asks_once,
    "asks_between_steps": asks_between_steps,
    "asks_many_at_once": asks_many_at_once,
    "races": races,
    "times_out": times_out,
    "expires": expires,
    "runs_tools": runs_tools,
    "is_sync": is_sync,
    "keeps_its_clock": keeps_its_clock,
    "has_keys": has_keys,
    "meets_errors": meets_errors,
    "shares": shares,
    "needs_approval": needs_approval,
    "delegates": delegates,
}
