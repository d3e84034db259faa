"""Loops whose host sets a task factory, has timers and threads of its own, or runs its loop inside a callback."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

import hitl
from hitl import ChatMessage, Parked, interrupt, step
from hitl.turn.schedule import NumberedTask
from tests.python.support.local import PENDING, LocalTurn

State = list[ChatMessage]

FAILS = 60.0
"""Seconds after which something that would never come has not come."""
HOUR = 3600.0

on_every_loop = pytest.mark.parametrize("run", [asyncio.run, uvloop.run])


def replied(text: str, state: State) -> tuple[ChatMessage, State]:
    return ChatMessage.assistant_message(content=text), state


async def asks(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    return replied(f"{await interrupt({'about': message.content})}", state)


async def answered(paused: Any, agent: Any, value: Any) -> Any:
    assert paused.state is not None, paused.error
    return await hitl.run(agent, paused.state.answer(paused.interrupts[0], value))


# -- a task factory of the host ---------------------------------------------------------------------------------------


class HostTask(asyncio.Task[Any]):
    """What the host's factory makes."""


def makes_host_tasks(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> HostTask:
    return HostTask(coro, loop=loop, **options)


@on_every_loop
def test_a_task_factory_that_is_set_between_two_runs_makes_the_tasks_of_no_turn(run: Any) -> None:
    made: list[type] = []

    async def works(n: int) -> int:
        made.append(type(asyncio.current_task()))
        return await step(int, n)

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        """Which child of which task a step is in, its name says."""
        done, _ = await asyncio.wait([asyncio.create_task(works(n)) for n in range(5)])
        await interrupt({"about": "more"})
        return replied(",".join(str(task.result()) for task in done), state)

    def steps(paused: Any) -> list[str]:
        return [entry["step"]["path"] for entry in json.loads(paused.state.to_string())["journal"] if "step" in entry]

    async def host() -> None:
        before = await hitl.run(agent, "before")
        asyncio.get_running_loop().set_task_factory(makes_host_tasks)
        after = await hitl.run(agent, "after")
        assert steps(after) == steps(before)
        assert set(made) == {NumberedTask}
        assert type(asyncio.create_task(asyncio.sleep(0))) is HostTask
        outputs = {(await answered(paused, agent, "yes")).output for paused in (before, after)}
        assert len(outputs) == 1, outputs

    run(host())


# -- timers of the host -----------------------------------------------------------------------------------------------


def an_hour_late() -> LocalTurn:
    """A turn that began an hour ago and was told nothing since: so late is its clock."""
    began = {"entry": "start", "at": round((time.time() - HOUR) * 1000), "code": "code-1", "python": "3.11"}
    return LocalTurn(lambda _: PENDING, journal=[began])


def ring(loop: Any, delay: float, bell: Callable[[], object]) -> None:
    """A timer that the loop itself makes, whatever was put on it."""
    nowhere = contextvars.Context()
    if isinstance(loop, uvloop.Loop):
        uvloop.Loop.call_later(loop, delay, bell, context=nowhere)
    else:
        asyncio.BaseEventLoop.call_at(loop, time.monotonic() + delay, bell, context=nowhere)


async def rung(set_timers: Callable[[asyncio.AbstractEventLoop, Callable[[str], object]], None], go: Any) -> list[str]:
    """What rings before a timer of the loop's own, which is set by ``go`` together with ``set_timers``."""
    loop = asyncio.get_running_loop()
    rang: list[str] = []
    is_over = asyncio.Event()

    def set_all() -> None:
        set_timers(loop, rang.append)
        ring(loop, 0.2, is_over.set)

    await go(set_all)
    await asyncio.wait_for(is_over.wait(), FAILS)
    return rang


@on_every_loop
def test_a_timer_of_no_turn_that_is_set_in_a_late_turn_counts_from_now(run: Any) -> None:
    async def late_turn(set_all: Callable[[], None]) -> None:
        async def agent() -> None:
            set_all()

        local = an_hour_late()
        await local.run(agent)
        await local.end()

    def timers(loop: asyncio.AbstractEventLoop, bell: Callable[[str], object]) -> None:
        loop.call_later(HOUR / 2, bell, "in half an hour", context=contextvars.Context())
        loop.call_later(0.01, bell, "at once", context=contextvars.Context())

    assert run(rung(timers, late_turn)) == ["at once"]


@on_every_loop
def test_a_timer_that_is_set_after_a_late_turn_was_closed_counts_from_now(run: Any) -> None:
    async def late_turn(set_all: Callable[[], None]) -> None:
        async def agent() -> None:
            loop = asyncio.get_running_loop()
            loop.call_soon(local.turn.close, context=contextvars.Context())
            loop.call_soon(set_all)

        local = an_hour_late()
        await local.run(agent)

    def timers(loop: asyncio.AbstractEventLoop, bell: Callable[[str], object]) -> None:
        loop.call_later(HOUR / 2, bell, "in half an hour")
        loop.call_later(0.01, bell, "at once")

    assert run(rung(timers, late_turn)) == ["at once"]


@on_every_loop
def test_a_timer_of_a_late_turn_rings_in_its_time(run: Any) -> None:
    async def host() -> None:
        local = an_hour_late()
        await asyncio.wait_for(local.run(asyncio.sleep, 0.01), FAILS)
        await local.end()

    run(host())


# -- threads of the host ----------------------------------------------------------------------------------------------


@on_every_loop
def test_a_strange_thread_that_asks_does_not_end_the_work_of_a_thread_of_the_turn(run: Any) -> None:
    """One that merely carries the turn's context, as a library's may."""
    at_work, release, over = threading.Event(), threading.Event(), threading.Event()

    def works() -> str:
        at_work.set()
        release.wait(FAILS)
        return "worked"

    def asks_in_a_thread() -> None:
        try:
            interrupt.sync({"about": "strange"})
        except Parked:
            over.set()

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        strange = threading.Thread(target=contextvars.copy_context().run, args=(asks_in_a_thread,))
        work = asyncio.ensure_future(asyncio.to_thread(works))
        while not at_work.is_set():
            await asyncio.sleep(0)
        strange.start()
        worked = await work
        return replied(f"{worked}, {await interrupt({'about': 'own'})}", state)

    async def host() -> None:
        running = asyncio.create_task(hitl.run(agent, "go"))
        try:
            # Whole runs beside it: in that time one that is thought to wait comes back.
            for _ in range(3):
                paused = await hitl.run(asks, "beside")
                assert (await answered(paused, asks, "yes")).status == "idle"
            assert at_work.is_set()
            assert not running.done(), "it came back while a thread was at work"
        finally:
            release.set()
        paused = await asyncio.wait_for(running, FAILS)
        assert sorted(asked.payload["about"] for asked in paused.interrupts) == ["own", "strange"]
        assert await asyncio.to_thread(over.wait, FAILS)

    run(host())


# -- a loop that is run inside a callback of it -----------------------------------------------------------------------


def run_nested(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """As libraries for notebooks run a loop that runs already: round by round, until the coroutine is done."""
    loop: Any = asyncio.get_running_loop()
    inner = asyncio.ensure_future(coroutine)
    outer = asyncio.current_task()
    assert outer is not None
    asyncio.tasks._leave_task(loop, outer)
    try:
        while not inner.done():
            loop._run_once()
    finally:
        asyncio.tasks._enter_task(loop, outer)
    return inner.result()


async def goes_round() -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return "round"


@pytest.mark.parametrize("runs", [1, 3])
def test_turns_that_run_their_loop_in_a_callback_go_on(runs: int) -> None:
    """Several at once run each other's callbacks there."""

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        before = run_nested(goes_round())
        answer = await interrupt({"about": "go on?"})
        return replied(f"{before}, {answer}, {run_nested(goes_round())}", state)

    async def ask_and_answer() -> str | None:
        done = await answered(await hitl.run(agent, "go"), agent, "yes")
        assert done.status == "idle", done.error
        return str(done.output)

    async def host() -> list[str | None]:
        return await asyncio.wait_for(asyncio.gather(*(ask_and_answer() for _ in range(runs))), FAILS)

    assert asyncio.run(host()) == ["round, yes, round"] * runs


def test_a_run_that_begins_in_such_a_loop_leaves_the_callback_to_its_turn() -> None:
    async def host() -> tuple[str | None, str]:
        is_inside, has_begun = asyncio.Event(), asyncio.Event()

        async def until_it_began() -> str:
            is_inside.set()
            while not has_begun.is_set():
                await asyncio.sleep(0)
            return "inside"

        async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            before = run_nested(until_it_began())
            return replied(f"{before}, {await interrupt({'about': 'go on?'})}", state)

        async def other(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            has_begun.set()
            return replied("beside", state)

        async def beside() -> str | None:
            await is_inside.wait()
            return (await hitl.run(other, "go")).output

        paused, came = await asyncio.wait_for(asyncio.gather(hitl.run(agent, "go"), beside()), FAILS)
        assert [asked.payload for asked in paused.interrupts] == [{"about": "go on?"}], paused.error
        return came, paused.status

    assert asyncio.run(host()) == ("beside", "interrupted")
