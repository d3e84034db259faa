"""Runs on other people's loops: many at once, several loops, cancelled ones, closed ones."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

import hitl
from hitl import ChatMessage, RunState, interrupt, step
from hitl.runs.running import run_with
from tests.python.runs.support import Files

State = list[ChatMessage]


async def asks(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    answer = await interrupt({"type": "question", "about": message.content})
    return ChatMessage.assistant_message(content=f"{message.content}: {answer}"), state


async def ask_and_answer(name: str, **options: Any) -> Any:
    paused = await hitl.run(asks, name, **options)
    assert paused.state is not None
    return (await hitl.run(asks, paused.state.answer(paused.interrupts[0], name))).output


@pytest.mark.timeout(600)
async def test_a_thousand_runs_at_once_on_one_loop() -> None:
    names = [f"run {number}" for number in range(1000)]
    outputs = await asyncio.gather(*(ask_and_answer(name) for name in names))
    assert outputs == [f"{name}: {name}" for name in names]


async def test_many_runs_at_once_in_one_store(tmp_path: Path) -> None:
    async with hitl.Store(tmp_path / "runs.db") as store:
        outputs = await asyncio.gather(*(ask_and_answer(str(n), store=store, session=f"s{n}") for n in range(30)))
    assert outputs == [f"{n}: {n}" for n in range(30)]


def test_several_loops_in_several_threads() -> None:
    outputs: list[Any] = []

    def work(name: str) -> None:
        outputs.extend([asyncio.run(ask_and_answer(name)) for _ in range(3)])

    threads = [threading.Thread(target=work, args=(f"thread {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outputs) == sorted(f"thread {n}: thread {n}" for n in range(4) for _ in range(3))


async def races(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Steps, tasks, a timer that loses against a person, raw work of the loop, and one more question."""
    loop = asyncio.get_running_loop()
    first, second = await asyncio.gather(step(asyncio.sleep, 0.001, "a"), step(asyncio.sleep, 0, "b"))
    named = await asyncio.wait_for(interrupt({"about": "name"}), 3600)
    await loop.run_in_executor(None, len, named)
    aged = await interrupt({"about": "age"})
    return ChatMessage.assistant_message(content=f"{first}{second} {named} {aged}"), [*state, message]


