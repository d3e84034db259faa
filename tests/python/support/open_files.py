"""An agent that tells how many files its worker, and a program that it starts, may have open."""

from __future__ import annotations

import json
import resource
import subprocess

import hitl
from hitl import ChatMessage


def limits() -> list[int]:
    child = subprocess.run(["sh", "-c", "ulimit -Sn"], capture_output=True, text=True, check=True)
    return [resource.getrlimit(resource.RLIMIT_NOFILE)[0], int(child.stdout)]


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    reply = ChatMessage.assistant_message(content=json.dumps(await hitl.step(limits)))
    return reply, [*state, message, reply]
