"""hitl/turn/order.py: one thing at a time is told to a turn, and between two of them all that follows has happened."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hitl import interrupt, step
from hitl.errors import HitlError, ReplayMismatch
from hitl.journal.codec import fingerprint
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import LONG, rounds, until_waiting
from tests.python.unit.crashed import entries, recorded, replayed
from tests.python.unit.plain_steps import named

# -- one thing at a time --------------------------------------------------------------------------------------------


async def test_what_follows_from_a_result_happens_before_the_next_result() -> None:
    local = LocalTurn()
    committed: list[Any] = []
    local.port.tell = committed.append  # type: ignore[method-assign]
    seen = []

    async def branch(name: str) -> None:
        await named(name)
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append(name)
        seen.append(f"after {name}")

    async def agent() -> None:
        await asyncio.gather(branch("a"), branch("b"))

    task = local.start(agent)
    while len(committed) < 2:
        await asyncio.sleep(0)
    for tell in committed:  # both at once, as a server that commits them together says it
        tell(local.turn.order)
    await task
    assert seen == ["a", "after a", "b", "after b"]


async def test_results_come_in_the_order_of_the_journal_whatever_the_replay_would_be_ready_for_first() -> None:
    order: list[str] = []
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    async def branch(name: str, body: Any) -> None:
        await step(body)
        order.append(name)

    async def release() -> None:
        gate.set()

    async def agent() -> list[str]:
        order.clear()
        await asyncio.gather(branch("slow", wait), branch("fast", release))
        return list(order)

    first = await recorded(agent)
    assert order == ["fast", "slow"]
    assert entries(first) == ["start", "step 0.2#1", "step 0.1#1"]
    assert (await replayed(agent, first.port.journal))[0] == ["fast", "slow"]


async def test_an_answer_is_told_while_a_step_is_at_work() -> None:
    local = LocalTurn(lambda ask: "yes")
    release, answered = asyncio.Event(), asyncio.Event()

    async def ask() -> None:
        await interrupt({"type": "q"})
        answered.set()

    async def agent() -> None:
        await asyncio.gather(ask(), step(release.wait))

    task = local.start(agent)
    await asyncio.wait_for(answered.wait(), LONG)
    release.set()
    await task


# -- sets of tasks --------------------------------------------------------------------------------------------------


async def test_sets_of_tasks_iterate_in_a_replay_as_they_did() -> None:
    async def agent() -> list[Any]:
        tasks = [asyncio.create_task(named(f"step {number}", number)) for number in range(20)]
        done, _ = await asyncio.wait(tasks)
        seen = [task.result() for task in done]
        first, rest = await asyncio.wait(
            [asyncio.create_task(named(f"more {number}", number)) for number in range(9)],
            return_when=asyncio.FIRST_COMPLETED,
        )
        seen += [task.result() for task in first]
        for task in rest:
            seen.append(await task)
        return seen

    local = LocalTurn()
    seen = await local.run(agent)
    await local.end()
    for cut in range(2, len(local.port.journal) + 1):
        assert (await replayed(agent, local.port.journal[:cut]))[0][:20] == seen[:20]
    assert (await replayed(agent, local.port.journal))[0] == seen


async def test_as_completed_takes_bare_coroutines_in_the_order_of_its_argument() -> None:
    local = LocalTurn()

    async def agent() -> None:
        for next_one in asyncio.as_completed([named(str(number)) for number in range(12)]):
            await next_one

    await local.run(agent)
    paths = {step["name"]: step["path"] for step, _ in local.port.steps}
    assert paths == {str(number): f"0.{number + 1}#1" for number in range(12)}


async def test_wait_for_runs_in_the_callers_own_task() -> None:
    local = LocalTurn()

    async def agent() -> None:
        await asyncio.wait_for(named("inside"), 10)
        await named("after")

    await local.run(agent)
    assert local.port.paths() == ["0#1", "0#2"]


# -- what wakes a turn from outside the journal -----------------------------------------------------------------------


@asynccontextmanager
async def echo() -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Something outside that answers: what is given is awaited in the agent, and waits for a socket."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)

    async def serve() -> None:
        while data := await loop.sock_recv(theirs, 1):
            await loop.sock_sendall(theirs, data)

    async def call() -> str:
        await loop.sock_sendall(ours, b"x")
        return (await loop.sock_recv(ours, 1)).decode()

    serving = asyncio.create_task(serve())
    try:
        yield call
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        ours.close()
        theirs.close()


async def test_raw_io_leaves_a_mark_and_the_first_place_where_it_happened() -> None:
    async with echo() as call:

        async def agent() -> Any:
            before = await named("before", 1)
            data = await call() + await call()
            return [before, data, await named("after", 2)]

        first = await recorded(agent)
        marks = [wake for entry in first.port.journal if entry["entry"] == "wakes" for wake in entry["wakes"]]
        assert {(mark["after"], mark["task"]) for mark in marks} == {(1, "0")}
        assert marks[0]["location"].startswith("test_order.py:")
        assert not any(mark.get("location") for mark in marks[1:])
        assert not first.turn.order.is_pure
        for cut in range(2, len(first.port.journal) + 1):
            value, _ = await replayed(agent, first.port.journal[:cut])
            assert value == [1, "xx", 2]


async def test_a_turn_without_raw_io_leaves_none() -> None:
    async def agent() -> None:
        await asyncio.gather(named("a"), asyncio.sleep(0))
        async with asyncio.timeout(10):
            await interrupt({"type": "q"})

    local = await recorded(agent, lambda ask: 1)
    assert local.turn.order.is_pure
    assert "wakes" not in entries(local)


async def test_a_turn_that_waits_for_a_socket_does_not_say_that_it_only_waits_for_people() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    local = LocalTurn(lambda ask: PENDING)

    async def agent() -> None:
        await asyncio.gather(interrupt({"type": "q"}), asyncio.get_running_loop().sock_recv(ours, 1))

    with ours, theirs:
        task = local.start(agent)
        await rounds()
        assert local.port.waits == 0
        theirs.send(b"x")
        await until_waiting(local)
        local.port.interrupts[0].give(1)
        await task


# -- polling --------------------------------------------------------------------------------------------------------


async def test_polling_without_end_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl.turn.order._MOST_CALLBACKS", 1000)

    async def agent() -> None:
        task = asyncio.create_task(named("slow"))
        while not task.done():  # its result is told when nothing of the turn runs: never
            await asyncio.sleep(0)

    with pytest.raises(HitlError, match="must wait for an event") as caught:
        await LocalTurn().run(agent)
    assert caught.value.code == "endless_polling"


async def test_polling_that_ends_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl.turn.order._MOST_CALLBACKS", 1000)

    async def agent() -> str:
        for _ in range(5):
            for _ in range(300):
                await asyncio.sleep(0)
            await named("step")
        return "done"

    assert await LocalTurn().run(agent) == "done"


# -- what nobody waits for any more ---------------------------------------------------------------------------------


async def race() -> Any:
    tasks = [asyncio.create_task(interrupt({"type": name})) for name in ("fast", "slow")]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for loser in rest:
        loser.cancel()
    winner = done.pop().result()
    return [winner, await interrupt({"type": "then"})]


async def test_the_loser_of_a_race_is_withdrawn_live_and_not_again_in_a_replay() -> None:
    def answers(request: Any) -> Any:
        return PENDING if request["type"] == "slow" else request["type"]

    first = await recorded(race, answers)
    assert [entry["entry"] for entry in first.port.journal].count("withdraw") == 1
    value, again = await replayed(race, first.port.journal, answers)
    assert value == ["fast", "then"]
    assert [entry["entry"] for entry in again.port.journal].count("withdraw") == 1


async def test_an_answer_to_what_was_withdrawn_meanwhile_has_the_turn_say_again_that_it_waits() -> None:
    local = LocalTurn(lambda request: PENDING)
    local.start(race)
    await until_waiting(local)
    fast, slow = local.port.interrupts
    fast.give("first")
    # Committed before the turn has heard of the other one, and told after it said that it waits.
    index, at = local.port.append({"entry": "answer", "interrupt_id": slow.id, "value": "too late"})
    await until_waiting(local, 2)
    assert slow.withdrawn
    assert local.port.seen < index  # and so it was not taken for paused
    local.turn.order.answered(slow.id, index, at, {"answer": "too late"})
    await until_waiting(local, 3)
    assert local.port.seen >= index
    await local.end()


async def test_a_withdrawal_that_a_crash_swallowed_is_made_up_for_when_the_replay_is_done() -> None:
    def answers(request: Any) -> Any:
        return PENDING if request["type"] == "slow" else request["type"]

    first = await recorded(race, answers)
    until_answer = next(i for i, entry in enumerate(first.port.journal) if entry["entry"] == "answer") + 1
    cut = max(until_answer, 4)  # both asks and the first answer, no withdrawal
    journal = [entry for entry in first.port.journal[:cut] if entry["entry"] != "withdraw"]
    slow = next(entry for entry in journal if entry.get("step", {}).get("name") == "slow")
    value, again = await replayed(race, journal, answers)
    assert value == ["fast", "then"]
    withdrawn = [entry["interrupt_id"] for entry in again.port.journal if entry["entry"] == "withdraw"]
    assert withdrawn == [slow["interrupt_id"]]


async def test_the_result_of_a_cancelled_step_is_dropped_live_as_in_a_replay() -> None:
    async def agent() -> str:
        try:
            async with asyncio.timeout(0.001):
                await step(asyncio.sleep, 30)
        except TimeoutError:
            return str(await named("after", "timed out"))
        return "finished"

    first = await recorded(agent)
    assert entries(first) == ["start", "timer 0@1", "step 0#2"]
    late = {
        "at": first.port.journal[1]["at"],
        "entry": "step",
        "step": {"path": "0#1", "kind": "step", "name": "sleep", "arguments": {"delay": fingerprint(30)}},
        "result": {"value": None},
    }
    journal = first.port.journal
    for place in (2, 3):
        assert (await replayed(agent, [*journal[:place], late, *journal[place:]]))[0] == "timed out"


# -- what does not fit ----------------------------------------------------------------------------------------------


async def test_a_mismatch_cannot_be_caught_by_the_agent() -> None:
    caught = []

    async def before() -> None:
        await named("one")
        await named("two")

    async def after() -> str:
        await named("one")
        try:
            await named("another")
        except BaseException as error:  # noqa: BLE001 - an agent may well do this
            caught.append(error)
            return "hidden"
        return "no error"

    first = await recorded(before)
    local = LocalTurn(journal=first.port.journal)
    with pytest.raises(ReplayMismatch) as mismatch:
        await local.run(after)
    assert [type(error) for error in caught] == [asyncio.CancelledError]  # from the end of the turn, nothing else
    assert len(local.port.journal) == len(first.port.journal)
    assert 'step "two"' in str(mismatch.value)
    assert 'step "another"' in str(mismatch.value)


async def test_a_step_that_is_not_asked_for_any_more_is_a_mismatch_at_the_latest_when_the_agent_returns() -> None:
    async def before() -> None:
        await named("one")
        await named("two")

    async def after() -> None:
        await named("one")

    first = await recorded(before)
    with pytest.raises(ReplayMismatch, match="the agent returned"):
        await LocalTurn(journal=first.port.journal).run(after)
