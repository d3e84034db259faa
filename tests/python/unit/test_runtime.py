"""Steps: what is recorded, and what the agent gets back."""

import asyncio
import contextvars
import gc
import threading
from contextlib import suppress
from typing import Any
from weakref import ref

import pytest
from pydantic import BaseModel

from hitl import step
from hitl.errors import HitlError, StepError
from hitl.turn.interrupts import interrupt
from hitl.turn.runtime import agent_name, current_turn
from tests.python.support.local import LocalTurn
from tests.python.unit.conditions import rounds, until
from tests.python.unit.plain_steps import named, value


async def test_outside_a_turn_there_is_no_turn() -> None:
    with pytest.raises(RuntimeError, match=r"^tool\(\) called outside a hitl run\n\nhint: "):
        current_turn("tool()")


async def test_a_step_is_recorded_before_its_result_is_delivered() -> None:
    local = LocalTurn()
    acknowledge: list[Any] = []
    local.port.tell = acknowledge.append  # type: ignore[method-assign]  # the commit takes its time
    task = local.start(named, "pay", 12)
    await until(lambda: local.port.steps)
    await rounds()
    assert not task.done()
    acknowledge[0](local.turn.order)
    assert await task == 12


async def test_what_a_body_had_is_free_when_its_step_is_over() -> None:
    class Connection:
        pass

    had: list[ref[Connection]] = []
    kept: contextvars.ContextVar[Connection] = contextvars.ContextVar("kept")

    async def body() -> int:
        made = Connection()
        had.append(ref(made))
        kept.set(made)
        return 1

    async def agent() -> bool:
        await current_turn().run_step("tool", "make", body)
        return had[0]() is None

    gc.disable()  # there is nothing for it to find
    try:
        assert await LocalTurn().run(agent)
    finally:
        gc.enable()


@pytest.mark.parametrize("failing", ["raising", "unstorable", "in a thread"])
async def test_what_a_failed_body_had_is_free_once_its_error_was_caught(failing: str) -> None:
    class Connection:
        pass

    had: list[ref[Connection]] = []

    def plain_body() -> Connection:
        made = Connection()
        had.append(ref(made))
        if failing != "unstorable":
            raise ConnectionError("it went away")
        return made

    async def body() -> Connection:
        return plain_body()

    async def agent() -> None:
        with suppress(ConnectionError, TypeError):
            await step(plain_body if failing == "in a thread" else body)

    local = LocalTurn()
    gc.disable()  # there is nothing for it to find
    try:
        await local.run(agent)
        await until(lambda: had[0]() is None)  # a thread may be about to let go of it
    finally:
        gc.enable()


async def test_an_agent_may_change_what_a_step_has_brought() -> None:
    made = {"words": ["a"]}

    async def body() -> dict[str, list[str]]:
        return made

    async def agent() -> list[str]:
        brought = await current_turn().run_step("tool", "make", body)
        brought["words"].append("b")
        return made["words"]

    assert await LocalTurn().run(agent) == ["a"]


async def test_the_record_names_the_step_and_hashes_its_arguments() -> None:
    local = LocalTurn()

    async def agent() -> None:
        await current_turn().run_step(
            "tool", "delete", lambda: value(1), key="k", location="a.py:3", arguments={"path": "/x", "db": object()}
        )

    await local.run(agent)
    [(identity, result)] = local.port.steps
    digests = identity.pop("arguments")
    assert identity == {"path": "~k", "key": "k", "kind": "tool", "name": "delete", "location": "a.py:3"}
    assert set(digests) == {"path", "db"}
    assert all(len(digest) == 32 for digest in digests.values())
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
        "bases": ["builtins.LookupError", "builtins.Exception", "builtins.BaseException"],
        "state": {},
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


async def test_a_refused_step_raises_in_the_agent_and_that_is_what_is_recorded() -> None:
    local = LocalTurn()
    local.port.refuse_steps = HitlError("no space", code="store_full")
    with pytest.raises(HitlError, match="no space") as caught:
        await local.run(named, "x")
    assert caught.value.code == "store_full"
    assert local.port.steps[0][1]["error"]["type"] == "HitlError"


async def test_what_a_body_sets_in_its_context_stays_inside() -> None:
    language = contextvars.ContextVar("language", default="en")

    async def body() -> str:
        language.set("de")
        return language.get()

    async def agent() -> tuple[str, str]:
        return await current_turn().run_step("step", "set", body), language.get()

    assert await LocalTurn().run(agent) == ("de", "en")


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


async def test_finished_tasks_are_forgotten_before_the_turn_ends() -> None:
    """A framework makes some for each thing that it does, and a turn may do thousands."""
    local = LocalTurn()
    kept: list[int] = []
    left: list[ref[Any]] = []

    async def nothing() -> None: ...

    async def agent() -> None:
        waiting = asyncio.create_task(asyncio.Event().wait())
        for _ in range(100):
            task = asyncio.create_task(nothing())
            left.append(ref(task))
            await task
            del task
            kept.append(sum(each() is not None for each in left))
        assert list(local.turn.tasks) == [asyncio.current_task(), waiting]
        waiting.cancel()

    await local.run(agent)
    assert max(kept) < 20


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


@pytest.mark.parametrize("once", [False, True])
async def test_a_step_without_a_name_is_refused_where_it_is_asked_for(once: bool) -> None:
    local = LocalTurn()

    async def agent() -> None:
        name: Any = None
        await current_turn().run_step("model", name, lambda: value(1), once=once)

    with pytest.raises(TypeError, match="the name of a model step must be a str, got NoneType"):
        await local.run(agent)
    assert local.port.steps == []


async def test_a_step_of_which_nothing_can_be_recorded_fails_the_turn() -> None:
    local = LocalTurn()
    asked = 0

    def refuse(step: Any, result: Any) -> int:
        nonlocal asked
        asked += 1
        raise ValueError("invalid type: null")

    local.port.step = refuse  # type: ignore[method-assign]  # as what takes the records does with what it cannot read
    local.start(named, "pay", 12)
    failure = await local.turn.failure
    assert str(failure) == "the step step 0#1 cannot be recorded: invalid type: null"
    assert asked == 2  # with its outcome, and with the error in its place
