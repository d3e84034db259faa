"""hitl/turn/waiting.py, hitl/turn/reach.py: what a turn waits for, told from what its tasks await."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from hitl import interrupt, step
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, rounds, until, until_waiting
from tests.python.unit.peers import Agent, Children, Peer, ask

pytestmark = pytest.mark.on_every_loop


async def pauses(agent: Agent) -> None:
    """The turn waits for nothing but a person, and goes on with the answer."""
    local = LocalTurn(lambda _: PENDING)
    task = local.start(agent)
    await until(lambda: local.port.waits or task.done())
    assert local.port.waits, task.exception()
    for question in local.port.interrupts:
        question.give(1)
    await asyncio.wait_for(task, LONG)
    await local.end()


@asynccontextmanager
async def held(agent: Agent, **options: Any) -> AsyncIterator[tuple[LocalTurn, asyncio.Task[Any]]]:
    """The turn has a question open, and something keeps it from waiting for that alone."""
    local = LocalTurn(lambda _: PENDING, **options)
    task = local.start(agent)
    await until(lambda: local.port.interrupts)
    await rounds()
    assert local.port.waits == 0
    yield local, task
    await until_waiting(local)
    local.port.interrupts[0].give(1)
    await asyncio.wait_for(task, LONG)
    await local.end()


# -- inside: a task of the turn brings it about -----------------------------------------------------------------------


async def in_a_gather() -> None:
    await asyncio.gather(ask(), ask())


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ask())


async def in_a_group_of_anyio() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(ask)


async def in_a_wait() -> None:
    await asyncio.wait([asyncio.ensure_future(ask())])


async def in_as_completed() -> None:
    for completed in asyncio.as_completed([ask(), ask()]):
        await completed


async def behind_a_shield() -> None:
    await asyncio.shield(asyncio.ensure_future(ask()))


async def behind_a_timeout() -> None:
    await asyncio.wait_for(ask(), 1000)


async def for_a_queue() -> None:
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def put() -> None:
        await queue.put(await ask())

    task = asyncio.create_task(put())
    await queue.get()
    await task


class OwnQueue(asyncio.Queue[Any]):
    """As LangGraph has one."""

    async def wait(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)  # type: ignore[attr-defined]
        await getter


async def for_a_queue_of_its_own() -> None:
    queue = OwnQueue()

    async def put() -> None:
        await queue.put(await ask())

    task = asyncio.create_task(put())
    await queue.wait()
    await task


async def for_what_follows_a_task() -> None:
    """As LangGraph hands on what becomes of a task."""
    following = asyncio.get_running_loop().create_future()
    asyncio.futures._chain_future(asyncio.create_task(ask()), following)  # type: ignore[attr-defined]
    await following


async def for_an_event() -> None:
    event = asyncio.Event()
    task = asyncio.ensure_future(ask())
    task.add_done_callback(lambda _: event.set())
    await event.wait()


async def for_a_condition() -> None:
    condition = asyncio.Condition()

    async def notify() -> None:
        await ask()
        async with condition:
            condition.notify()

    task = asyncio.create_task(notify())
    async with condition:
        await condition.wait()
    await task


async def for_a_lock(lock: Any) -> None:
    async def hold() -> None:
        async with lock:
            await ask()

    task = asyncio.create_task(hold())
    await asyncio.sleep(0)
    async with lock:
        await task


async def in_a_generator() -> None:
    async def answers() -> AsyncIterator[Any]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(ask())
        yield task.result()

    async for _ in answers():
        pass


async def in_a_thread_of_anyio() -> None:
    """As other frameworks run their synchronous tools."""
    await anyio.to_thread.run_sync(interrupt.sync, {"type": "q"})


async def in_a_step_in_a_thread_of_anyio() -> None:
    def body() -> Any:
        return interrupt.sync({"type": "q"})

    await anyio.to_thread.run_sync(step.sync, body)


INSIDE: dict[str, Agent] = {
    "gather": in_a_gather,
    "TaskGroup": in_a_group,
    "TaskGroup of anyio": in_a_group_of_anyio,
    "wait": in_a_wait,
    "as_completed": in_as_completed,
    "shield": behind_a_shield,
    "wait_for": behind_a_timeout,
    "Queue": for_a_queue,
    "Queue of its own": for_a_queue_of_its_own,
    "what follows a task": for_what_follows_a_task,
    "Event": for_an_event,
    "Condition": for_a_condition,
    "Lock": lambda: for_a_lock(asyncio.Lock()),
    "Semaphore": lambda: for_a_lock(asyncio.Semaphore(1)),
    "Lock of anyio": lambda: for_a_lock(anyio.Lock()),
    "Semaphore of anyio": lambda: for_a_lock(anyio.Semaphore(1)),
    "asynchronous generator": in_a_generator,
    "a thread of anyio": in_a_thread_of_anyio,
    "threads of anyio": lambda: asyncio.gather(in_a_thread_of_anyio(), in_a_thread_of_anyio()),
    "a step in a thread of anyio": in_a_step_in_a_thread_of_anyio,
}


@pytest.mark.parametrize("waits", INSIDE.values(), ids=INSIDE)
async def test_after_raw_io_a_turn_pauses_however_it_waits_for_its_question(waits: Agent, peer: Peer) -> None:
    async def agent() -> None:
        await asyncio.to_thread(str.upper, "x")
        await asyncio.gather(peer.read(), peer.answer())
        await waits()

    await pauses(agent)


@pytest.mark.parametrize("waits", INSIDE.values(), ids=INSIDE)
async def test_and_beside_an_open_connection_that_nobody_reads_from(waits: Agent, peer: Peer) -> None:
    async def agent() -> None:
        _, writer = await peer.connect()
        try:
            await waits()
        finally:
            writer.close()

    await pauses(agent)


async def test_a_child_process_that_merely_runs_is_nobodys_work(children: Children) -> None:
    async def agent() -> None:
        child = await children.start()
        try:
            await ask()
        finally:
            child.kill()
            await child.wait()

    await pauses(agent)


# -- outside: it is at work -------------------------------------------------------------------------------------------


async def test_what_a_task_reads_from_a_connection_holds_the_turn(peer: Peer) -> None:
    async with held(lambda: asyncio.gather(ask(), peer.read())):
        await peer.answer()


async def test_an_event_that_a_socket_sets_is_no_event_of_the_turn(peer: Peer) -> None:
    """As anyio reads, and with it httpx2, openai and mcp."""

    async def read() -> None:
        async with await anyio.connect_tcp("127.0.0.1", peer.port) as stream:
            await stream.receive()

    async with held(lambda: asyncio.gather(ask(), read())):
        await peer.answer()


class Told(asyncio.Protocol):
    """Tells of what it has received in whatever way it was given."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell

    def data_received(self, _: bytes) -> None:
        self._tell()


