"""hitl/turn/schedule.py: whose callback runs, and what does not belong to a turn."""

import asyncio
import contextvars
import gc
import socket
from typing import Any

import pytest

from hitl import interrupt, step
from hitl.turn.runtime import current_turn
from hitl.turn.schedule import NumberedTask, install
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, rounds, until, until_waiting
from tests.python.unit.plain_steps import named


async def test_it_is_put_on_a_loop_once() -> None:
    loop = asyncio.get_running_loop()
    schedule = install(loop)
    call_soon = loop.call_soon
    assert install(loop) is schedule
    assert loop.call_soon == call_soon


async def test_outside_of_turns_a_loop_is_as_it_was() -> None:
    loop = asyncio.get_running_loop()
    install(loop)
    task = asyncio.create_task(asyncio.sleep(0, "value"))
    assert type(task) is asyncio.Task
    assert type(loop.create_future()) is type(asyncio.Future(loop=loop))
    assert isinstance(loop.call_later(0, int), asyncio.TimerHandle)
    assert await task == "value"


async def test_a_cancelled_callback_does_not_run_and_is_not_counted_for_ever() -> None:
    called: list[str] = []

    async def agent() -> Any:
        loop = asyncio.get_running_loop()
        handle = loop.call_soon(called.append, "cancelled")
        handle.cancel()
        assert handle.cancelled()
        loop.call_soon(called.append, "called")
        return await named("after", 1)

    local = LocalTurn()
    assert await local.run(agent) == 1  # with a count that leaked, the result would never be told
    assert called == ["called"]
    assert local.turn.order.count == 0


@pytest.mark.parametrize("debug", [False, True])  # in which asyncio wants to make each handle by itself
async def test_what_a_callback_raises_is_told_as_the_loop_tells_it(debug: bool) -> None:
    told: list[BaseException | None] = []

    def wrong() -> None:
        raise ValueError("wrong")

    async def agent() -> Any:
        asyncio.get_running_loop().call_soon(wrong)
        return await named("after", 1)

    loop = asyncio.get_running_loop()
    loop.set_debug(debug)
    loop.set_exception_handler(lambda _, context: told.append(context.get("exception")))
    local = LocalTurn()
    assert await local.run(agent) == 1
    assert [str(error) for error in told] == ["wrong"]
    assert local.turn.order.count == 0


def test_a_loop_with_callbacks_of_its_own_kind_gets_them_by_its_own_way() -> None:
    class Other(asyncio.SelectorEventLoop):
        asked = 0

        def call_soon(self, *args: Any, **options: Any) -> Any:
            self.asked += 1
            return super().call_soon(*args, **options)

    async def turn() -> Any:
        async def agent() -> Any:
            for _ in range(5):
                await asyncio.sleep(0)
            return await named("after", 1)

        return await LocalTurn().run(agent)

    loop = Other()
    assert loop.run_until_complete(turn()) == 1
    assert loop.asked > 5
    loop.close()


async def test_tasks_and_futures_of_a_turn_hash_by_their_number() -> None:
    async def agent() -> list[int]:
        loop = asyncio.get_running_loop()
        made = [asyncio.create_task(asyncio.sleep(0)), loop.create_future(), asyncio.create_task(asyncio.sleep(0))]
        await asyncio.gather(made[0], made[2])
        return [hash(one) for one in made]

    first, second, other = [await LocalTurn(turn_id=turn_id).run(agent) for turn_id in ("turn-1", "turn-1", "turn-2")]
    assert first == second
    assert first == sorted(first)
    # By the low bits, which place them in a set, they count alike; and yet many turns do not meet in asyncio's own.
    low = 2**40 - 1
    assert [number & low for number in first] == [number & low for number in other]
    assert not {*first} & {*other}


async def test_two_turns_on_one_loop_do_not_hold_each_other_up() -> None:
    slow, quick = LocalTurn(lambda ask: PENDING), LocalTurn()
    waiting = slow.start(interrupt, {"type": "q"})
    await until_waiting(slow)

    async def agent() -> list[Any]:
        return [await named(str(number), number) for number in range(20)]

    assert await quick.run(agent) == list(range(20))
    slow.port.interrupts[0].give("yes")
    assert await waiting == "yes"


