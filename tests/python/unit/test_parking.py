"""A turn that leaves memory: whatever waits gets Parked, and nothing that follows from that is recorded."""

import asyncio
import threading
from typing import Any

import pytest

import hitl
from hitl import interrupt, step
from hitl.errors import Parked
from hitl.turn.runtime import current_turn
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, until, until_waiting
from tests.python.unit.crashed import replayed
from tests.python.unit.plain_steps import named


async def parked(agent: Any) -> LocalTurn:
    """A turn that was parked when it waited, and whose tasks have ended."""
    local = LocalTurn(lambda ask: PENDING)
    task = local.start(agent)
    await until_waiting(local)
    before = len(local.port.journal)
    local.turn.park()
    await asyncio.wait([task], timeout=LONG)
    await until(lambda: not local.turn.tasks and not local.turn.threads)
    assert task.done()
    assert len(local.port.journal) == before
    assert not any(asked.withdrawn for asked in local.port.interrupts)
    return local


async def test_a_waiting_call_raises_parked_which_is_no_exception() -> None:
    seen: list[BaseException] = []

    async def agent() -> None:
        try:
            await interrupt({"type": "q"})
        except Exception:  # noqa: BLE001 - that is the point
            seen.append(AssertionError("an agent's except must not catch it"))
        except BaseException as error:
            seen.append(error)
            raise

    await parked(agent)
    assert [type(error) for error in seen] == [Parked]
    assert not isinstance(seen[0], Exception)


async def test_what_a_finally_does_is_not_recorded() -> None:
    raised: list[type[BaseException]] = []

    async def attempt(make: Any) -> None:
        try:
            await make()
        except BaseException as error:  # noqa: BLE001
            raised.append(type(error))

    async def agent() -> None:
        try:
            await interrupt({"type": "q"})
        finally:
            for make in (
                lambda: named("clean up"),
                lambda: interrupt({"type": "really?"}),
                hitl.now,
                lambda: step(asyncio.sleep, 0),
            ):
                await attempt(make)

    await parked(agent)
    assert raised == [Parked] * 4


async def test_every_task_ends_wherever_it_waits() -> None:
    async def agent() -> None:
        lock = asyncio.Lock()
        await lock.acquire()
        async with asyncio.TaskGroup() as group:
            group.create_task(interrupt({"type": "a"}))
            group.create_task(lock.acquire())  # type: ignore[arg-type]
            group.create_task(asyncio.sleep(3600))
            group.create_task(step(lambda: interrupt.sync({"type": "in a thread"})))
            async with asyncio.timeout(3600):
                await asyncio.gather(interrupt({"type": "b"}), interrupt({"type": "c"}))

    local = await parked(agent)
    assert len(local.port.interrupts) == 4


async def test_a_body_that_waits_inside_is_parked_too_and_is_not_over() -> None:
    async def tool() -> Any:
        await named("inner")
        return await interrupt({"type": "q"})

    async def agent() -> Any:
        return await step(tool)

    local = await parked(agent)
    assert local.port.paths() == ["0#1/0#1"]
    value, _ = await replayed(agent, local.port.journal, lambda ask: "later")
    assert value == "later"


async def test_a_sync_agent_is_parked_in_its_thread() -> None:
    ended: list[type[BaseException]] = []
    over = threading.Event()

    def work() -> None:
        try:
            interrupt.sync({"type": "q"})
        except BaseException as error:
            ended.append(type(error))
            raise
        finally:
            over.set()

    async def agent() -> None:
        await current_turn().run_in_thread(work)

    await parked(agent)
    assert await asyncio.to_thread(over.wait, 5)
    assert ended == [Parked]


async def test_parked_that_nobody_parked_is_the_steps_error() -> None:
    async def odd() -> None:
        raise Parked("not really")

    local = LocalTurn()
    with pytest.raises(Parked):
        await local.run(step, odd)
    assert local.port.steps[0][1]["error"]["type"] == "Parked"


async def test_tasks_that_it_makes_while_it_ends_see_the_same() -> None:
    """No ``except Exception`` around them takes a pause for a failure."""
    raised: list[type[BaseException]] = []

    async def notes(call: Any) -> None:
        try:
            await call()
        except BaseException as error:
            raised.append(type(error))
            raise

    async def agent() -> None:
        await asyncio.gather(interrupt({"type": "q"}), interrupt({"type": "r"}), return_exceptions=True)
        try:
            await asyncio.gather(step(asyncio.sleep, 0), notes(hitl.now), notes(lambda: named("later")))
        except BaseException as error:
            raised.append(type(error))
            raise

    await parked(agent)
    await until(lambda: len(raised) == 3)
    assert raised == [Parked] * 3
