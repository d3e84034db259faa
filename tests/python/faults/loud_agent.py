"""An agent that prints as many lines as it is asked for, each of them long."""

from __future__ import annotations

from hitl import ChatMessage

WIDTH = 8000


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """The message is a number of lines; each begins with its own."""
    for number in range(int(message.content or "")):
        print(f"{number:06}".ljust(WIDTH, "."))
    return ChatMessage.assistant_message(content="printed"), state