async def test_an_object_that_one_turn_shares_with_another_wakes_both() -> None:
    event = asyncio.Event()

    async def waits() -> str:
        await event.wait()
        return str(await named("after", "woken"))

    async def sets() -> None:
        await named("before")
        event.set()

    one, other = LocalTurn(), LocalTurn()
    task = one.start(waits)
    await other.run(sets)
    assert await asyncio.wait_for(task, LONG) == "woken"
    assert not one.turn.order.is_pure  # something that its journal does not know


async def test_a_task_that_a_socket_callback_made_belongs_to_no_turn() -> None:
    ours, theirs = socket.socketpair()
    made: list[asyncio.Task[Any]] = []

    async def works() -> Any:
        return await step(int)

    async def agent() -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, lambda: (loop.remove_reader(ours), made.append(asyncio.ensure_future(works()))))
        theirs.send(b"x")
        await interrupt({"type": "q"})

    local = LocalTurn(lambda ask: PENDING)
    with ours, theirs:
        task = local.start(agent)
        await until(lambda: made and made[0].done())
        with pytest.raises(RuntimeError, match="outside a hitl run"):
            made[0].result()
        assert not isinstance(made[0], NumberedTask)
        local.port.interrupts[0].give(1)
        await task


async def test_what_the_garbage_collector_closes_records_nothing() -> None:
    refused: list[str] = []

    async def numbers() -> Any:
        try:
            yield 1
        finally:
            try:
                await named("clean up")
            except RuntimeError as error:
                refused.append(str(error))

    async def agent() -> Any:
        async for _ in numbers():
            break
        gc.collect()
        await rounds()
        return await named("after", 1)

    local = LocalTurn()
    assert await local.run(agent) == 1
    await until(lambda: refused)
    assert "outside" in refused[0]
    assert [identity["name"] for identity, _ in local.port.steps] == ["after"]


async def test_a_context_without_a_place_leaves_the_turn() -> None:
    seen: list[str] = []

    def outside() -> None:
        try:
            current_turn()
        except RuntimeError as error:
            seen.append(str(error))

    async def agent() -> Any:
        asyncio.get_running_loop().call_soon(outside, context=contextvars.Context())
        return await named("after", 1)

    assert await LocalTurn().run(agent) == 1
    assert len(seen) == 1


class NestedLoop(asyncio.SelectorEventLoop):
    """Can be run inside a callback of its own, as nest_asyncio lets every loop be."""

    def run_until_complete(self, future: Any) -> Any:
        if not self.is_running():
            return super().run_until_complete(future)
        made, outer = asyncio.ensure_future(future, loop=self), asyncio.current_task()
        asyncio.tasks._leave_task(self, outer)  # type: ignore[attr-defined]
        try:
            for _ in range(5_000):  # a thousand times as often as is needed
                if made.done():
                    break
                self._run_once()  # type: ignore[attr-defined]
        finally:
            asyncio.tasks._enter_task(self, outer)  # type: ignore[attr-defined]
        return made.result()


def test_a_step_may_run_its_loop_where_something_lets_it() -> None:
    async def fetch() -> str:
        await asyncio.sleep(0.001)
        return "fetched"

    async def legacy() -> Any:
        return asyncio.get_running_loop().run_until_complete(fetch())

    async def main() -> None:
        assert await asyncio.wait_for(LocalTurn().run(step, legacy), LONG) == "fetched"

    with asyncio.Runner(loop_factory=NestedLoop) as runner:
        runner.run(main())


async def test_a_loop_that_cannot_run_inside_itself_says_so_and_runs_nothing_of_it() -> None:
    ran: list[str] = []

    async def fetch() -> None:
        ran.append("fetch")

    async def legacy() -> None:
        asyncio.get_running_loop().run_until_complete(fetch())

    with pytest.raises(RuntimeError, match="already running"):
        await LocalTurn().run(step, legacy)
    await rounds()
    assert ran == []
