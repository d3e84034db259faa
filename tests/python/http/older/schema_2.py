"""The agent whose sessions are in `schema_2.db.gz`: it deletes what the message names, once a person says yes.

The file was written by the last release with version 2 of the schema, and copied while the server was stopped.
"""

from __future__ import annotations

from hitl import ChatMessage, interrupt, tool
from hitl.errors import ToolRejected


@tool(requires_approval=True)
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    word, _, rest = (message.content or "").partition(" ")
    if word == "fail":
        raise ValueError(rest)
    if word == "ask":
        text = str(await interrupt({"type": "free", "prompt": rest}, expires_in=10**9, metadata={"ticket": 7}))
    elif word == "delete":
        try:
            text = await delete_file.call(path=rest)
        except ToolRejected as error:
            text = str(error)
    else:
        text = rest
    reply = ChatMessage.assistant_message(content=text)
    return reply, [*state, message, reply]
