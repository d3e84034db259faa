"""An agent whose steps come in the order that EDITED_ORDER gives: an edit without another file."""

from __future__ import annotations

import os

from hitl import ChatMessage, interrupt, step


async def first() -> str:
    return "a"


async def second() -> str:
    return "b"


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    steps = {"a": first, "b": second}
    said = [await step(steps[name]) for name in os.environ["EDITED_ORDER"].split()]
    answer = await interrupt({"type": "question"})
    reply = ChatMessage.assistant_message(content=" ".join([*said, answer]))
    return reply, [*state, message, reply]
