"""Steps: what is recorded, under which name, and what the agent gets back."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from pydantic import BaseModel

from hitl import step
from hitl.errors import HitlError, Parked, StepError
from hitl.interrupts import interrupt
from hitl.runtime import agent_name, current_turn
from hitl.testing.local import PENDING, LocalTurn
from tests.python.unit.conditions import rounds, until


async def value(result: Any) -> Any:
    return result


async def named(name: str, result: Any = None) -> Any:
    return await current_turn().run_step("step", name, lambda: value(result))


async def until_waiting(local: LocalTurn) -> None:
    seen = asyncio.Event()
    local.port.on_waiting = seen.set
    if not local.port.waits:
        await asyncio.wait_for(seen.wait(), 5)


# -- what a step is -------------------------------------------------------------------------------------------------


async def test_outside_a_turn_there_is_no_turn() -> None:
    with pytest.raises(RuntimeError, match=r"^tool\(\) called outside a hitl run$"):
        current_turn("tool()")


async def test_a_step_is_recorded_before_its_result_is_delivered() -> None:
    local = LocalTurn()
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    append = local.port.append_step

    def slow_append(identity: Any, result: Any) -> asyncio.Future[None]:
        append(identity, result)
        return committed

    local.port.append_step = slow_append  # type: ignore[method-assign]
    task = local.start(named, "pay", 12)
    await until(lambda: local.port.steps)
    await rounds()
    assert not task.done()
    committed.set_result(None)
    assert await task == 12


async def test_the_record_names_the_step_and_hashes_its_arguments() -> None:
    local = LocalTurn()

    async def agent() -> None:
        await current_turn().run_step(
            "tool", "delete", lambda: value(1), key="k", location="a.py:3", arguments={"path": "/x", "db": object()}
        )

    await local.run(agent)
    [(identity, result)] = local.port.steps
    digests = identity.pop("arguments")
    assert identity == {"path": "0#1", "key": "k", "kind": "tool", "name": "delete", "location": "a.py:3"}
    assert set(digests) == {"path", "db"}
    assert all(len(digest) == 64 for digest in digests.values())
    assert "/x" not in str(digests)
    assert result == {"value": 1}


async def test_the_agent_gets_the_decoded_copy_live_too() -> None:
    original = {"items": [1, (2, 3)]}
    copy = await LocalTurn().run(named, "fetch", original)
    assert copy == original
    assert copy is not original
    assert copy["items"] is not original["items"]


async def test_a_result_that_cannot_be_stored_is_a_type_error_and_recorded_as_one() -> None:
    local = LocalTurn()
    with pytest.raises(TypeError, match=r"^result of step 'open'\.file is of type .*lock, which cannot be stored"):
        await local.run(named, "open", {"file": threading.Lock()})
    assert local.port.steps[0][1]["error"]["type"] == "TypeError"


async def test_an_error_is_recorded_and_raised_as_a_rebuilt_copy() -> None:
    local = LocalTurn()
    original = KeyError("x")

    async def fail() -> None:
        raise original

    async def agent() -> None:
        await current_turn().run_step("step", "fail", fail)

    with pytest.raises(KeyError) as caught:
        await local.run(agent)
    assert caught.value is not original
    assert caught.value.args == ("x",)
    assert "fail" in [entry.name for entry in caught.traceback]  # people still see where it came from
    assert local.port.steps[0][1]["error"] == {
        "type": "KeyError",
        "module": "builtins",
        "message": "'x'",
        "args": ["x"],
    }


async def test_an_error_whose_class_cannot_be_rebuilt_is_a_step_error() -> None:
    class Odd(Exception):
        pass

    async def fail() -> None:
        raise Odd("very")

    async def agent() -> None:
        await current_turn().run_step("step", "fail", fail)

    with pytest.raises(StepError, match=r"^Odd: very$") as caught:
        await LocalTurn().run(agent)
    assert caught.value.type == "Odd"


async def test_a_body_that_raises_system_exit_is_recorded_and_the_exit_is_the_callers() -> None:
    local = LocalTurn()

    async def agent() -> str:
        try:
            await step(exit_with, 3)
        except SystemExit as exit:
            return f"exit {exit.code}"
        return "no exit"

    def exit_with(code: int) -> None:
        raise SystemExit(code)

    assert await local.run(agent) == "exit 3"
    assert local.port.steps[0][1]["error"]["type"] == "SystemExit"


async def test_parked_passes_through_and_is_not_recorded() -> None:
    local = LocalTurn()

    async def park() -> None:
        raise Parked

    async def agent() -> None:
        await current_turn().run_step("tool", "outer", park)

    with pytest.raises(Parked):
        await local.run(agent)
    assert local.port.steps == []


async def test_a_refused_step_raises_in_the_agent() -> None:
    local = LocalTurn()

    def refuse(identity: Any, result: Any) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_exception(HitlError("no space", code="store_full"))
        return done

    local.port.append_step = refuse  # type: ignore[method-assign]
    with pytest.raises(HitlError, match="no space"):
        await local.run(named, "x")


async def test_what_a_body_sets_in_its_context_stays_inside() -> None:
    language = contextvars.ContextVar("language", default="en")

    async def body() -> str:
        language.set("de")
        return language.get()

    async def agent() -> tuple[str, str]:
        return await current_turn().run_step("step", "set", body), language.get()

    assert await LocalTurn().run(agent) == ("de", "en")


# -- identity -------------------------------------------------------------------------------------------------------


async def test_steps_are_numbered_in_their_task_and_tasks_in_their_parent() -> None:
    local = LocalTurn()

    async def child() -> None:
        await named("a")
        await asyncio.gather(named("b"), named("c"))

    async def agent() -> None:
        await named("first")
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            group.create_task(named("d"))
        await named("last")

    await local.run(agent)
    paths = {identity["name"]: identity["path"] for identity, _ in local.port.steps}
    assert paths == {
        "first": "0#1",
        "a": "0.1#1",
        "b": "0.1.1#1",
        "c": "0.1.2#1",
        "d": "0.2#1",
        "last": "0#2",
    }


async def test_a_step_inside_a_body_is_named_under_it() -> None:
    local = LocalTurn()

    async def body() -> None:
        await named("inner")
        await asyncio.gather(named("left"), named("right"))

    async def agent() -> None:
        await named("before")
        await current_turn().run_step("tool", "outer", body)
        await named("after")

    await local.run(agent)
    assert local.port.paths() == ["0#1", "0#2/0#1", "0#2/0.1#1", "0#2/0.2#1", "0#2", "0#3"]


async def test_a_task_with_a_context_of_its_own_is_numbered_too() -> None:
    local = LocalTurn()

    async def agent() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_task(named("given"), context=contextvars.copy_context())
        await named("own")

    await local.run(agent)
    assert local.port.paths() == ["0.1#1", "0#1"]


async def test_a_key_that_is_used_again_is_told_apart_by_its_number() -> None:
    local = LocalTurn()

    @step(key="charge")
    async def charge(cents: int) -> int:
        return cents

    async def agent() -> list[int]:
        return [await charge(1), await charge(2)]

    assert await local.run(agent) == [1, 2]
    assert [identity["key"] for identity, _ in local.port.steps] == ["charge", "charge#2"]


async def test_the_idempotency_key_names_session_turn_and_step() -> None:
    keys = []

    async def body() -> None:
        keys.append(current_turn().idempotency_key())

    async def agent() -> None:
        await named("before")
        await current_turn().run_step("tool", "pay", body)

    await LocalTurn().run(agent)
    assert keys == ["session-1/turn-1/0#2"]


async def test_deltas_carry_the_step_that_streams() -> None:
    local = LocalTurn()

    async def stream() -> None:
        current_turn().delta({"content": "Hel"})
        await asyncio.gather(value(1))
        current_turn().delta({"content": "lo"})

    async def agent() -> None:
        await current_turn().run_step("model", "complete", stream)
        with pytest.raises(RuntimeError, match="outside a step"):
            current_turn().delta({"content": "x"})

    await local.run(agent)
    assert local.port.deltas == [("0#1", 1, {"content": "Hel"}), ("0#1", 1, {"content": "lo"})]


# -- cancellation ---------------------------------------------------------------------------------------------------


async def test_a_cancelled_caller_cancels_the_body_and_records_nothing() -> None:
    local = LocalTurn()
    started, cleaned = asyncio.Event(), []

    async def body() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    async def agent() -> None:
        await current_turn().run_step("step", "slow", body)

    task = local.start(agent)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]
    assert local.port.steps == []


async def test_a_timeout_around_a_step_is_the_callers_not_the_steps() -> None:
    local = LocalTurn()

    async def agent() -> str:
        try:
            async with asyncio.timeout(0.001):
                await step(asyncio.Event().wait)
        except TimeoutError:
            return await named("after", "timed out")
        return "done"

    assert await local.run(agent) == "timed out"
    assert local.port.paths() == ["0#2"]


async def test_a_body_that_ends_in_a_cancellation_of_its_own_is_recorded() -> None:
    local = LocalTurn()

    async def body() -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    async def agent() -> str:
        try:
            await current_turn().run_step("step", "odd", body)
        except asyncio.CancelledError:
            return "cancelled itself"
        return "no"

    assert await local.run(agent) == "cancelled itself"
    assert local.port.steps[0][1]["error"]["type"] == "CancelledError"


async def test_a_call_after_the_turns_end_is_refused() -> None:
    local = LocalTurn()
    local.turn.close()
    with pytest.raises(RuntimeError, match="after its turn had ended"):
        await local.run(named, "late")


async def test_a_task_that_outlives_its_step_cannot_record_under_it() -> None:
    local = LocalTurn()
    tasks, go = [], asyncio.Event()

    async def straggler() -> None:
        await go.wait()
        await named("late")

    async def body() -> None:
        tasks.append(asyncio.create_task(straggler()))

    async def agent() -> None:
        await current_turn().run_step("tool", "leaky", body)
        go.set()
        await tasks[0]

    with pytest.raises(RuntimeError, match="started inside step 'leaky' outlived it"):
        await local.run(agent)


async def test_finished_tasks_are_forgotten() -> None:
    local = LocalTurn()

    async def agent() -> None:
        await asyncio.gather(*(named(str(n)) for n in range(5)))

    await local.run(agent)
    await asyncio.sleep(0)
    assert local.turn.tasks == {}


# -- waiting --------------------------------------------------------------------------------------------------------


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
    await until(lambda: local.port.interrupts and local.port.interrupts[0].opened.done())
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


# -- threads --------------------------------------------------------------------------------------------------------


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
        computing.wait(5)
        return interrupt.sync({"type": "second"})

    async def agent() -> Any:
        return await asyncio.gather(interrupt({"type": "first"}), current_turn().run_in_thread(work))

    task = local.start(agent)
    await asyncio.to_thread(inside.wait, 5)
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

    with pytest.raises(RuntimeError, match="raised StopIteration"):
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
    await asyncio.to_thread(released.wait, 5)
    assert isinstance(ended[0], asyncio.CancelledError)
    await task


# -- agents and values ----------------------------------------------------------------------------------------------


class Weather(BaseModel):
    city: str
    degrees: float


async def test_typed_results_come_back_typed() -> None:
    back = await LocalTurn().run(named, "weather", [Weather(city="Oakland", degrees=21.5)])
    assert back == [Weather(city="Oakland", degrees=21.5)]


async def test_the_agent_of_a_question_is_the_turns_or_the_one_that_works_inside_it() -> None:
    local = LocalTurn(lambda ask: ask["agent"], agent="outer")

    async def inner() -> Any:
        agent_name.set("inner")
        return await interrupt({"type": "q"})

    async def agent() -> Any:
        return [await interrupt({"type": "q"}), await current_turn().run_step("tool", "sub", inner)]

    assert await local.run(agent) == ["outer", "inner"]
