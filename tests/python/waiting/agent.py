"""The agent of every cell of the matrix, importable by workers. Its message is a `Cell`."""

from __future__ import annotations

import json

from hitl import ChatMessage, step
from tests.python.waiting.asks import ASKS
from tests.python.waiting.befores import BEFORES
from tests.python.waiting.ledger import Cell

State = list[ChatMessage]


async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """A step, what was used before, the question, what else is asked of it, and a last step."""
    cell = Cell.of(message.content or "")
    await step(cell.note, "first")
    await step(cell.note_process)
    async with BEFORES[cell.before](cell) as request:
        answers = await ASKS[cell.ask](cell, request)
        await request("echo after")
    await step(cell.note, "last")
    reply = ChatMessage.assistant_message(content=json.dumps(answers))
    return reply, [*state, message, reply]
