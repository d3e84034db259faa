"""hitl/turn/timers.py: what time does to a turn is in its journal; a replay follows that, not the clock."""

import asyncio
import math
import time
from typing import Any

import pytest

from hitl import interrupt, step
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import until_waiting
from tests.python.unit.crashed import entries, recorded, replayed
from tests.python.unit.plain_steps import named


async def sleeps() -> str:
    await asyncio.sleep(0.01)
    return "slept"


async def times_out() -> str:
    try:
        async with asyncio.timeout(0.01):
            await interrupt({"type": "never"})
    except TimeoutError:
        return "timed out"
    return "answered"


async def waits_for() -> str:
    try:
        await asyncio.wait_for(interrupt({"type": "never"}), 0.01)
    except TimeoutError:
        return "timed out"
    return "answered"


async def calls_later() -> str:
    loop = asyncio.get_running_loop()
    called = loop.create_future()
    loop.call_later(0.01, called.set_result, "called")
    return str(await called)


async def waits_with_a_timeout() -> str:
    done, pending = await asyncio.wait([asyncio.create_task(interrupt({"type": "never"}))], timeout=0.01)
    for task in pending:
        task.cancel()
    return f"{len(done)} done, {len(pending)} not"


@pytest.mark.parametrize("agent", [sleeps, times_out, waits_for, calls_later, waits_with_a_timeout])
async def test_a_timer_that_fired_is_an_entry_and_fires_in_the_replay_by_order_alone(agent: Any) -> None:
    local = LocalTurn(lambda ask: PENDING)
    before = time.time()
    value = await local.run(agent)
    [fired] = [entry for entry in local.port.journal if entry["entry"] == "timer"]
    assert fired["path"] == "0@1"
    assert before <= fired["due"] / 1000 <= time.time() + 0.01
    journal = [{**entry, "due": entry["due"] + 10**9} if "due" in entry else entry for entry in local.port.journal]
    assert (await replayed(agent, journal, lambda ask: PENDING))[0] == value


async def test_a_timer_that_was_cancelled_is_no_entry() -> None:
    async def agent() -> Any:
        async with asyncio.timeout(60):
            return await named("quick", 1)

    local = await recorded(agent)
    assert entries(local) == ["start", "step 0#1"]
    assert (await replayed(agent, local.port.journal))[0] == 1


async def test_an_answer_and_a_timer_have_one_winner_the_first_in_the_journal() -> None:
    async def agent() -> str:
        try:
            async with asyncio.timeout(0.01):
                return str(await interrupt({"type": "q"}))
        except TimeoutError:
            return "timed out"

    local = LocalTurn(lambda ask: PENDING)
    assert await local.run(agent) == "timed out"
    journal = local.port.journal
    ask = next(entry for entry in journal if entry["entry"] == "ask")
    timer = next(entry for entry in journal if entry["entry"] == "timer")
    answer = {"at": timer["at"], "entry": "answer", "interrupt_id": ask["interrupt_id"], "value": "answered"}
    assert (await replayed(agent, [journal[0], ask, answer]))[0] == "answered"
    assert (await replayed(agent, [journal[0], ask, timer, answer]))[0] == "timed out"
    assert (await replayed(agent, [journal[0], ask, answer, timer]))[0] == "answered"


@pytest.mark.parametrize(("delay", "least"), [(5.0, 5.0), (3600.0, 30.0)])
async def test_a_timer_that_is_long_overdue_after_a_replay_leaves_time_to_answer(delay: float, least: float) -> None:
    async def agent() -> Any:
        async with asyncio.timeout(delay):
            return await interrupt({"type": "q"})

    local = LocalTurn(lambda ask: PENDING)
    task = local.start(agent)
    await until_waiting(local)
    long_ago = [{**entry, "at": entry["at"] - 10**8} for entry in local.port.journal]
    task.cancel()
    await local.end()
    again = LocalTurn(journal=long_ago)
    began = again.turn.order.schedule.time()
    task = again.start(agent)
    await until_waiting(again)
    [timer] = again.turn.order.timers.values()
    assert began + least <= timer.deadline <= again.turn.order.schedule.time() + least
    again.port.interrupts[0].give("in time")
    assert await task == "in time"


async def test_a_timer_that_is_not_due_yet_keeps_its_deadline() -> None:
    async def agent() -> Any:
        async with asyncio.timeout(3600):
            return await interrupt({"type": "q"})

    local = LocalTurn(lambda ask: PENDING)
    began = time.monotonic()
    local.start(agent)
    await until_waiting(local)
    journal = [{**entry, "at": entry["at"] - 600_000} for entry in local.port.journal]
    await local.end()
    again = LocalTurn(journal=journal)
    again.start(agent)
    await until_waiting(again)
    [timer] = again.turn.order.timers.values()
    left = timer.deadline - again.turn.order.schedule.time()
    assert 2999 - (time.monotonic() - began) <= left <= 3001
    await again.end()


