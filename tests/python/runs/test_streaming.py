"""hitl.stream: what happens, while it happens."""

from __future__ import annotations

import pytest

import hitl
from tests.python.runs.support import Files


async def test_it_tells_what_happens_and_then_the_result() -> None:
    files = Files()
    agent = files.agent("/a")
    stream = hitl.stream(agent, "clean up")
    heard = [event async for event in stream]
    types = [event.type for event in heard if event.type != "message.delta"]
    assert types == ["session.running", "interrupt.created", "session.interrupted"]
    [asked] = stream.interrupts
    [created] = [event.interrupt for event in heard if event.type == "interrupt.created"]
    assert created == asked

    assert stream.result.state is not None
    stream = hitl.stream(agent, stream.result.state.approve(asked))
    heard = [event async for event in stream]
    assert [event.type for event in heard if event.type != "message.delta"][-1] == "session.idle"
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
