"""An agent whose step ends when the test lets it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import hitl
from hitl import ChatMessage


def say(place: str, what: str) -> None:
    """Leave a line in `<place>.<what>`."""
    with Path(f"{place}.{what}").open("a") as file:
        file.write(f"{what}\n")


def work(place: str) -> str:
    """Leave a line in `<place>.ran` each time that it runs, and end when there is `<place>.go`."""
    say(place, "ran")
    while not Path(f"{place}.go").exists():
        time.sleep(0.005)
    return "worked"


@hitl.step(once=True)
def work_once(place: str) -> str:
    """The same, which must not run a second time."""
    return work(place)


async def ask_beside(place: str) -> list[str]:
    """What it is told while it asks, and a step runs at `place`, as it comes."""
    heard: list[str] = []

    async def ask() -> None:
        heard.append(await hitl.interrupt({"type": "free", "question": "go on?"}))

    async def run() -> None:
        heard.append(await hitl.step(work, place))

    await asyncio.gather(ask(), run())
    return heard


def wait_outside(place: str) -> None:
    """Wait for `<place>.begin` outside of any step, with a line in `<place>.waits` before and in `<place>.came` after:
    as code that is busy, for the end of a sleep has to be in the journal before anything goes on."""
    say(place, "waits")
    while not Path(f"{place}.begin").exists():
        time.sleep(0.005)
    say(place, "came")


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """The message is `{"place": path, "once": whether the step is}`, `null` for a question, or both with `"asks"`; with
    `"waits"` it waits before it begins."""
    order = json.loads(message.content or "")
    if order is not None and order.get("waits"):
        wait_outside(order["place"])
    if order is None:
        said = await hitl.interrupt({"type": "free", "question": "go on?"})
    elif order.get("asks"):
        said = json.dumps(await ask_beside(order["place"]))
    elif order["once"]:
        said = await work_once(order["place"])
    else:
        said = await hitl.step(work, order["place"])
    return ChatMessage.assistant_message(content=str(said)), state
