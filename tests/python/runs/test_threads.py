"""Runs on the loops of several threads at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio.to_thread
import pytest
import uvloop

import hitl
from hitl import ChatMessage
from hitl.testing import ScriptedChatClient

FAILS = 60.0
"""Seconds after which a run that does not come back is said not to."""
HOUR = 3600.0


def test_one_agent_and_one_store_serve_several_threads() -> None:
    ran: list[str] = []

    @hitl.tool(requires_approval=True)
    def pay(to: str) -> str:
        ran.append(to)
        return f"paid {to}"

    script = [{"tool_calls": [{"name": "pay", "args": {"to": "ann"}}]}, {"content": "done"}]
    agent = hitl.ReActAgent(client=ScriptedChatClient(script), tools=[pay])
    store = hitl.Store("memory")

    def converse(session: str) -> str | None:
        paused = hitl.run_sync(agent, "pay ann", store=store, session=session)
        assert paused.state is not None
        result = hitl.run_sync(agent, paused.state.approve(paused.interrupts[0]))
        return None if result.response is None else result.response.content

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(converse, "abcdefgh")) == ["done"] * 8
    assert ran == ["ann"] * 8


def asks() -> Any:
    return hitl.interrupt.sync({"about": "name"})


def asks_in_a_step() -> Any:
    return hitl.step.sync(asks)


@hitl.step(key="asking")
def asking() -> Any:
    return asks()


def asks_in_a_decorated_step() -> Any:
    return asking.sync()


def asks_for_approval() -> Any:
    return hitl.approval.sync("greet", {"name": "Ada"}).args["name"]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("work", [asks, asks_in_a_step, asks_in_a_decorated_step, asks_for_approval])
def test_a_run_comes_back_while_a_thread_of_anyio_waits_in_a_hitl_call(run: Any, work: Callable[[], Any]) -> None:
    """However long raw I/O may hold it."""

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        name = await anyio.to_thread.run_sync(work)
        return ChatMessage.assistant_message(content=f"{message.content} {name}"), state

    async def host() -> str | None:
        paused = await asyncio.wait_for(hitl.run(agent, "hello", hold=HOUR), FAILS)
        assert paused.state is not None, paused.error
        (asked,) = paused.interrupts
        state = paused.state.approve(asked) if asked.tool_name else paused.state.answer(asked, "Ada")
        done = await asyncio.wait_for(hitl.run(agent, state, hold=HOUR), FAILS)
        assert done.status == "idle", done.error
        return str(done.output)

    assert run(host()) == "hello Ada"


# -- a thread of a turn that runs a loop of its own --------------------------------------------------------------------


async def other(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Another agent, which a tool runs."""
    await asyncio.sleep(0.001)
    reply = ChatMessage.assistant_message(content=f"other: {await hitl.step(str.upper, message.content or '')}")
    return reply, [*state, message, reply]


def runs_it() -> str | None:
    return hitl.run_sync(other, "hi").output


def runs_it_in_a_loop_of_its_own() -> str | None:
    return asyncio.run(hitl.run(other, "hi")).output


def streams_it() -> str | None:
    with hitl.stream_sync(other, "hi") as stream:
        assert [event.type for event in stream]
    return stream.result.output


def has_another_thread_run_it() -> str | None:
    async def run() -> str | None:
        await asyncio.sleep(0.001)
        return (await hitl.run(other, "hi")).output

    with asyncio.Runner() as runner:
        runner.run(hitl.run(other, "before"))  # so that the loop knows of turns
        thread = threading.Thread(target=runner.get_loop().run_forever)
        thread.start()
        try:
            return asyncio.run_coroutine_threadsafe(run(), runner.get_loop()).result(FAILS)
        finally:
            runner.get_loop().call_soon_threadsafe(runner.get_loop().stop)
            thread.join()


async def tool_that(work: Callable[[], Any]) -> list[str | None]:
    """What the model is told of a tool that asks, does some work in its thread, and asks again."""

    @hitl.tool
    def busy() -> str:
        return f"{asks()} {work()} {asks()}"

    script = [{"tool_calls": [{"name": "busy"}]}, {"content": "done"}]
    agent = hitl.ReActAgent(client=ScriptedChatClient(script), tools=[busy])
    result = await hitl.run(agent, "go")
    while result.state is not None:
        state = result.state.answer(result.interrupts[0], "yes")
        result = await asyncio.wait_for(hitl.run(agent, state), FAILS)
    return [message.content for message in result.messages if message.role == "tool"]


@pytest.mark.parametrize("work", [runs_it, runs_it_in_a_loop_of_its_own, streams_it, has_another_thread_run_it])
async def test_what_runs_there_is_no_part_of_the_turn(work: Callable[[], Any]) -> None:
    assert await tool_that(work) == ["yes other: HI yes"]


@pytest.mark.parametrize(
    "call", [lambda: hitl.step(int), lambda: hitl.interrupt({"about": "name"}), lambda: hitl.now()]
)
async def test_a_hitl_call_that_is_awaited_there_names_its_twin(call: Callable[[], Any]) -> None:
    async def awaited() -> Any:
        return await call()

    async def blocking() -> Any:
        return hitl.step.sync(int)

    [told] = await tool_that(lambda: asyncio.run(blocking()))
    assert "step.sync() would block the event loop of this thread; call it outside of that loop" in (told or "")
    [told] = await tool_that(lambda: asyncio.run(awaited()))
    assert "awaited on another event loop than that of its turn" in (told or "")
    assert "hitl.step.sync" in (told or "")