async def remembers(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    return ChatMessage.assistant_message(content=", ".join(earlier.content or "" for earlier in state)), state


async def answer_twice(**options: Any) -> str | None:
    paused = await hitl.run(races, "hello", **options)
    assert paused.state is not None
    paused = await hitl.run(races, paused.state.answer(paused.interrupts[0], "Ada"))
    assert paused.state is not None
    return (await hitl.run(races, paused.state.answer(paused.interrupts[0], 36))).output


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_every_loop_replays_alike(run: Any, tmp_path: Path) -> None:
    assert run(answer_twice()) == "ab Ada 36"
    store = tmp_path / "runs.db"
    assert run(answer_twice(store=store, session="s")) == "ab Ada 36"
    # All of it was in the file: the session has nothing open there, and remembers what was said.
    assert run(RunState.from_store(races, store, "s")) is None
    assert run(hitl.run(remembers, "again", store=store, session="s")).output == "hello"


async def test_a_state_goes_from_one_kind_of_loop_to_another() -> None:
    paused = await asyncio.to_thread(uvloop.run, hitl.run(races, "hello"))
    assert paused.state is not None
    paused = await hitl.run(races, paused.state.answer(paused.interrupts[0], "Ada"))
    assert paused.state is not None
    state = paused.state.answer(paused.interrupts[0], 36)
    assert (await asyncio.to_thread(uvloop.run, hitl.run(races, state))).output == "ab Ada 36"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_notebook_runs_its_loop_cell_by_cell(new_loop: Any, tmp_path: Path) -> None:
    loop = new_loop()
    try:
        store = hitl.Store(tmp_path / "runs.db")
        paused = loop.run_until_complete(hitl.run(races, "hello", store=store, session="s"))
        assert loop.run_until_complete(asyncio.sleep(0, "a cell without hitl")) == "a cell without hitl"
        paused = loop.run_until_complete(hitl.run(races, paused.state.answer(paused.interrupts[0], "Ada")))
        again = loop.run_until_complete(RunState.from_store(races, store, "s"))
        done = loop.run_until_complete(hitl.run(races, again.answer(paused.interrupts[0], 36)))
        assert done.output == "ab Ada 36"
        loop.run_until_complete(store.close())
    finally:
        loop.close()


async def test_the_same_state_twice_at_once_without_a_store_is_two_runs() -> None:
    paused = await hitl.run(asks, "hello")
    assert paused.state is not None
    state = paused.state.answer(paused.interrupts[0], 1)
    first, second = await asyncio.gather(hitl.run(asks, state), hitl.run(asks, state))
    assert (first.output, second.output) == ("hello: 1", "hello: 1")


async def test_the_same_state_twice_at_once_with_a_store_is_one_run(tmp_path: Path) -> None:
    files = Files()
    agent = files.agent("/a")
    async with hitl.Store(tmp_path / "runs.db") as store:
        paused = await hitl.run(agent, "clean up", store=store)
        assert paused.state is not None
        state = paused.state.approve(paused.interrupts[0])
        came = await asyncio.gather(*(hitl.run(agent, state) for _ in range(4)), return_exceptions=True)
    assert files.deleted == ["/a"]
    assert sum(isinstance(one, hitl.AlreadyResumed) for one in came) == 3


async def test_a_cancelled_call_cancels_the_agent(tmp_path: Path) -> None:
    seen: list[str] = []
    began = asyncio.Event()

    async def work() -> str:
        seen.append("works")
        began.set()
        try:
            await asyncio.sleep(60 if len(seen) == 1 else 0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return "worked"

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        return ChatMessage.assistant_message(content=await step(work)), state

    async with hitl.Store(tmp_path / "runs.db") as store:
        running = asyncio.create_task(hitl.run(agent, "go", store=store, session="alice"))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert seen == ["works", "cancelled"]
        # As after a crash: the turn is open, and can be taken up again; a message would be lost on it.
        with pytest.raises(hitl.RunInterrupted):
            await hitl.run(agent, "hello?", store=store, session="alice")
        state = await RunState.from_store(agent, store, "alice")
        assert state is not None
        assert (await hitl.run(agent, state)).output == "worked"


async def test_what_a_cancelled_call_has_said_is_in_the_store_when_it_returns(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def work(number: int) -> int:
        began.set()
        return number

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        for number in range(10):
            await step(work, number)
        return ChatMessage.assistant_message(content="done"), []

    async with hitl.Store(tmp_path / "runs.db") as store:
        for rounds in range(20):  # wherever the record of a step is on its way to the file
            began.clear()
            running = asyncio.create_task(hitl.run(agent, "go", store=store, session=str(rounds)))
            await began.wait()
            for _ in range(rounds):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            state = await RunState.from_store(agent, store, str(rounds))
            assert state is not None
            assert (await hitl.run(agent, state)).output == "done"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """A database that another process writes to, and does not come to an end with."""
    program = (
        "import sqlite3, sys; file = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "file.execute('BEGIN IMMEDIATE'); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        yield
        other.communicate()


@pytest.mark.parametrize("limit", [3600, 0], ids=["cancelled twice", "out of patience"])
async def test_a_cancelled_call_does_not_wait_for_a_store_that_hangs(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl.runs.running.COMMIT_SECONDS", limit)
    began, cancelled, unread = asyncio.Event(), asyncio.Event(), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))

    async def work() -> None:
        hang.enter_context(locked(path))
        began.set()

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        try:
            await step(work)
        finally:
            cancelled.set()
        return message, state

    path = tmp_path / "runs.db"
    async with hitl.Store(path) as store:
        await hitl.run(asks, "the store is there", store=store)
        with ExitStack() as hang:
            running = asyncio.create_task(hitl.run(agent, "go", store=store, session="alice"))
            await began.wait()
            for _ in range(10):  # until the record of the step is on its way to the file
                await asyncio.sleep(0)
            running.cancel()
            if limit:
                await cancelled.wait()
                running.cancel()
            await asyncio.wait([running], timeout=4)  # SQLite itself gives up after five seconds
            assert running.done()
            assert running.cancelled()
        state = await RunState.from_store(agent, store, "alice")
        assert state is not None
    assert unread == []


async def test_what_fails_one_run_in_a_round_of_the_loop_is_not_the_others_matter() -> None:
    stopped: list[str] = []

    async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        if message.content != "2":
            return await asks(message, state)
        try:
            await asyncio.gather(asks(message, state), step(asyncio.sleep, 60))
        except asyncio.CancelledError:
            stopped.append("2")
            raise
        return message, state

    def fails(name: str, data: bytes) -> None:
        if name == "interrupt.created":
            raise LookupError("nobody wants to hear of that")

    options: dict[str, Any] = dict.fromkeys(
        ("context", "resources", "settings", "store", "session", "tool_error_formatter")
    )
    options |= {"hold": 60.0, "replay_timeout": 0.0}
    runs = [run_with(agent, str(n), **options, on_event=fails if n == 2 else None) for n in range(5)]
    ended = await asyncio.gather(*runs, return_exceptions=True)
    assert [str(end) for end in ended if isinstance(end, BaseException)] == ["nobody wants to hear of that"]
    assert [end.status for end in ended if isinstance(end, hitl.RunResult)] == ["interrupted"] * 4
    assert stopped == ["2"]


async def test_a_time_limit_around_a_run(tmp_path: Path) -> None:
    async def sleeps(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        await step(asyncio.sleep, 60)
        return message, state

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await hitl.run(sleeps, "go")
    assert await ask_and_answer("afterwards") == "afterwards: afterwards"


async def test_inside_a_turn_a_run_is_refused() -> None:
    async def outer(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        await hitl.run(asks, "inner")
        return message, state

    result = await hitl.run(outer, "go")
    assert result.error is not None
    assert "agent.run_turn" in result.error


async def test_prints_of_an_agent_go_to_the_programs_output(capsys: pytest.CaptureFixture[str]) -> None:
    async def prints(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        print("from the agent")
        return message, state

    await hitl.run(prints, "go")
    assert capsys.readouterr().out == "from the agent\n"


async def test_an_agent_that_cannot_be_replayed_cannot_wait() -> None:
    once = hitl.agent(replay=False)(asks)
    result = await hitl.run(once, "hello")
    assert (result.status, result.error_code) == ("error", "not_replayable")


async def test_a_run_that_waits_for_its_own_timer_is_waited_for() -> None:
    async def sleeps(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        await asyncio.sleep(0.05)
        return ChatMessage.assistant_message(content="slept"), state

    assert (await hitl.run(sleeps, "go")).output == "slept"
