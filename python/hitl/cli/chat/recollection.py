"""What was said in a session before this chat came to it: nobody can answer what they know nothing about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hitl.cli.text import exact_json
from hitl.client import AsyncClient, JournalEntry, Session
from hitl.client.errors import ApiError
from hitl.messages import ChatMessage, Role

ENTRIES = 1000
"""As much of a journal as the server gives at once."""


async def said_before(client: AsyncClient, session: Session) -> Sequence[ChatMessage]:
    """The session's messages and, of a turn that is not over or has failed, what its journal has of it."""
    # First these: a turn's own messages come when it ends, and are in its journal until then.
    messages = await client.get_messages(session.session_id)
    if session.status == "idle":
        return messages
    try:
        return [*messages, *await _said_in_the_turn(client, session.session_id)]
    except ApiError:
        # It is gone, or not for this key: then the messages have to do.
        return messages


async def _said_in_the_turn(client: AsyncClient, session_id: str) -> Sequence[ChatMessage]:
    """All of it: the oldest come first, and what somebody goes on from is the newest."""
    said: list[ChatMessage] = []
    cursor: str | None = None
    while True:
        page = await client.get_journal(session_id, limit=ENTRIES, cursor=cursor)
        said += (message for entry in page if (message := _message_in(entry)) is not None)
        cursor = page.next_cursor
        if cursor is None:
            return said


def _message_in(entry: JournalEntry) -> ChatMessage | None:
    if entry.entry == "start":
        return _of_words("user", entry.raw.get("message"))
    if entry.entry != "step":
        return None
    if entry.kind == "tool":
        result = entry.result if isinstance(entry.result, str) else exact_json(entry.result)
        return ChatMessage(role="tool", name=entry.name, content=entry.error or result)
    if entry.kind == "model" and isinstance(entry.result, Mapping):  # the beginning of a long one is no message
        return _of_words("assistant", entry.result.get("message"))
    return None


def _of_words(role: Role, message: Any) -> ChatMessage | None:
    """A message as far as it is words: its files are not read again only to be named."""
    content = message.get("content") if isinstance(message, Mapping) else None
    return ChatMessage(role=role, content=content) if isinstance(content, str) else None
