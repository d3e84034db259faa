"""hitl/turn/threads.py: what threads and the loop do for each other, and what happens when one of them has gone on."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import pytest

from hitl import interrupt, now, step
from hitl.turn.runtime import current_turn
from hitl.turn.threads import call_blocking
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, rounds, until, until_waiting
from tests.python.unit.plain_steps import named


async def test_a_task_left_behind_by_a_sync_call_fails_instead_of_waiting_for_a_thread_that_went_on() -> None:
    go, left = asyncio.Event(), []

    async def straggler() -> int:
        await go.wait()
        return await call_blocking(current_turn(), threading.get_ident)

    async def body() -> int:
        left.append(asyncio.create_task(straggler()))
        return await call_blocking(current_turn(), threading.get_ident)

    def work() -> tuple[int, int]:
        return step.sync(body), threading.get_ident()  # type: ignore[return-value]

    async def agent() -> Any:
        inside, caller = await current_turn().run_in_thread(work)
        assert inside == caller
        go.set()
        await left[0]

    with pytest.raises(RuntimeError, match="outlived it and made a hitl call"):
        await LocalTurn().run(agent)


async def test_an_exit_in_a_sync_step_is_raised_in_the_thread_that_called_it() -> None:
    def leave() -> None:
        raise SystemExit(4)

    def work() -> str:
        try:
            step.sync(leave)
        except SystemExit as exit:
            return f"exit {exit.code}"
        return "stayed"

    async def agent() -> str:
        return await current_turn().run_in_thread(work)

    assert await LocalTurn().run(agent) == "exit 4"


async def test_a_sync_call_after_the_turns_end_is_an_error_not_a_hang() -> None:
    local = LocalTurn()
    ended, results = threading.Event(), []

    def work() -> None:
        ended.wait(LONG)
        try:
            step.sync(int)
        except RuntimeError as error:
            results.append(str(error))

    async def agent() -> None:
        await current_turn().run_in_thread(work)

    task = local.start(agent)
    await asyncio.sleep(0)
    local.turn.close()
    ended.set()
    await task
    assert results == ["a hitl call was made after its turn had ended"]


async def test_a_function_in_a_thread_belongs_to_the_turn() -> None:
    local = LocalTurn(lambda ask: ask["payload"]["n"] * 2)

    def work() -> tuple[int, int, bool]:
        first = interrupt.sync({"n": 1})
        second = step.sync(lambda x: x + 1, first)
        return first, second, threading.current_thread() is threading.main_thread()

    async def agent() -> Any:
        await named("before")
        return await current_turn().run_in_thread(work)

    assert await local.run(agent) == (2, 3, False)
    assert local.port.paths() == ["0#1", "0#3"]
    assert local.port.interrupts[0].step["path"] == "0#2"


async def test_a_sync_step_runs_in_the_thread_that_called_it() -> None:
    def work() -> bool:
        return step.sync(threading.get_ident) == threading.get_ident()

    async def agent() -> bool:
        return await current_turn().run_in_thread(work)

    assert await LocalTurn().run(agent)


@pytest.mark.parametrize("before", [0, 20])
async def test_a_thread_of_the_loop_s_pool_that_waits_leaves_its_place_to_what_it_waits_for(before: int) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))

    async def body() -> str:
        return await asyncio.to_thread(step.sync, lambda: "done")

    async def agent() -> list[str]:
        # More than it has threads, so that some have waited in it.
        await asyncio.gather(*(asyncio.to_thread(int) for _ in range(before)))
        return await asyncio.gather(*(asyncio.to_thread(step.sync, body) for _ in range(3)))

    assert await LocalTurn().run(agent) == ["done"] * 3


async def test_a_sync_step_may_ask_in_its_body() -> None:
    local = LocalTurn(lambda ask: "blue")

    def body() -> Any:
        return interrupt.sync({"type": "color"})

    async def agent() -> Any:
        return await current_turn().run_in_thread(lambda: step.sync(body))

    assert await local.run(agent) == "blue"
    assert local.port.interrupts[0].step["path"] == "0#1/0#1"


async def test_a_thread_is_at_work_until_it_is_blocked_in_a_question() -> None:
    local = LocalTurn(lambda ask: PENDING)
    computing = threading.Event()
    inside = threading.Event()

    def work() -> Any:
        inside.set()
        computing.wait(LONG)
        return interrupt.sync({"type": "second"})

    async def agent() -> Any:
        return await asyncio.gather(interrupt({"type": "first"}), current_turn().run_in_thread(work))

    task = local.start(agent)
    await asyncio.to_thread(inside.wait, LONG)
    await rounds()
    assert local.port.waits == 0
    computing.set()
    await until_waiting(local)
    for asked in local.port.interrupts:
        asked.give(asked.request["type"])
    assert await task == ["first", "second"]


async def test_a_sync_twin_on_the_event_loop_names_the_async_one() -> None:
    async def agent() -> None:
        interrupt.sync({"type": "q"})

    with pytest.raises(RuntimeError, match=r"^interrupt\.sync\(\) would block the event loop; use: await interrupt"):
        await LocalTurn().run(agent)


async def test_an_error_of_a_thread_is_the_callers() -> None:
    def fail() -> None:
        raise StopIteration

    async def agent() -> None:
        await current_turn().run_in_thread(fail)

    with pytest.raises(RuntimeError, match=r"\.fail raised StopIteration$"):
        await LocalTurn().run(agent)


async def test_a_thread_that_is_blocked_when_its_turn_ends_is_released() -> None:
    local = LocalTurn(lambda ask: PENDING)
    ended: list[BaseException] = []
    released = threading.Event()

    def work() -> None:
        try:
            interrupt.sync({"type": "q"})
        except asyncio.CancelledError as error:
            ended.append(error)
        released.set()

    async def agent() -> None:
        await current_turn().run_in_thread(work)

    task = local.start(agent)
    await until_waiting(local)
    for pending in local.turn.tasks:
        pending.cancel()
    await asyncio.to_thread(released.wait, LONG)
    assert isinstance(ended[0], asyncio.CancelledError)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_thread_that_was_left_behind_asked_for_need_not_be_asked_for_again_in_time() -> None:
    go = threading.Event()

    def tool() -> None:
        go.wait(LONG)
        step.sync(int)

    async def agent(until_it_called: bool) -> str:
        left = asyncio.create_task(step(tool))
        await named("works")
        go.set()
        if until_it_called:
            await asyncio.wait([left])
        else:  # its call has reached the loop, which has not come to it when the agent returns
            ready: Any = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
            while not any("_arrive" in repr(handle) for handle in list(ready)):
                continue
        return "returned"

    first = LocalTurn()
    await first.run(agent, True)
    await first.end()
    assert first.port.paths() == ["0#1", "0.1#1/0#1", "0.1#1"]
    go.clear()
    again = LocalTurn(journal=first.port.journal[:3])
    assert await again.run(agent, False) == "returned"
    await again.end()


async def test_a_thread_whose_step_was_cancelled_is_told_so_in_its_hitl_call() -> None:
    """How far it had come at that moment no re-run can tell, so it hears nothing any more: not even an answer."""
    heard: SimpleQueue[BaseException] = SimpleQueue()
    local = LocalTurn()

    def work() -> None:
        try:
            interrupt.sync({"type": "color"})
        except BaseException as error:
            heard.put(error)
            raise

    async def agent() -> None:
        asking = asyncio.create_task(step(work))
        while not local.port.interrupts:
            await asyncio.sleep(0.001)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await now()  # the turn goes on

    await local.run(agent)
    assert isinstance(await asyncio.to_thread(heard.get), asyncio.CancelledError)
    [asked] = local.port.interrupts
    assert asked.withdrawn


async def test_a_turn_pauses_while_threads_of_an_executor_wait_in_hitl_calls() -> None:
    """That is how other frameworks run their sync tools."""
    local = LocalTurn(lambda ask: PENDING)

    def ask(color: str) -> Any:
        return interrupt.sync({"type": color})

    async def agent() -> list[Any]:
        first = await asyncio.gather(asyncio.to_thread(ask, "red"), asyncio.to_thread(ask, "green"))
        return [*first, await asyncio.to_thread(ask, "blue")]

    task = local.start(agent)
    await until_waiting(local)
    for asked in local.port.interrupts:
        asked.give(asked.request["type"])
    await until_waiting(local, 2)
    local.port.interrupts[-1].give("sky")
    assert await task == ["red", "green", "sky"]


async def test_a_call_in_an_executor_is_work() -> None:
    local, release = LocalTurn(lambda ask: PENDING), threading.Event()

    async def agent() -> None:
        await asyncio.gather(interrupt({"type": "q"}), asyncio.to_thread(release.wait))

    task = local.start(agent)
    await until(lambda: local.port.interrupts)
    await rounds()
    assert local.port.waits == 0
    release.set()
    await until_waiting(local)
    local.port.interrupts[0].give(None)
    await task
