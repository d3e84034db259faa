"""Turns that nobody sees, run before workers are forked.

What a first turn costs (imports made late, caches of types and of bytecode, memory taken from the system) is paid once
here and not in every child. The agent of these turns is ours: code of the user is not run.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import socket
from typing import Any

from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from hitl.turn.interrupts import interrupt
from hitl.turn.steps import step
from hitl.turn.watching import unwatched
from hitl.worker import loops
from hitl.worker.protocol import Worker

# Python specialises bytecode that has run eight times.
_TIMES = 12

_SECONDS = 30.0
"""A turn takes a millisecond."""


def rehearse() -> None:
    """Run some turns, each on a loop of its own that is closed again, as in a child. Leaves nothing behind but memory.

    RuntimeError when a turn does not come to its end: then no worker's would.
    """
    with unwatched():
        for _ in range(_TIMES):
            # Context variables that are set on the way do not stay.
            contextvars.copy_context().run(_one_turn)


def _one_turn() -> None:
    loop = loops.new_loop()
    try:
        loops.run(loop, _both_ends())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _both_ends() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    worker = Worker(as_agent(_agent), single=True, code="", on_lost=_lost)
    try:
        async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as ends:
            ends.create_task(worker.serve(theirs.detach()))
            ends.create_task(_server(reader, writer))
    except TimeoutError as error:
        raise RuntimeError("a turn of an agent that does nothing does not come to its end") from error
    finally:
        writer.close()


async def _agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    await step(_work, 1)
    answer = await interrupt({"type": "question", "prompt": "Is this a rehearsal?"})
    return ChatMessage.assistant_message(content=str(answer)), [*state, message]


async def _work(number: int) -> int:
    return number


async def _server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What a server says to the one turn."""

    def say(name: str, **members: Any) -> None:
        body = json.dumps({"frame": name, "turn": turn, **members}).encode()
        writer.write(len(body).to_bytes(4, "big") + body)

    turn, entries = "rehearsal", 1
    while True:
        length = int.from_bytes(await reader.readexactly(4), "big")
        frame = json.loads(await reader.readexactly(length))
        match frame["frame"]:
            case "hello":
                start = {"at": 0, "entry": "start", "code": "", "python": ""}
                message = {"role": "user", "content": "go"}
                say("turn", epoch=1, session_id=turn, message=message, state=[message], journal=[start])
            case "step":
                say("ack", call=frame["call"], index=entries, at=0)
                entries += 1
            case "ask":
                say("ack", call=frame["call"], index=entries, at=0, interrupt_id=turn)
                entries += 1
            case "waiting":
                say("answer", index=entries, at=0, interrupt_id=turn, value="yes")
            case "end":
                say("ack", call=frame["call"], index=None)
                return


def _lost(error: Exception | None) -> None:
    raise RuntimeError(f"the channel of a rehearsal is gone: {error}")
