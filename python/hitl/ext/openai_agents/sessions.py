"""Sessions of the SDK in a turn: what is read of one and written to it are steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.memory import SessionABC
from pydantic_core import to_jsonable_python

from hitl.ext.openai_agents.messages import prompt_of
from hitl.messages import ChatMessage
from hitl.turn.runtime import current_turn


class JournaledSession(SessionABC):
    """A session of the SDK. What a turn has read of it stays as it was read, whatever is written there meanwhile."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.session_id = session.session_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def session_settings(self) -> Any:  # type: ignore[override]
        """Those of the session."""
        return getattr(self._session, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest items, as they were when the turn asked first."""
        items: list[Any] = await self._step("get_items", limit)
        return items

    async def add_items(self, items: list[Any]) -> None:
        """Add items: once, but for a crash in the middle."""
        await self._step("add_items", items)

    async def pop_item(self) -> Any:
        """Take the newest item away."""
        return await self._step("pop_item")

    async def clear_session(self) -> None:
        """Take all items away."""
        await self._step("clear_session")

    async def _step(self, method: str, *arguments: Any) -> Any:
        async def body() -> Any:
            # With what only the SDK knows of an item left out, as it is where it is stored.
            return to_jsonable_python(await getattr(self._session, method)(*arguments), by_alias=True)

        return await current_turn().run_step(
            "step", f"session.{method}", body, key=f"session:{self.session_id}:{method}"
        )


async def without_known(told: Sequence[ChatMessage], session: Any) -> list[ChatMessage]:
    """What of this a session of the SDK does not have: a turn writes to it after each round, and what is given up of a
    turn stays there."""
    if not told:
        return []
    known = await JournaledSession(session).get_items()
    answered = {item.get("call_id") for item in known if item.get("type") == "function_call_output"}

    def is_known(message: ChatMessage) -> bool:
        if message.role == "user":
            return prompt_of(message) in known
        calls = [call["id"] for call in message.tool_calls or ()]
        return answered.issuperset(calls or [message.tool_call_id])

    return [message for message in told if not is_known(message)]
