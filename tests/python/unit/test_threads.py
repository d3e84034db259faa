"""hitl/threads.py: what threads and the loop do for each other, and what happens when one of them has gone on."""

import asyncio
import threading
from typing import Any

import pytest

from hitl import step
from hitl.runtime import current_turn
from hitl.testing.local import LocalTurn
from hitl.threads import call_blocking


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
        ended.wait(5)
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
