"""An agent that awaits a thread, and then calls a tool that needs a yes."""

from __future__ import annotations

import asyncio

from hitl import ChatMessage, ReActAgent, tool
from hitl.testing import ScriptedChatClient


@tool(requires_approval=True)
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


_CALL = {"tool_calls": [{"name": "pay", "args": {"cents": 5}}]}
_clerk = ReActAgent(client=ScriptedChatClient([_CALL, {"content": "all paid"}]), tools=[pay])


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    await asyncio.to_thread(str.upper, "any I/O")
    return await _clerk.run_turn(message, state)
