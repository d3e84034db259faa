"""A loop between a model and tools that is nobody's but one's own, with two decorators of hitl.

    hitl serve examples.recipe_loop:agent

Try `clean up`: a person decides about each file by itself. Kill the server with `kill -9` meanwhile: what the model
said is not asked for again, and each file is deleted once.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import hitl
from hitl import ChatMessage

DELETED = Path(os.environ.get("DELETED_FILES", "deleted_files.txt"))


@hitl.step()
async def ask_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What a model says: put your client's call here. This one wants two files deleted."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if results:
        return {"role": "assistant", "content": "\n".join(results)}
    calls = [{"id": path, "name": "delete_file", "args": {"path": path}} for path in ("old.log", "todo.txt")]
    return {"role": "assistant", "calls": calls}


def note(path: str) -> None:
    with DELETED.open("a", encoding="utf-8") as deleted:
        deleted.write(f"{path}\n")


@hitl.requires_approval
async def delete_file(path: str) -> str:
    """Delete a file."""
    await asyncio.to_thread(note, path)
    return f"Deleted {path}."


TOOLS = {"delete_file": delete_file}


async def run_tool(call: dict[str, Any]) -> dict[str, Any]:
    """What comes of a call that the model wants."""
    try:
        content = await TOOLS[call["name"]](**call["args"])
    except hitl.ToolRejected as no:
        content = str(no)
    return {"role": "tool", "id": call["id"], "content": content}


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": message.content}]
    while "calls" in (reply := await ask_model(messages)):
        messages += [reply, *await asyncio.gather(*map(run_tool, reply["calls"]))]
    response = ChatMessage.assistant_message(content=reply["content"])
    return response, [*state, message, response]
