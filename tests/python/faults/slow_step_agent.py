"""An agent whose step ends when the test lets it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import hitl
from hitl import ChatMessage


def work(place: str) -> str:
    """Leave a line in `<place>.ran` each time that it runs, and end when there is `<place>.go`."""
    with Path(f"{place}.ran").open("a") as ran:
        ran.write("ran\n")
    while not Path(f"{place}.go").exists():
        time.sleep(0.005)
    return "worked"


@hitl.step(once=True)
def work_once(place: str) -> str:
    """The same, which must not run a second time."""
    return work(place)


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """The message is `{"place": path, "once": whether the step is}`, or `null` for a question."""
    order = json.loads(message.content or "")
    if order is None:
        said = await hitl.interrupt({"type": "free", "question": "go on?"})
    elif order["once"]:
        said = await work_once(order["place"])
    else:
        said = await hitl.step(work, order["place"])
    return ChatMessage.assistant_message(content=str(said)), state
