"""Runs on the loops of several threads at once."""

from __future__ import annotations

import asyncio
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