async def test_the_turn_says_which_timers_it_waits_for() -> None:
    said: list[Any] = []
    local = LocalTurn(lambda ask: PENDING)
    waiting = local.port.waiting

    def waits(seen: int | None, timers: Any, context: Any = None) -> None:
        said.append(timers)
        waiting(seen, timers, context)

    local.port.waiting = waits  # type: ignore[method-assign]

    async def agent() -> Any:
        async with asyncio.timeout(3600):
            return await interrupt({"type": "q"})

    began = time.time()
    task = local.start(agent)
    await until_waiting(local)
    [[timer]] = said
    assert timer["path"] == "0@1"
    assert began - 1 <= timer["due"] / 1000 - 3600 <= time.time() + 1
    local.port.interrupts[0].give(1)
    await task


@pytest.mark.parametrize("delay", [math.inf, 1e16, 1e300, 1e308])
async def test_a_timer_that_never_fires_is_due_at_the_end_of_the_calendar(delay: float) -> None:
    async def agent() -> Any:
        sleeping = asyncio.ensure_future(asyncio.sleep(delay))
        async with asyncio.timeout(delay):
            answers = [await interrupt({"type": "q", "n": number}) for number in range(2)]
        sleeping.cancel()
        return answers

    def listening(local: LocalTurn) -> list[Any]:
        said: list[Any] = []
        waiting = local.port.waiting

        def waits(seen: int | None, timers: Any, context: Any = None) -> None:
            said.append([timer["due"] for timer in timers])
            waiting(seen, timers, context)

        local.port.waiting = waits  # type: ignore[method-assign]
        return said

    local = LocalTurn(lambda ask: PENDING)
    said = listening(local)
    local.start(agent)
    await until_waiting(local)
    local.port.interrupts[0].give("a")
    await until_waiting(local, 2)
    journal = list(local.port.journal)
    await local.end()
    again = LocalTurn(journal=journal)
    said_again = listening(again)
    task = again.start(agent)
    await until_waiting(again)
    again.port.interrupts[-1].give("b")
    assert await task == ["a", "b"]
    await again.end()
    the_end = [253_402_300_799_999] * 2
    assert (said, said_again) == ([the_end] * 2, [the_end])


async def test_what_goes_wrong_in_saying_that_a_turn_waits_fails_this_turn(capsys: pytest.CaptureFixture[str]) -> None:
    async def agent() -> Any:
        return await interrupt({"type": "q"})

    def waits(seen: int | None, timers: Any, context: Any = None) -> None:
        raise OverflowError("on purpose")

    local = LocalTurn(lambda ask: PENDING)
    local.port.waiting = waits  # type: ignore[method-assign]
    local.start(agent)
    failure = await local.turn.failure
    assert repr(failure) == "OverflowError('on purpose')"
    assert "in waits" in capsys.readouterr().err
    await local.end()


async def test_the_turns_clock_follows_what_it_was_told_last() -> None:
    async def agent() -> Any:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await named("step")
        between = loop.time()
        assert loop.time() == between  # stands still while the agent computes
        return between - before

    local = await recorded(agent)
    journal = [dict(entry) for entry in local.port.journal]
    journal[0]["at"] -= 9_000_000
    journal[1]["at"] -= 9_000_000 - 5_000
    passed, _ = await replayed(agent, journal)
    assert passed == pytest.approx((journal[1]["at"] - journal[0]["at"]) / 1000)


async def test_inside_a_step_that_asks_for_nothing_time_is_only_time() -> None:
    async def body() -> float:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop().time() - began

    async def agent() -> Any:
        return await step(body)

    local = await recorded(agent)
    assert entries(local) == ["start", "step 0#1"]


async def test_a_busy_machine_makes_no_timer_of_a_body_late_before_it_is_set() -> None:
    """Between the look at the clock and the timer that is set by it a machine may do something else for a while."""

    async def tool() -> Any:
        limit = asyncio.timeout(0.001)
        time.sleep(0.01)  # noqa: ASYNC251 - that is what a busy machine does
        try:
            async with limit:
                return await interrupt({"type": "q"})
        except TimeoutError:
            return "timed out"

    async def agent() -> Any:
        return await step(tool)

    local = await recorded(agent, lambda ask: PENDING)
    assert entries(local) == ["start", "ask 0#1/0#1", "timer 0#1/0@1", "withdraw", "step 0#1"]
    assert (await replayed(agent, local.port.journal[:3], lambda ask: PENDING))[0] == "timed out"


async def test_a_timer_that_fired_before_a_body_asked_for_something_fires_before_that_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A replay that is stuck stays so.
    monkeypatch.setattr("hitl.turn.replaying._GRACE_SECONDS", 1000.0)
    monkeypatch.setattr("hitl.turn.replaying._MOST_GRACE_SECONDS", 1000.0)

    async def tool() -> list[Any]:
        seen: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, seen.append, "called")
        await asyncio.sleep(0.02)
        return [*seen, await interrupt({"type": "q"}), *seen]

    async def agent() -> Any:
        return await step(tool)

    first = LocalTurn(lambda ask: PENDING)
    task = first.start(agent)
    await until_waiting(first)
    journal = list(first.port.journal)
    assert [entry["entry"] for entry in journal] == ["start", "wakes", "ask"]
    first.port.interrupts[0].give("a")
    assert await task == ["called", "a", "called"]
    again = LocalTurn(journal=journal)
    task = again.start(agent)
    await until_waiting(again)
    again.port.interrupts[0].give("b")
    assert await task == ["called", "b", "called"]
