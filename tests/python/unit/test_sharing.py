"""hitl/turn/sharing.py: a lock, a queue or an event that other turns of the loop use as well."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from hitl import ChatMessage, ReActAgent, interrupt, step, tool
from hitl.testing import ScriptedChatClient
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, rounds, until, until_waiting
from tests.python.unit.peers import ask

pytestmark = pytest.mark.on_every_loop

LOCKS: dict[str, Callable[[], Any]] = {
    "Lock": asyncio.Lock,
    "Semaphore": lambda: asyncio.Semaphore(1),
    "Condition": asyncio.Condition,
    "Lock of anyio": anyio.Lock,
    "Semaphore of anyio": lambda: anyio.Semaphore(1),
}
shared: dict[str, Any] = {}
"""As at the top of an agent's module."""


async def enters() -> None:
    async with shared["lock"]:
        await ask()


async def acquires() -> None:
    lock = shared["lock"]
    await lock.acquire()
    try:
        await ask()
    finally:
        lock.release()


@asynccontextmanager
async def alone() -> AsyncIterator[None]:
    async with shared["lock"]:
        yield


async def enters_what_enters() -> None:
    async with alone():
        await ask()


async def enters_by_a_stack() -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(shared["lock"])
        await ask()


async def waits_for_the_lock() -> None:
    async with shared["lock"]:
        pass


async def ask_twice() -> None:
    await interrupt({"type": "first"})
    await ask()


async def asks_and_waits() -> None:
    await asyncio.gather(ask(), waits_for_the_lock())


def turn(name: str, **options: Any) -> LocalTurn:
    return LocalTurn(lambda _: PENDING, turn_id=name, **options)


async def finish(local: LocalTurn, task: asyncio.Task[Any]) -> None:
    for question in local.port.interrupts:
        question.give(1)
    await asyncio.wait_for(task, LONG)
    await local.end()


async def check_that_it_waits(holds: Callable[..., Any], waits: Callable[..., Any], *args: Any) -> None:
    """A turn that waits for what another holds does not pause before the other lets go of it; then it does."""
    holder, other = turn("holder"), turn("other")
    holding = holder.start(holds, *args)
    await until_waiting(holder)
    waiting = other.start(waits, *args)
    await until(lambda: other.port.interrupts)
    await rounds()
    assert other.port.waits == 0
    await finish(holder, holding)
    await until_waiting(other)
    await finish(other, waiting)


@pytest.mark.parametrize("holds", [enters, acquires, enters_what_enters, enters_by_a_stack])
@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
async def test_who_waits_for_a_lock_of_another_turn_does_not_pause(lock: Callable[[], Any], holds: Any) -> None:
    shared["lock"] = lock()
    await check_that_it_waits(holds, asks_and_waits)


@pytest.mark.parametrize("holds", [enters, enters_what_enters, enters_by_a_stack])
@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
async def test_who_waits_for_a_lock_of_its_own_turn_pauses_whoever_waits_for_it_too(
    lock: Callable[[], Any], holds: Any
) -> None:
    shared["lock"] = lock()

    async def agent() -> None:
        await asyncio.gather(holds(), waits_for_the_lock(), ask_twice())

    local, other = turn("own"), turn("other")
    task = local.start(agent)
    await until_waiting(local)
    waiting = other.start(waits_for_the_lock)
    await rounds()
    waits = local.port.waits
    next(asked for asked in local.port.interrupts if asked.request["type"] == "first").give(1)
    await until_waiting(local, waits + 1)
    await finish(local, task)
    await asyncio.wait_for(waiting, LONG)
    await other.end()


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
async def test_a_replay_waits_for_a_lock_of_another_turn(
    lock: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl.turn.replaying._GRACE_SECONDS", 0.0)

    async def agent() -> Any:
        async with shared["lock"]:
            await step(asyncio.sleep, 0)
        return await interrupt({"type": "q"})

    shared["lock"] = lock()
    first = turn("parked")
    first.start(agent)
    await until_waiting(first)
    journal = first.port.journal
    await first.end()

    holder, again = turn("holder"), turn("parked", journal=journal)
    holding = holder.start(enters)
    await until_waiting(holder)
    task = again.start(agent)
    await rounds()
    assert not again.turn.failure.done(), again.turn.failure.result()
    await finish(holder, holding)
    await until_waiting(again)
    again.port.interrupts[0].give(7)
    assert await asyncio.wait_for(task, LONG) == 7
    await again.end()


class Counter:
    """An agent with a lock of its own, which all of its turns share."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

    async def holds(self) -> None:
        async with self.lock:
            await ask()

    async def asks_and_waits(self) -> None:
        await asyncio.gather(ask(), self.waits())

    async def waits(self) -> None:
        async with self.lock:
            pass


async def test_a_lock_of_the_agent_itself_is_shared_too() -> None:
    counter = Counter()
    await check_that_it_waits(counter.holds, counter.asks_and_waits)


async def test_a_queue_that_another_turn_fills_is_waited_for() -> None:
    queue = shared["queue"] = asyncio.Queue()

    async def fills() -> None:
        await shared["queue"].put(await ask())

    await check_that_it_waits(fills, lambda: asyncio.gather(ask(), queue.get()))


def tools_that_close_over(lock: Any) -> tuple[Any, ...]:
    @tool
    async def hold() -> Any:
        async with lock:
            return await ask()

    @tool
    async def take() -> str:
        await step(asyncio.sleep, 0)  # from here on it goes by the journal
        async with lock:
            return "taken"

    return hold, take


class Till:
    """What keeps a lock for its tools."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    async def hold(self) -> Any:
        async with self.lock:
            return await ask()

    async def take(self) -> str:
        await step(asyncio.sleep, 0)  # from here on it goes by the journal
        async with self.lock:
            return "taken"


class Desk:
    """What knows something that keeps a lock."""

    def __init__(self, till: Till) -> None:
        self.till = till

    async def hold(self) -> Any:
        return await self.till.hold()

    async def take(self) -> str:
        return await self.till.take()


def tools_of_an_object(lock: Any) -> tuple[Any, ...]:
    till = Till(lock)
    return tool(till.hold), tool(till.take)


def tools_that_go_through_another(lock: Any) -> tuple[Any, ...]:
    desk = Desk(Till(lock))
    return tool(desk.hold), tool(desk.take)


@tool
async def wonder() -> Any:
    """Ask a person."""
    return await ask()


def calls(*tools: Any, **args: Any) -> ReActAgent:
    """An agent that calls all of its tools at once."""
    asked = [{"name": each.name, "args": args} for each in tools]
    return ReActAgent(client=ScriptedChatClient([{"tool_calls": asked}, {"content": "done"}]), tools=tools)


def calls_inside(*tools: Any) -> ReActAgent:
    """An agent with one that does."""
    return calls(calls(*tools).as_tool("helper", description="Help."), input="go")


@pytest.mark.parametrize("agent", [calls, calls_inside])
@pytest.mark.parametrize("make", [tools_that_close_over, tools_of_an_object, tools_that_go_through_another])
async def test_a_turn_does_not_pause_while_a_tool_of_it_waits_for_a_lock_of_another_turn(
    make: Callable[[Any], tuple[Any, ...]], agent: Callable[..., ReActAgent]
) -> None:
    hold, take = make(asyncio.Lock())
    go = ChatMessage.user_message(content="go")
    await check_that_it_waits(agent(hold).run_turn, agent(take, wonder).run_turn, go, [])
