"""What a time limit counts: work. Neither the pause before a next try, nor what was before a retry of the turn."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from hitl import TransientError, interrupt, step
from hitl.turn.stopwatch import limit
from tests.python.support.local import PENDING, Journal, LocalTurn
from tests.python.unit.conditions import rounds, until, until_waiting
from tests.python.unit.crashed import entries, replayed
from tests.python.unit.test_retries import retried, suspended

A_DAY = 86_400


class Clock:
    """The loop's clock and that of the journal, which a test may put forward: timers that are due then fire."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        of_loop, wall, wall_ns = loop.time, time.time, time.time_ns
        self.ahead = 0
        monkeypatch.setattr(loop, "time", lambda: of_loop() + self.ahead)
        monkeypatch.setattr(time, "time", lambda: wall() + self.ahead)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + self.ahead * 1_000_000_000)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Service:
    """Fails with each of `errors`, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "here"


def limited(service: Service, *after: Any, seconds: float = 60.0) -> Any:
    """An agent with a limit: it calls the service, and then what is in `after`, each a step."""
    fetch = step(retries=2)(service)

    async def agent() -> Any:
        async with limit(seconds, "the agent"):
            return [await fetch(), *[await step(each) for each in after]]

    return agent


async def test_a_pause_between_tries_does_not_count(clock: Clock) -> None:
    local = LocalTurn()
    running = local.start(limited(Service(TransientError("away", 100), TransientError("away", 200))))
    for times, pause in ((1, 100), (2, 200)):
        await until_waiting(local, times)
        clock.ahead += pause
        await until(lambda times=times: len(local.port.steps) > times)
    assert await running == ["here"]
    await local.end()


async def test_a_server_that_is_away_in_a_pause_takes_nothing_of_the_limit(clock: Clock) -> None:
    local = LocalTurn()
    agent = limited(Service(TransientError("away", 10)))
    local.start(agent)
    await until_waiting(local)
    journal = list(local.port.journal)
    await local.end()
    clock.ahead += A_DAY

    async def hang() -> None:
        for seconds in (59, 2):
            clock.ahead += seconds
            await rounds()
            spent.append(seconds)
        await asyncio.Event().wait()

    spent: list[int] = []
    again = LocalTurn(journal=journal)
    running = again.start(limited(Service(), hang))
    await until_waiting(again)
    clock.ahead += 10  # the pause is overdue, and so due in as long as it was to last
    with pytest.raises(TimeoutError, match="the agent took longer than 60 s"):
        await running
    assert spent == [59]
    await again.end()


async def test_work_after_a_pause_counts(clock: Clock) -> None:
    async def hang() -> None:
        clock.ahead += 61
        await asyncio.Event().wait()

    local = LocalTurn()
    with pytest.raises(TimeoutError, match="the agent took longer than 60 s"):
        await local.run(limited(Service(TransientError("away", 0.001)), hang))


async def test_a_replay_of_it_goes_the_same_way_wherever_it_was_cut(clock: Clock) -> None:
    async def hang() -> None:
        clock.ahead += clock.ahead + 61  # more than a server was away in the pause, which is added
        await asyncio.Event().wait()

    local = LocalTurn()

    def agent() -> Any:
        return limited(Service(TransientError("away", 0.001)), hang)

    with pytest.raises(TimeoutError):
        await local.run(agent())
    journal = local.port.journal
    assert [entry["entry"] for entry in journal[1:]] == ["step", "timer", "step", "timer", "timer"]
    for cut in range(2, len(journal) + 1):
        with pytest.raises(TimeoutError, match="the agent took longer than 60 s"):
            await replayed(agent(), journal[:cut])


async def test_a_pause_sets_no_timer_of_the_limit_anew() -> None:
    """As in journals of 0.2: their turns may be suspended under a limit, after the pauses between all tries."""
    local = LocalTurn()
    await local.run(limited(Service(TransientError("away", 0.001), TransientError("away", 0.001))))
    assert [entry for entry in entries(local) if "timer" in entry] == ["timer 0@2", "timer 0@3"]


async def test_a_retry_grants_the_whole_time_again(clock: Clock) -> None:
    spent: list[int] = []

    async def work() -> None:
        for seconds in (31, 45):
            clock.ahead += seconds
            spent.append(seconds)
            await rounds()

    away = [TransientError("away", 0.001) for _ in range(3)]
    journal = (await suspended(limited(Service(*away), work))).port.journal
    clock.ahead += A_DAY
    value, again = await replayed(limited(Service(), work), retried(journal))
    assert (value, spent) == (["here", None], [31, 45])
    # And it replays exactly, with what was granted in the middle of its journal.
    assert (await replayed(limited(Service(), work), again.port.journal))[0] == ["here", None]


async def test_and_no_more_than_that(clock: Clock) -> None:
    async def hang() -> None:
        for seconds in (31, 61):
            clock.ahead += seconds
            await rounds()
        await asyncio.Event().wait()

    journal: Journal = retried((await suspended(limited(Service(*[TransientError("away", 0.001)] * 3)))).port.journal)
    clock.ahead += A_DAY
    with pytest.raises(TimeoutError, match="the agent took longer than 60 s"):
        await replayed(limited(Service(), hang), journal)


async def test_a_crash_is_no_retry(clock: Clock) -> None:
    """What is overdue by then has half a minute."""

    async def hang() -> None:
        clock.ahead += 31
        await asyncio.Event().wait()

    local = LocalTurn()
    local.start(limited(Service(), lambda: asyncio.sleep(1000)))
    await until(lambda: local.port.steps)
    journal = list(local.port.journal)
    await local.end()
    clock.ahead += A_DAY
    with pytest.raises(TimeoutError, match="the agent took longer than 60 s"):
        await replayed(limited(Service(), hang), journal)


async def test_a_person_who_is_asked_after_a_crash_takes_nothing_of_the_half_minute(clock: Clock) -> None:
    async def work() -> str:
        clock.ahead += 20
        await rounds()
        return "done"

    async def agent() -> Any:
        async with limit(60.0, "the agent"):
            return [await step(Service()), await step(Service()), await interrupt({"type": "q"}), await step(work)]

    local = LocalTurn(lambda ask: PENDING)
    local.start(agent)
    await until_waiting(local)
    journal = local.port.journal[:2]
    assert [entry["entry"] for entry in journal] == ["start", "step"]
    await local.end()
    clock.ahead += A_DAY
    again = LocalTurn(lambda ask: PENDING, journal=journal)
    running = again.start(agent)
    await until_waiting(again)
    (asked,) = again.port.interrupts
    asked.give("yes")
    assert await running == ["here", "here", "yes", "done"]
    await again.end()


async def test_a_person_is_asked_in_a_pause_that_is_longer_than_the_limit(clock: Clock) -> None:
    """Two things at once: neither takes anything of the time."""

    async def agent() -> Any:
        async with limit(60.0, "the agent"):
            tried = asyncio.create_task(step(retries=1)(Service(TransientError("away", 100)))())
            await asyncio.sleep(70)
            said = await interrupt({"type": "q"})
            return [said, await tried, await step(work)]

    async def work() -> str:
        clock.ahead += 20
        await rounds()
        return "done"

    local = LocalTurn(lambda ask: PENDING)
    running = local.start(agent)
    await until_waiting(local)
    clock.ahead += 71
    await until(lambda: local.port.interrupts)
    clock.ahead += 1000
    await until(lambda: len(local.port.steps) > 1)
    local.port.interrupts[0].give("yes")
    assert await running == ["yes", "here", "done"]
    await local.end()
