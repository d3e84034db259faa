"""hitl/turn/places.py: how tasks and steps are named."""

import asyncio
import contextvars
from typing import Any

import pytest

from hitl import interrupt, step
from hitl.turn.runtime import current_turn
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, until
from tests.python.unit.plain_steps import named, value


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
    assert local.port.paths() == ["~charge", "~charge#2"]
    assert [identity["key"] for identity, _ in local.port.steps] == ["charge", "charge"]


async def test_a_key_that_looks_like_the_second_use_of_another_is_a_key_of_its_own() -> None:
    """Under one path only one of the two would ever be answered."""

    async def agent() -> list[str]:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(interrupt({"n": n}, key=key)) for n, key in enumerate(("a", "a#2", "a"))]
        return [task.result() for task in asked]

    local = LocalTurn(lambda _: PENDING)
    task = local.start(agent)
    await until(lambda: len(local.port.interrupts) == 3)
    assert [asked.step["path"] for asked in local.port.interrupts] == ["~a", "~a%232", "~a#2"]
    for asked in local.port.interrupts:
        asked.give(asked.request["payload"]["n"])
    assert await asyncio.wait_for(task, LONG) == [0, 1, 2]


async def test_a_key_names_what_is_inside_too_wherever_it_stands() -> None:
    async def charge() -> str:
        await named("inner")
        return current_turn().idempotency_key()

    async def agent(moved: bool) -> Any:
        if moved:
            await named("new")
        return await keyed()

    keyed = step(key="charge")(charge)
    paths = []
    for moved in (False, True):
        local = LocalTurn()
        assert await local.run(agent, moved) == "session-1/turn-1/~charge"
        paths.append(local.port.paths())
    assert paths == [["~charge/0#1", "~charge"], ["0#1", "~charge/0#1", "~charge"]]


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
