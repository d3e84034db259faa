"""`playbook`, in a module that sets up logging when it is imported, and with a play that logs."""

from __future__ import annotations

import logging

from hitl import ChatMessage
from tests.python.support.agents import playbook

logging.basicConfig(level=logging.INFO)


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    logging.getLogger("my_agent").info("begun: %s", message.content)
    return await playbook(message, state)