@pytest.mark.parametrize("way", ["future", "queue", "event", "condition of a task outside"])
async def test_nor_is_what_a_protocol_of_its_own_sets(peer: Peer, way: str) -> None:
    loop = asyncio.get_running_loop()

    async def read() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        event = asyncio.Event()
        if way == "future":
            future = loop.create_future()
            tell, wait = partial(future.set_result, 1), lambda: future
        elif way == "queue":
            tell, wait = partial(queue.put_nowait, 1), queue.get
        else:
            tell, wait = event.set, event.wait
        transport, _ = await loop.create_connection(lambda: Told(tell), "127.0.0.1", peer.port)
        try:
            await wait()
        finally:
            transport.close()

    async with held(lambda: asyncio.gather(ask(), read())):
        await peer.answer()


async def test_a_thread_of_a_library_holds_the_turn() -> None:
    release = threading.Event()

    async with held(lambda: asyncio.gather(ask(), anyio.to_thread.run_sync(release.wait))):
        release.set()


async def test_so_it_does_beside_one_that_waits_in_a_hitl_call_and_after_its_own_answer() -> None:
    release = threading.Event()
    steps: list[str] = []

    def asks_and_works() -> None:
        interrupt.sync({"type": "first"})
        steps.append("answered")
        release.wait(LONG)

    async def agent() -> None:
        await asyncio.gather(in_a_thread_of_anyio(), anyio.to_thread.run_sync(asks_and_works))

    local = LocalTurn(lambda _: PENDING)
    try:
        task = local.start(agent)
        await until_waiting(local)
        waits = local.port.waits
        next(asked for asked in local.port.interrupts if asked.request["type"] == "first").give(1)
        await until(lambda: steps)
        await rounds()
        assert local.port.waits == waits
        release.set()
        await until_waiting(local, waits + 1)
        next(asked for asked in local.port.interrupts if asked.request["type"] == "q").give(1)
        await asyncio.wait_for(task, LONG)
    finally:
        release.set()
        await local.end()


async def test_so_does_a_future_that_a_thread_settles() -> None:
    release = threading.Event()

    async def query() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def work() -> None:
            release.wait()
            loop.call_soon_threadsafe(done.set_result, None)

        threading.Thread(target=work).start()
        await done

    async with held(lambda: asyncio.gather(ask(), query())):
        release.set()


async def test_a_child_process_that_is_awaited_holds_the_turn(children: Children) -> None:
    async def agent() -> None:
        child = await children.start()
        await asyncio.gather(ask(), child.wait())

    async with held(agent):
        children.end_input()


async def test_what_holds_the_turn_is_said_to_be_a_child_process(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl.turn.holding._SAID_AFTER", 0.0)
    said: list[Any] = []

    async def work() -> None:
        child = await children.start()
        await child.wait()

    async with held(lambda: asyncio.gather(ask(), work())) as (local, _):
        await until(lambda: local.port.holders)
        said.extend(local.port.holders[-1])
        children.end_input()
    assert [holder["what"] for holder in said] == ["a child process"]
    assert str(said[0]["location"]).startswith("test_waiting.py:")


async def test_a_step_at_work_that_has_asked_already_holds_the_turn(peer: Peer) -> None:
    """Its body is in nobody's hands but its own; cut short, what it does would be done twice."""
    begun = []

    async def body() -> None:
        await interrupt({"type": "first"})
        begun.append(1)
        await peer.read()

    async def agent() -> None:
        await asyncio.gather(step(body), ask())

    local = LocalTurn(lambda asked: PENDING, hold=0.001)
    task = local.start(agent)
    await until_waiting(local)
    first = next(asked for asked in local.port.interrupts if asked.request["type"] == "first")
    first.give(1)
    await until(lambda: begun)
    waits = local.port.waits
    await until(lambda: peer.writers)
    await asyncio.sleep(0.05)  # longer than --hold, which is not for bodies
    assert local.port.waits == waits
    await peer.answer()
    await until_waiting(local, waits + 1)
    next(asked for asked in local.port.interrupts if asked is not first).give(1)
    await asyncio.wait_for(task, LONG)
    assert begun == [1]
    await local.end()


async def test_a_socket_of_the_turns_own_making_counts_too() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        async with held(lambda: asyncio.gather(ask(), asyncio.get_running_loop().sock_recv(ours, 1))):
            theirs.send(b"x")
