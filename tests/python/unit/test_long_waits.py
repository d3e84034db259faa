"""hitl/turn/holding.py: for how long what a turn waits for may hold it, and a replay of it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from hitl import step
from hitl.turn.replaying import Replaying
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, until, until_waiting
from tests.python.unit.peers import Agent, Peer, ask

pytestmark = pytest.mark.on_every_loop


async def test_between_steps_raw_io_holds_a_turn_for_so_long_and_no_longer(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl.turn.holding._SAID_AFTER", 0.0)

    async def agent() -> None:
        task = asyncio.create_task(peer.listen([]))
        await ask()
        task.cancel()

    local = LocalTurn(lambda _: PENDING, hold=0.05)
    task = local.start(agent)
    await until_waiting(local)
    said = local.port.holders[-1]
    assert [holder["what"] for holder in said][:1] == ["raw I/O"]
    assert str(said[0]["location"]).startswith("peers.py:")
    local.port.interrupts[0].give(1)
    await asyncio.wait_for(task, LONG)
    await local.end()


async def test_without_a_question_nothing_is_cut_short(peer: Peer) -> None:
    async def agent() -> None:
        async with asyncio.timeout(1000):
            await peer.read()

    local = LocalTurn(hold=0.001)
    task = local.start(agent)
    await until(lambda: peer.writers)
    await asyncio.sleep(0.05)  # longer than --hold
    assert local.port.waits == 0
    await peer.answer()
    await asyncio.wait_for(task, LONG)
    await local.end()


async def test_a_thread_of_an_executor_is_never_cut_short() -> None:
    release = threading.Event()
    local = LocalTurn(lambda _: PENDING, hold=0.001)

    async def agent() -> None:
        await asyncio.gather(ask(), asyncio.to_thread(release.wait))

    task = local.start(agent)
    await until(lambda: local.port.interrupts)
    await asyncio.sleep(0.05)  # longer than --hold
    assert local.port.waits == 0
    release.set()
    await until_waiting(local)
    local.port.interrupts[0].give(1)
    await asyncio.wait_for(task, LONG)
    await local.end()


# -- in a replay ------------------------------------------------------------------------------------------------------


async def slow_before_a_question(peer: Peer) -> Any:
    await peer.read()
    return await ask()


async def paused(agent: Agent, peer: Peer) -> list[dict[str, Any]]:
    """The journal of a turn that has asked after raw I/O."""
    local = LocalTurn(lambda _: PENDING)
    task = local.start(agent)
    await peer.answer()
    await until_waiting(local)
    local.turn.park()
    await asyncio.wait([task])
    peer.close()
    return local.port.journal


async def test_raw_io_in_a_replay_may_take_as_long_as_it_takes(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl.turn.replaying._GRACE_SECONDS", 0.0)
    monkeypatch.setattr("hitl.turn.replaying._MOST_GRACE_SECONDS", 0.01)
    monkeypatch.setattr("hitl.turn.holding._REPLAY_SAID_AFTER", 0.0)
    journal = await paused(partial(slow_before_a_question, peer), peer)
    local = LocalTurn(lambda _: PENDING, journal=journal)
    task = local.start(partial(slow_before_a_question, peer))
    await until(lambda: local.port.holders)
    assert local.port.holders[0][0]["what"] == "raw I/O"
    await asyncio.sleep(0.05)  # longer than the grace
    assert not task.done()
    assert not local.turn.failure.done()
    await peer.answer()
    await until_waiting(local)
    local.port.interrupts[0].give("yes")
    assert await asyncio.wait_for(task, LONG) == "yes"
    await local.end()


async def test_a_replay_that_may_not_take_for_ever_ends_with_what_it_waited_for(peer: Peer) -> None:
    journal = await paused(partial(slow_before_a_question, peer), peer)
    local = LocalTurn(lambda _: PENDING, journal=journal, replay_timeout=0.05)
    task = local.start(partial(slow_before_a_question, peer))
    failure = await asyncio.wait_for(local.turn.failure, LONG)
    assert getattr(failure, "code", None) == "replay_timeout"
    assert "raw I/O at peers.py:" in str(failure)
    task.cancel()
    await asyncio.wait([task])


async def test_fewer_wakes_of_an_open_connection_do_not_stop_a_replay(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often a socket wakes its task is not the journal's to say."""
    monkeypatch.setattr("hitl.turn.replaying._GRACE_SECONDS", 0.0)
    monkeypatch.setattr("hitl.turn.replaying._MOST_GRACE_SECONDS", 0.01)

    async def agent() -> Any:
        task = asyncio.create_task(peer.listen(heard))
        value = await ask()
        task.cancel()
        return value

    heard: list[bytes] = []
    local = LocalTurn(lambda _: PENDING, hold=0.05)
    task = local.start(agent)
    await until(lambda: local.port.interrupts)
    for count in range(1, 4):
        await peer.answer()
        await until(lambda count=count: len(heard) == count)
    await until_waiting(local)
    local.turn.park()
    await asyncio.wait([task])
    again = LocalTurn(lambda _: PENDING, journal=local.port.journal, hold=0.05)
    task = again.start(agent)
    await until_waiting(again)
    again.port.interrupts[0].give("yes")
    assert await asyncio.wait_for(task, LONG) == "yes"
    await again.end()


