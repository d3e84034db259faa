"""What a program without an event loop has in the place of what is awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import hitl
from hitl import ChatMessage, ErrorResult, IdleResult, InterruptedResult, RunState, Store
from tests.python.runs.support import Files

FAILS = 60.0
"""Seconds after which a thread that hangs has hung."""


def test_a_stream_tells_what_happens_and_then_the_result() -> None:
    files = Files()
    agent = files.agent("/a")
    stream = hitl.stream_sync(agent, "clean up")
    heard = [event.type for event in stream if event.type != "message.delta"]
    assert heard == ["session.running", "message.completed", "interrupt.created", "session.interrupted"]
    assert list(stream) == []
    result = stream.result
    assert result.status == "interrupted"

    stream = hitl.stream_sync(agent, result.state.approve(stream.interrupts[0]))
    assert "".join(event.delta.get("content", "") for event in stream) == "done"
    assert (stream.result.output, files.deleted) == ("done", ["/a"])


def test_a_stream_raises_what_a_run_raises() -> None:
    stream = hitl.stream_sync(Files().agent("/a"), "clean up", context={"x": object()})
    with pytest.raises(TypeError, match="context"):
        list(stream)


def test_leaving_the_block_of_a_stream_stops_the_run() -> None:
    stopped: list[bool] = []

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append(True)
            raise
        return message, state

    with hitl.stream_sync(agent, "go") as stream:
        assert next(stream).type == "session.running"
        with pytest.raises(RuntimeError, match="iterate it first"):
            _ = stream.result
    assert stopped == [True]
    with pytest.raises(RuntimeError, match="was closed before its run had come to an end"):
        _ = stream.result


def test_a_store_is_opened_and_closed(tmp_path: Path) -> None:
    files = Files()
    agent = files.agent("/a")
    with Store(tmp_path / "runs.db") as store:
        assert (tmp_path / "runs.db").exists()
        assert hitl.run_sync(agent, "clean up", store=store, session="ann").status == "interrupted"
        state = RunState.from_store_sync(agent, store, "ann")
        assert state is not None
        assert RunState.from_store_sync(agent, store, "ben") is None
        assert hitl.run_sync(agent, state.approve(state.interrupts[0])).output == "done"
        assert RunState.from_store_sync(agent, store, "ann") is None
    assert files.deleted == ["/a"]
    with pytest.raises(ValueError, match="closed"):
        hitl.run_sync(agent, "again", store=store)
    store.close_sync()  # twice does nothing


def test_a_thread_that_ends_does_not_wait_for_what_its_agent_left_in_an_executor() -> None:
    release = threading.Event()

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        asyncio.get_running_loop().run_in_executor(None, release.wait)
        return message, state

    thread = threading.Thread(target=hitl.run_sync, args=(agent, "go"))
    thread.start()
    try:
        thread.join(FAILS)
        assert not thread.is_alive()
    finally:
        release.set()


def test_a_state_from_a_store_takes_a_context(tmp_path: Path) -> None:
    agent = Files().agent("/a")
    hitl.run_sync(agent, "clean up", store=tmp_path / "runs.db", session="ann", context={"user": "ann", "limit": 3})

    def context(**given: object) -> object:
        state = RunState.from_store_sync(agent, tmp_path / "runs.db", "ann", **given)  # type: ignore[arg-type]
        assert state is not None
        return state.context

    assert context() == {"user": "ann", "limit": 3}
    assert context(context={"limit": 5}) == {"user": "ann", "limit": 5}
    assert context(context={"limit": 5}, context_strategy="replace") == {"limit": 5}


@pytest.mark.parametrize(
    ("blocks", "instead"),
    [
        (lambda: hitl.run_sync(Files().agent("/a"), "hello"), "await hitl.run"),
        (lambda: hitl.stream_sync(Files().agent("/a"), "hello"), r"hitl\.stream\("),
        (lambda: RunState.from_store_sync(Files().agent("/a"), "memory", "ann"), "await RunState.from_store"),
        (lambda: Store().__enter__(), "async with Store"),
        (lambda: Store().close_sync(), "await store.close"),
    ],
)
async def test_on_a_loop_each_names_what_to_write_there(blocks: Callable[[], object], instead: str) -> None:
    with pytest.raises(RuntimeError, match=f"would block the event loop; use: {instead}"):
        blocks()


def test_a_stream_that_was_made_without_a_loop_is_not_read_on_one() -> None:
    stream = hitl.stream_sync(Files().agent("/a"), "clean up")

    async def read() -> None:
        with pytest.raises(RuntimeError, match="would block the event loop"):
            next(stream)

    asyncio.run(read())


def test_each_status_has_its_class() -> None:
    files = Files()
    agent = files.agent("/a")
    waiting = hitl.run_sync(agent, "clean up")
    assert isinstance(waiting, InterruptedResult)
    assert isinstance(hitl.run_sync(agent, waiting.state.approve(waiting.interrupts[0])), IdleResult)

    def fails(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        raise OSError("no disk")

    failed = hitl.run_sync(fails, "go")
    assert isinstance(failed, ErrorResult)
    assert (failed.error, failed.output) == ("OSError: no disk", None)
    assert all(isinstance(result, hitl.RunResult) for result in (waiting, failed))


def test_an_answer_without_text_is_an_empty_output() -> None:
    def silent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        return ChatMessage.assistant_message(), state

    assert hitl.run_sync(silent, "go").output == ""
