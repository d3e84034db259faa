"""Agents that the worker's tests serve in other processes."""

import asyncio
import io
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Annotated, Any

import hitl
from hitl import ChatMessage, TransientError, interrupt, step, tool
from hitl.driver import output
from hitl.models.provider import ModelNotConfigured
from hitl.turn.runtime import current_turn
from hitl.turn.schedule import OUTSIDE

State = list[ChatMessage]


def reply(message: ChatMessage, state: State, content: str) -> tuple[ChatMessage, State]:
    response = ChatMessage.assistant_message(content=content)
    return response, [*state, message, response]


async def echo(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    return reply(message, state, f"{message.content} after {len(state)}")


async def painter(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    shade = await step(lambda: "dark")
    choice = await interrupt({"type": "color_picker", "prompt": message.content})
    return reply(message, state, f"{shade} {choice['hex']}")


def sync_painter(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    return reply(message, state, interrupt.sync({"type": "color_picker"})["hex"])


async def racer(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    asks = [asyncio.ensure_future(interrupt({"type": name})) for name in ("left", "right")]
    done, rest = await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    if message.content == "and go on":
        await step(bool)
    return reply(message, state, done.pop().result())


async def expiring(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    return reply(message, state, await interrupt({"type": "q"}, expires_in=5, on_expire="too late"))


async def streamer(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    async def body() -> str:
        current_turn().delta({"content": "Hel"})
        current_turn().delta({"content": "lo"})
        return "Hello"

    return reply(message, state, await current_turn().run_step("model", "complete", body))


def mute() -> None:
    """What two overlapping `redirect_stderr` leave behind."""
    sys.stderr = io.StringIO()
    sys.stderr.close()


async def misbehaving(message: ChatMessage, state: State) -> Any:  # noqa: RET503 - returning nothing is one way
    """Does what the message names."""

    async def child(error: BaseException) -> None:
        raise error

    match message.content:
        case "raise":
            raise ValueError("no such city")
        case "no key":
            raise ModelNotConfigured("it has no key\n\nhint: set KEY")
        case "away":

            @step(retries=1)
            async def service() -> None:
                raise TransientError("no route", 0.001)

            await service()
        case "exit":
            sys.exit("bye")
        case "exit in a child task":
            await asyncio.create_task(child(SystemExit(4)))
        case "interrupt the keyboard":
            raise KeyboardInterrupt
        case "cancel itself":
            raise asyncio.CancelledError
        case "task group":
            async with asyncio.TaskGroup() as group:
                group.create_task(child(LookupError("inner")))
        case "group":
            raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])
        case "wrong shape":
            return "just text"
        case "surrogate":
            return reply(message, state, "\ud800")
        case "not JSON":
            return ChatMessage.assistant_message(user_params={"f": float("nan")}), state
        case "deep":
            deep: dict[str, Any] = {}
            for _ in range(50_000):
                deep = {"in": deep}
            return ChatMessage.assistant_message(user_params=deep), state
        case "close standard error":
            mute()
            asyncio.get_running_loop().call_soon(lambda: 1 / 0, context=OUTSIDE.copy())
            raise ValueError("heard all the same")
        case "close standard error, and leave what cannot be told":
            mute()
            current_turn().order.records.when_past(lambda: 1 / 0)
            await step(bool)
            return reply(message, state, "went on")
        case "bad payload":
            await interrupt({"type": "q", "data": b"x"})
        case "refused":
            await interrupt({"type": "q"})
        case "os._exit":
            os._exit(9)


async def untidy(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Leaves a task with an open question, and a blocked thread, behind."""
    asking = asyncio.create_task(interrupt({"type": "left behind"}))
    threading.Thread(target=threading.Event().wait).start()
    await step(bool)
    assert not asking.done()
    return reply(message, state, "done")


async def saboteur(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Breaks what the worker does after its return."""
    if message.content == "muted":
        mute()
    output.finish = lambda turn: 1 / 0  # type: ignore[assignment,return-value]
    return reply(message, state, "done")


async def printer(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    print(f"to {message.content}")
    print("half", end="")
    print(" a line")
    sys.stderr.write("warn\nunfinished")
    await current_turn().run_in_thread(print, "from a thread")
    return reply(message, state, "printed")


async def stubborn(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    try:
        await interrupt({"type": "q"})
    finally:
        print("cleaning up", file=sys.stderr, flush=True)
    return reply(message, state, "never")


def blocked(message: ChatMessage, state: State) -> Any:
    step.sync(lambda: None)
    threading.Event().wait()


class Greeter:
    name = "greeter"

    async def run_turn(self, message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        return reply(message, state, f"{await interrupt({'type': 'name'})}")


greeter = Greeter()
named = hitl.agent(name="painter-2", replay=False)(painter)


class Bell:
    """Rings when it is closed."""

    def __init__(self) -> None:
        self.rung = asyncio.get_running_loop().create_future()


bells: list[Bell] = []


@hitl.resources
async def bell() -> AsyncIterator[Bell]:
    bells.append(Bell())
    yield bells[0]
    bells[0].rung.set_result(None)
    await asyncio.sleep(0)  # whoever hears it would run now
    print("closed")


@tool
def hang_up(bell: Annotated[Bell, hitl.Resource]) -> None:
    """Have a bell."""


async def _listen() -> None:
    await bells[0].rung
    print("heard the bell")


@hitl.agent(resources=bell)
async def listener(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    await hang_up.call()
    listening = asyncio.ensure_future(_listen())
    try:
        if message.content == "at work":
            await step(asyncio.Event().wait)
        return reply(message, state, await interrupt({"type": "q"}))
    finally:
        listening.cancel()
        print("left")
