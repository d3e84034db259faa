"""What an agent sees of its caller's context variables."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import hitl
from hitl import ChatMessage, interrupt, step

State = list[ChatMessage]

tenant = contextvars.ContextVar("tenant", default="nobody")


def says(text: str, state: State) -> tuple[ChatMessage, State]:
    return ChatMessage.assistant_message(content=text), state


async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    seen = tenant.get()
    tenant.set("the agent")
    return says(seen, state)


def plain_agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    return says(tenant.get(), state)


async def asks(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    seen = tenant.get()
    await interrupt({"type": "go on?"})
    return says(f"{seen}, {await step(in_a_step)}", state)


async def in_a_step() -> str:
    return tenant.get()


async def test_it_sees_those_of_each_call_and_the_call_none_of_its_own() -> None:
    for name in ("a", "b"):
        tenant.set(name)
        assert (await hitl.run(agent, "hi")).output == name
        assert (await hitl.run(plain_agent, "hi")).output == name
        async for _ in (stream := hitl.stream(agent, "hi")):
            pass
        assert stream.result.output == name
        assert tenant.get() == name


def test_so_it_does_where_the_call_blocks() -> None:
    def both() -> None:
        for name in ("a", "b"):
            tenant.set(name)
            assert hitl.run_sync(agent, "hi").output == name
            assert hitl.run_sync(plain_agent, "hi").output == name
            with hitl.stream_sync(agent, "hi") as stream:
                list(stream)
            assert stream.result.output == name

    contextvars.copy_context().run(both)


async def test_so_it_does_in_a_thread_that_carries_them() -> None:
    tenant.set("a thread's")
    assert (await asyncio.to_thread(hitl.run_sync, agent, "hi")).output == "a thread's"


async def test_a_run_that_goes_on_sees_those_of_whoever_lets_it_go_on() -> None:
    tenant.set("asked")
    paused = await hitl.run(asks, "hi")
    assert paused.state is not None
    tenant.set("answered")
    done = await hitl.run(asks, paused.state.answer(paused.interrupts[0], True))
    assert done.output == "answered, answered"


async def test_a_run_inside_of_a_step_sees_none_of_the_turn_around_it() -> None:
    async def nested() -> Any:
        return (await hitl.run(agent, "hi")).output

    async def outer(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        tenant.set("the turn's")
        return says(await step(nested), state)

    tenant.set("the caller's")
    assert (await hitl.run(outer, "hi")).output == "nobody"
