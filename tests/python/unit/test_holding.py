"""hitl/turn/holding.py: what a turn is held by can end without a word to the turn."""

import asyncio
import threading
from typing import Any

import pytest

from hitl import interrupt, step
from hitl.turn.runtime import current_turn
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, until, until_waiting

pytestmark = pytest.mark.on_every_loop


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One that is nobody's of the turn, and the only other one. Ends when told to, and at the latest with the test."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait, args=(LONG,))
    thread.start()
    # Tests before this one may have left threads of their libraries.
    monkeypatch.setattr(threading, "active_count", lambda: 1 + thread.is_alive())
    yield end
    end.set()
    thread.join()


async def test_a_turn_pauses_once_the_thread_is_gone_that_might_have_woken_it(
    thread: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl.turn.holding._SAID_AFTER", 0.0)

    async def agent() -> Any:
        done = asyncio.get_running_loop().create_future()  # for all that anybody knows, the thread's to settle

        async def answer() -> None:
            done.set_result(await interrupt({"type": "q"}))

        task = asyncio.create_task(answer())
        value = await done
        await task
        return value

    local = LocalTurn(lambda _: PENDING)
    task = local.start(agent)
    await until(lambda: local.port.holders)
    assert local.port.waits == 0
    thread.set()
    await until_waiting(local)
    local.port.interrupts[0].give("yes")
    assert await asyncio.wait_for(task, LONG) == "yes"
    await local.end()


async def test_a_replay_does_not_wait_for_what_a_cancelled_body_can_ask_no_more(thread: threading.Event) -> None:
    """Live, its thread had come further when it was cancelled than it comes now."""
    is_live = True
    cancelled = threading.Event()

    async def quick() -> int:
        return 1

    async def until_the_thread_has_asked() -> None:
        if is_live:
            await until(lambda: inside(local.port.journal))

    def inside(journal: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [entry for entry in journal if "/" in entry.get("step", {}).get("path", "")]

    def body() -> None:
        if not is_live:
            cancelled.wait(LONG)
        current_turn().run_sync("step", lambda: step(quick))
        cancelled.wait(LONG)

    async def agent() -> Any:
        tool = asyncio.create_task(step(body))
        await step(until_the_thread_has_asked)
        tool.cancel()
        await asyncio.wait([tool])
        done = asyncio.get_running_loop().create_future()

        async def answer() -> None:
            done.set_result(await step(quick))

        task = asyncio.create_task(answer())
        value = await done
        await task
        return value

    local = LocalTurn()
    task = local.start(agent)
    assert await asyncio.wait_for(task, LONG) == 1
    await local.end()
    (asked,) = inside(local.port.journal)
    start, *others = [entry for entry in local.port.journal if entry is not asked]

    is_live = False
    again = LocalTurn(journal=[start, others[0], asked, *others[1:]])
    task = again.start(agent)
    try:
        assert await asyncio.wait_for(task, LONG) == 1
    finally:
        cancelled.set()
    await again.end()
