"""What is measured: turns that do next to nothing, so that what remains is the cost of the system around them."""

from __future__ import annotations

import asyncio
import time

from hitl import ChatMessage, interrupt, step

State = list[ChatMessage]
Result = tuple[ChatMessage, State]

TIME_TO_CONNECT = 0.02
"""Seconds `clocked` works before each event, so that a long poll waits for it already."""


async def trivial(message: ChatMessage, state: State) -> Result:
    """Answers at once, and forgets, so that the hundredth turn weighs what the first did."""
    return ChatMessage.assistant_message(content="done"), []


async def pair(message: ChatMessage, state: State) -> Result:
    """A step, a question, a step: the job that other systems were measured with."""
    await step(work, 1)
    answer = await interrupt({"type": "question", "prompt": "Go on?"})
    await step(work, 2)
    return ChatMessage.assistant_message(content=str(answer)), []


async def question_or_trivial(message: ChatMessage, state: State) -> Result:
    """`trivial` for that word, else a question."""
    return await (trivial(message, state) if message.content == "trivial" else pair(message, state))


async def work(number: int) -> int:
    return number


async def hanging(message: ChatMessage, state: State) -> Result:
    """Works until it is cancelled."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets this event")


async def clocked(message: ChatMessage, state: State) -> Result:
    """Says when it asked and when it was done, on the clock that all processes of the machine share."""
    await asyncio.sleep(TIME_TO_CONNECT)
    await interrupt({"type": "question", "asked_at": time.monotonic_ns()})
    await asyncio.sleep(TIME_TO_CONNECT)
    return ChatMessage.assistant_message(content=str(time.monotonic_ns())), []


async def long_journal(message: ChatMessage, state: State) -> Result:
    """As many steps as the message says, then a question."""
    for number in range(int(message.content or "0")):
        await step(work, number)
    answer = await interrupt({"type": "question", "prompt": "Go on?"})
    return ChatMessage.assistant_message(content=str(answer)), []


async def large_payload(message: ChatMessage, state: State) -> Result:
    """A question with as many bytes of payload as the message says."""
    size = int(message.content or "0") - len('{"type":"question","text":""}')
    await interrupt({"type": "question", "text": "x" * size})
    return ChatMessage.assistant_message(content="done"), []
