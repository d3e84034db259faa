"""hitl.stream: what happens, while it happens."""

from __future__ import annotations

import asyncio

import pytest

import hitl
from hitl import ChatMessage
from tests.python.runs.support import Files


async def test_it_tells_what_happens_and_then_the_result() -> None:
    files = Files()
    agent = files.agent("/a")
    stream = hitl.stream(agent, "clean up")
    heard = [event async for event in stream]
    types = [event.type for event in heard if event.type != "message.delta"]
    assert types == ["session.running", "message.completed", "interrupt.created", "session.interrupted"]
    [said] = [event.message for event in heard if event.message is not None]
    assert [call["function"]["name"] for call in said["tool_calls"]] == [heard[-2].interrupt.tool_name]
    [asked] = stream.interrupts
    [created] = [event.interrupt for event in heard if event.type == "interrupt.created"]
    assert created == asked

    assert stream.result.state is not None
    stream = hitl.stream(agent, stream.result.state.approve(asked))
    heard = [event async for event in stream]
    types = [event.type for event in heard if event.type != "message.delta"]
    # What was told before is not told again.
    assert types[-4:] == ["tool.started", "tool.finished", "message.completed", "session.idle"]
    assert sum(event.type == "message.completed" for event in heard) == 1
    [started, finished] = [event for event in heard if event.tool_name is not None]
    assert (started.tool_call_id, started.data["args"]) == (finished.tool_call_id, asked.tool_args)
    assert "".join(event.delta.get("content", "") for event in heard) == "done"
    assert (stream.result.output, files.deleted) == ("done", ["/a"])


async def test_the_result_is_there_at_the_end_only() -> None:
    stream = hitl.stream(Files().agent("/a"), "clean up")
    with pytest.raises(RuntimeError, match="iterate it first"):
        _ = stream.result


async def test_what_a_run_raises_the_iteration_raises() -> None:
    stream = hitl.stream(Files().agent("/a"), "clean up", context={"x": object()})
    with pytest.raises(TypeError, match="context"):
        [event async for event in stream]


async def test_leaving_the_block_stops_the_run() -> None:
    files = Files()
    async with hitl.stream(files.agent("/a"), "clean up") as stream:
        async for _ in stream:
            break
    assert files.deleted == []


async def forever(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    await asyncio.Event().wait()
    return message, state


async def test_a_stream_that_is_closed_has_an_end_and_no_result() -> None:
    async with hitl.stream(forever, "go") as stream:
        async for _ in stream:
            break
    # Not a CancelledError: whoever asks would be taken for cancelled.
    with pytest.raises(RuntimeError, match="was closed before its run had come to an end"):
        _ = stream.result
    assert [event.type async for event in stream] == []


async def test_a_stream_that_is_closed_before_it_began_begins_no_run() -> None:
    stream = hitl.stream(forever, "go")
    await stream.aclose()
    assert [event.type async for event in stream] == []
    # It said that the stream is to be iterated first.
    with pytest.raises(RuntimeError, match="was closed before its run had come to an end"):
        _ = stream.result


async def test_what_came_before_a_stream_was_closed_is_still_told() -> None:
    stream = hitl.stream(Files().agent("/a"), "clean up")
    first = [event.type async for event in stream]
    await stream.aclose()
    assert (first[-1], stream.result.status) == ("session.interrupted", "interrupted")
