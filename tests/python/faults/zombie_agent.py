"""An agent whose first worker waits where the test stops it; the next one passes by, and asks."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import hitl
from hitl import ChatMessage, interrupt


def tarry(place: str) -> None:
    """Leave the process id, and block until there is a gate; for the first that comes only."""
    try:
        descriptor = os.open(f"{place}.pid", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    os.write(descriptor, f"{os.getpid()}\n".encode())
    os.close(descriptor)
    while not Path(f"{place}.gate").exists():
        time.sleep(0.005)


async def work(place: str, what: str) -> str:
    if what == "step":
        tarry(place)
    return f"{what} by somebody"


@hitl.step(once=True)
async def pay(place: str, what: str) -> str:
    return what


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """The message is `{"place": path, "late": what the first worker says too late}`."""
    order = json.loads(message.content or "")
    place, late = order["place"], order["late"]
    is_first = not Path(f"{place}.pid").exists()
    results = [await hitl.step(work, place, late)]
    if late != "step":
        tarry(place)
    if not is_first or late != "end":
        # A worker that was given up has the same code: what it says fits the journal, and comes too late all the same.
        if late == "intent":
            results.append(await pay(place, late))
        results.append(await interrupt({"type": "question", "late": late}))
        results.append(await hitl.step(work, place, "after"))
    reply = ChatMessage.assistant_message(content=json.dumps(results))
    return reply, [*state, message, reply]
