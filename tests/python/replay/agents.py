"""Runs a generated program as an agent, and notes what it sees, in the order in which it sees it.

What happens in a step's body is noted apart from what happens around it: a replay skips a body that has finished.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import hitl
from hitl import interrupt, step
from hitl.errors import InterruptExpired
from hitl.turn.places import place_var
from hitl.turn.runtime import current_turn
from tests.python.replay.programs import Node

Trace = dict[str, list[Any]]
"""What was seen in the turn itself (``""``) and in each step's body, by the step's path."""


class Planned(Exception):
    """A failure that the program wants."""


class Agent:
    """One run of a program. ``latencies`` differ between runs, what the program sees must not."""

    def __init__(self, latencies: random.Random) -> None:
        self.trace: Trace = {"": []}
        self.bodies: list[str] = []
        """Paths of the steps whose body ran, in order."""
        self._latencies = latencies
        self._counters: dict[str, int] = {}
        self._kinds: dict[str, Callable[[Node], Any]] = {
            name.removeprefix("_do_").replace("_", " "): getattr(self, name)
            for name in dir(self)
            if name.startswith("_do_")
        }

    # -- notes ----------------------------------------------------------------------------------------------------

    def note(self, *what: Any) -> None:
        """Something that the agent sees."""
        self.trace.setdefault(_scope(), []).append(list(what))

    def _body_runs(self) -> None:
        path = _scope()
        self.bodies.append(path)
        self.trace.setdefault(path, [])

    def _counter(self) -> int:
        """State that the tasks of a scope share."""
        scope = _scope()
        self._counters[scope] = self._counters.get(scope, 0) + 1
        return self._counters[scope]

    # -- the agent and its steps ----------------------------------------------------------------------------------

    async def run(self, node: Node) -> Any:
        """Do what a node says. Returns something that tells what came of it."""
        self.note("enter", node[1], self._counter())
        return await self._kinds[node[0]](node)

    async def quietly(self, node: Node) -> Any:
        """The same, and a planned failure is an outcome too."""
        try:
            return await self.run(node)
        except Planned as failure:
            self.note("failed", node[1], str(failure))
            return f"failed {failure}"
        except InterruptExpired:
            self.note("expired", node[1])
            return "expired"

    async def body(self, number: int, latency: float) -> int:
        """An async step."""
        self._body_runs()
        if latency:
            await asyncio.sleep(latency * self._latencies.random() * 2)
        return number

    def blocking_body(self, number: int, latency: float) -> int:
        """A step in a thread."""
        self._body_runs()
        if latency:
            time.sleep(latency * self._latencies.random())
        return number

    async def failing_body(self, number: int) -> int:
        """A step that fails."""
        self._body_runs()
        raise Planned(number)

    async def _do_step(self, node: Node) -> Any:
        value = await step(self.body, node[1], node[2])
        self.note("step", node[1], value, self._counter())
        return value

    async def _do_thread(self, node: Node) -> Any:
        value = await step(self.blocking_body, node[1], node[2])
        self.note("thread", node[1], value, self._counter())
        return value

    async def _do_once(self, node: Node) -> Any:
        value = await hitl.step(once=True)(self.body)(node[1], node[2])
        self.note("once", node[1], value)
        return value

    async def _do_keyed(self, node: Node) -> Any:
        value = await hitl.step(key=node[3])(self.body)(node[1], node[2])
        self.note("keyed", node[1], value)
        return value

    async def _do_fail(self, node: Node) -> Any:
        await step(self.failing_body, node[1])

    async def _do_clock(self, node: Node) -> Any:
        value = await hitl.random()
        self.note("clock", node[1], value)
        return value

    async def _do_ask(self, node: Node) -> Any:
        try:
            if node[1] % 2:
                value = await interrupt(question_of(node), expires_in=60)
            else:
                value = await interrupt(question_of(node), expires_in=60, on_expire="nobody")
        finally:
            self.note("asked", node[1])
        self.note("answer", node[1], value, self._counter())
        return value

    async def _do_sleep(self, node: Node) -> Any:
        await asyncio.sleep(node[2])
        self.note("slept", node[1], self._counter())

    async def _do_yield(self, node: Node) -> Any:
        for _ in range(node[1] % 4):
            await asyncio.sleep(0)
        self.note("yielded", node[1], self._counter())

    async def _do_count(self, node: Node) -> Any:
        before = self._counter()
        await asyncio.sleep(0)
        self.note("counted", node[1], before, self._counter())

    # -- raw I/O --------------------------------------------------------------------------------------------------

    async def _do_socket(self, node: Node) -> Any:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            threading.Thread(target=self._send, args=(theirs, node[2])).start()
            data = await asyncio.get_running_loop().sock_recv(ours, 1)
        self.note("received", node[1], data.decode(), self._counter())
        return node[1]

    def _send(self, theirs: socket.socket, latency: float) -> None:
        time.sleep(latency)
        theirs.send(b"x")

    async def _do_executor(self, node: Node) -> Any:
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, node[2])
        self.note("executed", node[1], self._counter())
        return node[1]

    async def _do_idle(self, node: Node) -> Any:
        """A connection that stays open, and of which nobody awaits anything."""
        ours, theirs = socket.socketpair()
        with theirs:
            _, writer = await asyncio.open_connection(sock=ours)
            try:
                return [await self.quietly(part) for part in node[2]]
            finally:
                writer.close()
                self.note("closed", node[1], self._counter())

    async def _do_reader(self, node: Node) -> Any:
        """The same, and a task that reads for as long as it lives."""
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            task = asyncio.create_task(reader.readline())
            try:
                return [await self.quietly(part) for part in node[2]]
            finally:
                task.cancel()
                writer.close()
                self.note("closed", node[1], self._counter())

    # -- tasks ----------------------------------------------------------------------------------------------------

    async def _do_seq(self, node: Node) -> Any:
        return [await self.quietly(part) for part in node[2]]

    async def _do_gather(self, node: Node) -> Any:
        try:
            values = await asyncio.gather(*map(self.run, node[3]), return_exceptions=node[2])
        except (Planned, InterruptExpired) as failure:
            values = ["first failure", type(failure).__name__]
        self.note("gathered", node[1], seen(values))
        return node[1]

    async def _do_group(self, node: Node) -> Any:
        tasks: list[asyncio.Task[Any]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks += [group.create_task(self.run(part)) for part in node[2]]
                if node[1] % 4 == 0:
                    await step(self.body, node[1], 0)
                    raise Planned(node[1])
        except* (Planned, InterruptExpired) as failures:
            self.note("group failed", node[1], [type(one).__name__ for one in failures.exceptions])
        self.note("group", node[1], [task.cancelled() for task in tasks])
        return node[1]

    async def _wait(
        self, node: Node, when: str, do: Callable[[Node], Any]
    ) -> tuple[list[asyncio.Task[Any]], set[asyncio.Task[Any]]]:
        tasks = [asyncio.create_task(do(part)) for part in node[2]]
        done, pending = await asyncio.wait(tasks, return_when=when)
        for task in done:  # a set: the order of its elements is the agent's business as well
            failure = None if task.cancelled() else task.exception()
            self.note("done", node[1], tasks.index(task), seen(failure))
        return tasks, pending

    async def _do_wait_all(self, node: Node) -> Any:
        await self._wait(node, asyncio.ALL_COMPLETED, self.quietly)
        return node[1]

    async def _do_wait_error(self, node: Node) -> Any:
        tasks, pending = await self._wait(node, asyncio.FIRST_EXCEPTION, self.run)
        self.note("pending", node[1], sorted(tasks.index(task) for task in pending))
        return node[1]

    async def _do_race(self, node: Node) -> Any:
        tasks, pending = await self._wait(node, asyncio.FIRST_COMPLETED, self.quietly)
        for task in pending:
            task.cancel()
        if pending and node[1] % 2:
            for task in (await asyncio.wait(pending))[0]:
                self.note("loser", node[1], tasks.index(task), task.cancelled())
        else:
            await step(self.body, node[1], 0)
        return node[1]

    async def _do_as_completed(self, node: Node) -> Any:
        for number, next_one in enumerate(asyncio.as_completed([self.quietly(part) for part in node[2]])):
            self.note("completed", node[1], number, seen(await next_one))
            if number == node[1] % 3:
                break
        return node[1]

    async def _do_names(self, node: Node) -> Any:
        """A set of strings: its order depends on PYTHONHASHSEED."""
        parts = {f"part {part[1]}": part for part in node[2]}
        tasks = [asyncio.create_task(self.quietly(parts[name])) for name in set(parts)]
        self.note("names", node[1], seen(await asyncio.gather(*tasks)))
        return node[1]

    # -- cancellation and time ------------------------------------------------------------------------------------

    async def _do_timeout(self, node: Node) -> Any:
        try:
            async with asyncio.timeout(node[2]):
                await self.quietly(node[3])
            self.note("in time", node[1])
        except TimeoutError:
            self.note("timed out", node[1], self._counter())
        return node[1]

    async def _do_wait_for(self, node: Node) -> Any:
        try:
            await asyncio.wait_for(self.quietly(node[3]), node[2])
            self.note("in time", node[1])
        except TimeoutError:
            self.note("timed out", node[1], self._counter())
        return node[1]

    async def _do_cancel(self, node: Node) -> Any:
        task = asyncio.create_task(self.quietly(node[2][0]))
        await step(self.body, node[1], 0.001)
        task.cancel()
        try:
            await task
            self.note("too late to cancel", node[1])
        except asyncio.CancelledError:
            self.note("cancelled", node[1])
        for part in node[2][1:]:
            await self.quietly(part)
        return node[1]

    async def _do_shield(self, node: Node) -> Any:
        task = asyncio.create_task(self.quietly(node[3]))
        try:
            async with asyncio.timeout(node[2]):
                await asyncio.shield(task)
        except TimeoutError:
            self.note("shielded", node[1])
        return seen(await task)

    async def _do_finally(self, node: Node) -> Any:
        try:
            return await self.quietly(node[2][0])
        finally:
            self.note("cleans up", node[1])
            for part in node[2][1:]:
                await self.quietly(part)
            await step(self.body, node[1], 0)
            self.note("clean", node[1])

    async def _do_leave(self, node: Node) -> Any:
        for part in node[2]:
            left = asyncio.create_task(self.quietly(part))
            left.add_done_callback(partial(self._left, node[1], part[1]))
        await asyncio.sleep(0)
        return node[1]

    def _left(self, number: int, part: int, task: asyncio.Task[Any]) -> None:
        self.note("left", number, part, task.cancelled())

    async def _do_callback(self, node: Node) -> Any:
        loop = asyncio.get_running_loop()
        called = loop.create_future()
        handle = loop.call_later(node[2], lambda: called.done() or called.set_result(self._counter()))
        await self.quietly(node[3])
        if node[1] % 3 == 0:
            handle.cancel()
            return node[1]
        self.note("called", node[1], await called)
        return node[1]

    # -- what tasks share -----------------------------------------------------------------------------------------

    async def _do_queue(self, node: Node) -> Any:
        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

        async def produce() -> None:
            for part in node[2]:
                await queue.put([await self.quietly(part)])
            for _ in consumers:
                await queue.put(None)

        async def consume(name: int) -> None:
            while (item := await queue.get()) is not None:
                self.note("consumed", node[1], name, seen(item))
                await step(self.body, node[1], 0)

        consumers = [asyncio.create_task(consume(name)) for name in range(2)]
        await asyncio.gather(produce(), *consumers)
        return node[1]

    async def _do_lock(self, node: Node) -> Any:
        lock, gate = asyncio.Lock(), asyncio.Semaphore(2)

        async def one(part: Node) -> Any:
            async with gate:
                self.note("gate", node[1], part[1])
                async with lock:
                    return await self.quietly(part)

        self.note("locked", node[1], seen(await asyncio.gather(*map(one, node[2]))))
        return node[1]

    async def _do_event(self, node: Node) -> Any:
        event, condition = asyncio.Event(), asyncio.Condition()

        async def waiter(name: int) -> None:
            await event.wait()
            self.note("event", node[1], name)
            async with condition:
                await condition.wait()
            self.note("notified", node[1], name, self._counter())

        waiters = [asyncio.create_task(waiter(name)) for name in range(2)]
        for part in node[2]:
            await self.quietly(part)
        event.set()
        await step(self.body, node[1], 0)
        async with condition:
            condition.notify_all()
        await asyncio.wait(waiters)
        return node[1]

    async def _do_iterate(self, node: Node) -> Any:
        async def produce() -> Any:
            for part in node[2]:
                yield await self.quietly(part)

        async for item in produce():
            self.note("item", node[1], seen(item))
        return node[1]

    # -- tools ----------------------------------------------------------------------------------------------------

    async def _do_tool(self, node: Node) -> Any:
        async def tool(number: int) -> Any:
            self._body_runs()
            for part in node[2]:
                await self.quietly(part)
            return number

        value = await step(tool, node[1])
        self.note("tool", node[1], value)
        return value

    async def _do_sync_tool(self, node: Node) -> Any:
        def tool(number: int) -> Any:
            self._body_runs()
            for part in node[2]:
                self._run_sync(part)
            return number

        value = await step(tool, node[1])
        self.note("sync tool", node[1], value)
        return value

    async def run_sync_agent(self, node: Node) -> Any:
        """A program whose root is a sync tool, as a sync agent."""
        values = await current_turn().run_in_thread(lambda: [self._run_sync(part) for part in node[2]])
        self.note("thread returned", seen(values))

    def _run_sync(self, node: Node) -> Any:
        kind, number = node[0], node[1]
        self.note("enter", number)
        value: Any = None
        try:
            if kind == "step":
                value = step.sync(self.blocking_body, number, node[2])
            elif kind == "once":
                value = step.sync(self.body, number, node[2])  # type: ignore[arg-type]  # an async body: in the loop
            elif kind == "clock":
                value = hitl.random.sync()
            elif kind == "ask":
                value = interrupt.sync(question_of(node))
            else:
                step.sync(self.failing_body, number)
        except Planned as failure:
            value = f"failed {failure}"
        except InterruptExpired:
            value = "expired"
        self.note(kind, number, value)
        return value


def question_of(node: Node) -> dict[str, Any]:
    """The payload of an ask."""
    return {"type": f"{node[2]} {node[1]}"}


def seen(value: Any) -> Any:
    """A value as a note shows it."""
    if isinstance(value, list | tuple):
        return [seen(item) for item in value]
    return type(value).__name__ if isinstance(value, BaseException) else value


def _scope() -> str:
    place = place_var.get()
    return "" if place is None or place.step is None else place.step.path
