"""A server whose turns run in its own process: `python -m tests.python.support.quick_server STORE`.

It starts several times faster than `hitl serve`, for tests that start one some hundred times. The store, the engine
and the HTTP side are the same.
"""

from __future__ import annotations

import asyncio
import json
import sys

from hitl import ChatMessage, interrupt
from hitl.serving.server import Server


async def asker(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Asks as many questions at once as the message says, and repeats the answers."""
    answers = await asyncio.gather(*(interrupt({"type": "question"}) for _ in range(int(message.content or "0"))))
    reply = ChatMessage.assistant_message(content=json.dumps(answers))
    return reply, [*state, message, reply]


if __name__ == "__main__":
    with Server(asker, port=0, store=sys.argv[1], allow_custom_ids=True, log_level="warning") as server:
        print(f"served on {server.url}", flush=True)
        server.wait()
