"""How an agent of the matrix waits for its answers. Each gives the answers as a sorted list of texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hitl import ChatMessage, ReActAgent, interrupt, step, tool
from hitl.testing import ScriptedChatClient
from tests.python.waiting.befores import READ_FOR_EVER, Request
from tests.python.waiting.ledger import Cell


async def question(name: str) -> str:
    return str(await interrupt({"type": "question", "about": name}))


async def plain(cell: Cell, request: Request) -> list[str]:
    return [await question("a")]


async def gather(cell: Cell, request: Request) -> list[str]:
    return sorted(await asyncio.gather(question("a"), question("b")))


async def task_group(cell: Cell, request: Request) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(question(name)) for name in "ab"]
    return sorted(task.result() for task in tasks)


async def wait(cell: Cell, request: Request) -> list[str]:
    done, _ = await asyncio.wait([asyncio.create_task(question(name)) for name in "ab"])
    return sorted(task.result() for task in done)


async def as_completed(cell: Cell, request: Request) -> list[str]:
    return sorted([await one for one in asyncio.as_completed([question("a"), question("b")])])


async def shield(cell: Cell, request: Request) -> list[str]:
    return [await asyncio.shield(asyncio.create_task(question("a")))]


async def queue(cell: Cell, request: Request) -> list[str]:
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def ask() -> None:
        await answers.put(await question("a"))

    task = asyncio.create_task(ask())
    answer = await answers.get()
    await task
    return [answer]


async def event(cell: Cell, request: Request) -> list[str]:
    answered = asyncio.Event()
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await question("a"))
        answered.set()

    task = asyncio.create_task(ask())
    await answered.wait()
    await task
    return answers


async def condition(cell: Cell, request: Request) -> list[str]:
    changed = asyncio.Condition()
    answers: list[str] = []

    async def ask() -> None:
        answer = await question("a")
        async with changed:
            answers.append(answer)
            changed.notify_all()

    task = asyncio.create_task(ask())
    async with changed:
        await changed.wait_for(lambda: answers)
    await task
    return answers


async def semaphore(cell: Cell, request: Request) -> list[str]:
    """One question at a time; the second waits for the first."""
    one_at_a_time = asyncio.Semaphore(1)

    async def ask(name: str) -> str:
        async with one_at_a_time:
            return await question(name)

    return sorted(await asyncio.gather(ask("a"), ask("b")))


async def _gated(cell: Cell, names: str, work: Callable[[str], Awaitable[str]]) -> list[str]:
    """A ReActAgent whose model calls a tool that needs a yes, once for each name, in one reply."""

    @tool(requires_approval=True)
    async def act(name: str) -> str:
        """Act."""
        return await cell.in_flight(name, lambda: work(name))

    calls = [{"name": "act", "args": {"name": name}} for name in names]
    client = ScriptedChatClient([{"tool_calls": calls}, {"content": "done"}])
    inner = ReActAgent(client=client, model_name="scripted", name="inner", tools=[act])
    _, messages = await inner.run_turn(ChatMessage.user_message("go"), [])
    return sorted(str(message.content) for message in messages if message.role == "tool")


async def gated(cell: Cell, request: Request) -> list[str]:
    return await _gated(cell, "a", lambda name: request(f"echo acted {name}"))


async def two_gated(cell: Cell, request: Request) -> list[str]:
    """Both may be answered before either is at work, and a connection takes one request at a time."""
    connection = asyncio.Lock()

    async def work(name: str) -> str:
        async with connection:
            return await request(f"echo acted {name}")

    return await _gated(cell, "ab", work)


async def in_flight(cell: Cell, request: Request) -> list[str]:
    """Two gated calls; the one that is answered first is at work until the test releases it."""

    async def work(name: str) -> Any:
        if name == "b":
            return "acted b"
        return await request(f"hold {cell.name} {name}")

    return await _gated(cell, "ab", work)


async def inside(cell: Cell, request: Request) -> list[str]:
    """A step asks before it sends its request, so the journal knows its body already; beside it another asks."""

    async def work() -> str:
        # A reply that comes by way of a task of the turn is not the body's own work: see docs/waiting.md.
        return f"{cell.name} a" if cell.before in READ_FOR_EVER else await request(f"hold {cell.name} a")

    async def body() -> str:
        await question("a")
        return await cell.in_flight("a", work)

    async def asks_inside() -> str:
        return await step(body)

    return sorted(await asyncio.gather(asks_inside(), question("b")))


ASKS: dict[str, Callable[[Cell, Request], Awaitable[list[str]]]] = {
    "plain": plain,
    "gather": gather,
    "TaskGroup": task_group,
    "wait": wait,
    "as_completed": as_completed,
    "shield": shield,
    "queue": queue,
    "event": event,
    "condition": condition,
    "semaphore": semaphore,
    "gated": gated,
    "two gated": two_gated,
    "in flight": in_flight,
    "inside": inside,
}
"""The second axis."""