async def test_what_a_replay_waits_in_vain_does_not_add_up(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection woke its task at each of three questions, a long time after the last, and does so no more."""
    monkeypatch.setattr("hitl.turn.replaying._GRACE_SECONDS", 0.0)
    monkeypatch.setattr("hitl.turn.replaying._MOST_GRACE_SECONDS", 0.05)

    async def agent() -> list[Any]:
        task = asyncio.create_task(peer.listen(heard))
        values = [await ask(), await ask(), await ask()]
        task.cancel()
        return values

    heard: list[bytes] = []
    local = LocalTurn(lambda _: PENDING, hold=0.05)
    task = local.start(agent)
    for count in range(1, 4):
        await until(lambda count=count: len(local.port.interrupts) == count)
        await peer.answer()
        await until(lambda count=count: len(heard) == count)
        await until(lambda count=count: local.port.waits >= count)
        if count < 3:
            local.port.interrupts[count - 1].give(count)
    local.turn.park()
    await asyncio.wait([task])
    journal = [{**entry, "at": entry["at"] + 40_000 * index} for index, entry in enumerate(local.port.journal)]
    assert sum(entry["entry"] == "wakes" for entry in journal) == 3
    graces: list[float] = []
    measure = Replaying._grace_seconds

    def measured(self: Replaying) -> float:
        graces.append(measure(self))
        return graces[-1]

    monkeypatch.setattr(Replaying, "_grace_seconds", measured)
    again = LocalTurn(lambda _: PENDING, journal=journal, hold=0.05)
    task = again.start(agent)
    await until_waiting(again)
    again.port.interrupts[0].give(3)
    assert await asyncio.wait_for(task, LONG) == [1, 2, 3]
    await again.end()
    # One that something else ended was not in vain, and another of that length comes after it.
    assert set(graces) == {0.05, 0.0}
    assert graces == sorted(graces, reverse=True)


async def test_what_a_step_waits_for_is_not_held_back_for_a_wake_that_comes_no_more(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that has asked is begun again: what its thread found is no wake of the journal, and has to get through."""
    monkeypatch.setattr("hitl.turn.replaying._GRACE_SECONDS", 0.0)
    monkeypatch.setattr("hitl.turn.replaying._MOST_GRACE_SECONDS", 0.01)

    class Prompt(ThreadPoolExecutor):
        """Done before anybody asks whether it is: the loop's own thread then says so, as a callback of the step."""

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            future = super().submit(*args, **kwargs)
            future.result()
            return future

    async def in_a_thread() -> Any:
        with Prompt(1) as threads:
            await asyncio.get_running_loop().run_in_executor(threads, int)
        return await ask()

    async def agent() -> Any:
        await peer.read()
        return await step(in_a_thread)

    journal = await paused(agent, peer)
    (marks,) = [entry["wakes"] for entry in journal if entry["entry"] == "wakes"]
    assert {mark["task"] for mark in marks} == {"0"}
    marks.append(dict(marks[-1]))  # the connection woke its task once more than it does now
    local = LocalTurn(lambda _: PENDING, journal=journal)
    task = local.start(agent)
    await peer.answer()
    await until_waiting(local)
    local.port.interrupts[0].give("yes")
    assert await asyncio.wait_for(task, LONG) == "yes"
    await local.end()
