"""When a turn says that it awaits nothing but people and timers."""

import asyncio
from typing import Any

from hitl import interrupt, step
from hitl.runtime import current_turn
from hitl.testing.local import PENDING, LocalTurn
from tests.python.unit.conditions import rounds, until, until_waiting


async def test_a_turn_that_awaits_only_an_interrupt_says_so_once() -> None:
    local = LocalTurn(lambda ask: PENDING)
    task = local.start(interrupt, {"type": "q"})
    await until_waiting(local)
    await rounds()
    assert local.port.waits == 1
    local.port.interrupts[0].give("yes")
    assert await task == "yes"
    assert local.port.waits == 1


async def test_a_turn_with_a_step_at_work_is_not_waiting_until_the_step_ends() -> None:
    local = LocalTurn(lambda ask: PENDING)
    release = asyncio.Event()

    async def agent() -> None:
        await asyncio.gather(interrupt({"type": "q"}), step(release.wait))

    task = local.start(agent)
    await until(lambda: local.port.interrupts)
    await rounds()
    assert local.port.waits == 0
    release.set()
    await until_waiting(local)
    local.port.interrupts[0].give(None)
    await task


async def test_a_step_that_itself_only_waits_for_a_person_is_no_work() -> None:
    local = LocalTurn(lambda ask: PENDING)

    async def gate() -> Any:
        return await interrupt({"type": "tool_approval"})

    async def agent() -> list[Any]:
        turn = current_turn()
        return list(await asyncio.gather(turn.run_step("tool", "a", gate), turn.run_step("tool", "b", gate)))

    task = local.start(agent)
    await until_waiting(local)
    first, second = local.port.interrupts
    first.give(1)
    await until(lambda: local.port.waits == 2)  # the first call is recorded, and the turn waits again for the second
    assert local.port.paths() == ["0.1#1"]
    second.give(2)
    assert await task == [1, 2]


async def test_an_answer_that_puts_the_turn_back_to_work_is_not_waiting() -> None:
    local = LocalTurn(lambda ask: PENDING)
    release = asyncio.Event()

    async def agent() -> None:
        asks = [asyncio.ensure_future(interrupt({"type": name})) for name in "ab"]
        await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
        await step(release.wait)

    task = local.start(agent)
    await until_waiting(local)
    local.port.interrupts[0].give(1)
    await rounds()
    assert local.port.waits == 1
    release.set()
    await task
