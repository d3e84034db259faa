"""What the turn's clock reads when a turn goes on: how long people took is no work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hitl import interrupt, step
from hitl.turn.stopwatch import limit
from tests.python.support.local import PENDING, Journal, LocalTurn
from tests.python.unit.conditions import until_waiting
from tests.python.unit.crashed import replayed

A_DAY = 86_400_000


async def paused(agent: Callable[[], Awaitable[Any]]) -> Journal:
    """The journal of a turn that waits for an answer, as it is when a day has passed."""
    local = LocalTurn(lambda ask: PENDING)
    local.start(agent)
    await until_waiting(local)
    journal = list(local.port.journal)
    await local.end()
    return [{**entry, "at": entry["at"] - A_DAY} for entry in journal if entry["entry"] != "withdraw"]


async def reads() -> Any:
    await asyncio.to_thread(int)
    return await interrupt({"type": "q"})


async def test_a_person_takes_nothing_of_the_limit_of_a_tool_that_awaits_raw_io() -> None:
    async def tool() -> Any:
        async with limit(60.0, "the tool"):
            answer = await reads()
            await asyncio.to_thread(int)
            return answer, await reads()

    async def agent() -> Any:
        return await step(tool)

    value, _ = await replayed(agent, await paused(agent), lambda ask: "yes")
    assert value == ("yes", "yes")


async def test_a_deadline_of_the_agent_itself_is_where_it_was() -> None:
    async def agent() -> Any:
        until = asyncio.get_running_loop().time() + 60.0
        await asyncio.to_thread(int)
        try:
            async with asyncio.timeout_at(until):
                return await step(asyncio.sleep, 0, "in time"), await interrupt({"type": "q"})
        except TimeoutError:
            return "too late", await interrupt({"type": "too late"})

    journal = await paused(agent)
    assert [entry["entry"] for entry in journal] == ["start", "wakes", "step", "ask"]
    local = LocalTurn(lambda ask: PENDING, journal=journal)
    local.start(agent)
    await until_waiting(local)
    assert [asked.request["type"] for asked in local.port.interrupts] == ["q"]
    await local.end()


async def test_a_timer_that_was_set_after_raw_io_is_due_when_it_was() -> None:
    async def agent() -> Any:
        await asyncio.to_thread(int)
        asked = asyncio.create_task(interrupt({"type": "q"}))
        await asyncio.sleep(2 * A_DAY / 1000)
        return await asked

    journal = await paused(agent)
    local = LocalTurn(lambda ask: PENDING, journal=journal)
    local.start(agent)
    await until_waiting(local)
    (timer,) = local.turn.order.timers.values()
    assert timer.deadline - local.turn.order.schedule.time() < 1.1 * A_DAY / 1000
    await local.end()


async def test_what_a_step_waited_for_before_its_body_began_takes_nothing_of_its_limit() -> None:
    """A pool that was opened for it, for a hundred seconds; no entry tells how long that took."""

    async def tool() -> Any:
        async with limit(60.0, "the tool"):
            answer = await reads()
            await asyncio.to_thread(int)
            return answer

    async def agent() -> Any:
        return await step(tool)

    start, *rest = await paused(agent)
    value, _ = await replayed(agent, [{**start, "at": start["at"] - 100_000}, *rest], lambda ask: "yes")
    assert value == "yes"


async def test_work_before_a_question_is_counted_by_a_limit_and_the_persons_time_is_not() -> None:
    left: list[float] = []

    async def tool() -> Any:
        timeout = asyncio.timeout(60.0)
        async with timeout:
            await asyncio.sleep(0.2)
            asked = asyncio.create_task(interrupt({"type": "q"}))
            await asyncio.sleep(0)
            left.append((timeout.when() or 0.0) - asyncio.get_running_loop().time())
            return await asked

    local = LocalTurn(lambda ask: "yes")
    await local.run(lambda: step(tool))
    await local.end()
    assert left[0] < 59.9
