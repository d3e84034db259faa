"""Sessions of the SDK in a turn: what is read of one and written to it are steps."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from agents.memory import OpenAIConversationsSession, SessionABC
from pydantic_core import to_jsonable_python

from hitl.ext.openai_agents import seams
from hitl.ext.openai_agents.memory import memory_of, step_path
from hitl.ext.openai_agents.messages import Item, prompt_of, to_chat
from hitl.ext.openai_agents.models import with_notes
from hitl.messages import ChatMessage, ToolCall
from hitl.turn.runtime import current_turn

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_OF_ONE_PROCESS: Final = (
    "_add_items_with_generation",
    "_get_items_with_generation",
    "_defer_compaction",
    "_get_deferred_compaction_response_id",
)
"""By which a session that compacts its items knows, where it has them in memory, what became of them since."""


class JournaledSession(SessionABC):
    """A session of the SDK. What a turn has read of it stays as it was read, whatever is written there meanwhile."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ONE_PROCESS:
            raise AttributeError(name)
        found = getattr(self._session, name)
        return self._compact if name == "run_compaction" else found

    async def _compact(self, args: Any = None, *, wrapper: Any = None) -> None:
        """As the SDK has a session do that compacts its items once a run has ended."""
        compact = self._session.run_compaction
        told = {"wrapper": wrapper} if seams.takes_wrapper(compact) else {}
        # Older versions have done it without a step.
        await self._step("run_compaction", args, told=told, past=None, is_edit=True, by_any_code=True)

    @property
    def session_id(self) -> str:  # type: ignore[override]
        """That of the session."""
        own: str = self._session.session_id
        return own

    @property
    def session_settings(self) -> Any:  # type: ignore[override]
        """Those of the session."""
        return getattr(self._session, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest items, as they were when the turn asked first."""
        items: list[Any] = await self._step("get_items", limit)
        return items

    async def add_items(self, items: list[Any]) -> None:
        """Add items: once, but for a crash in the middle; and what the model is told beside them."""
        await self._step("add_items", with_notes(items, memory_of(current_turn()).notes, step_path()))

    async def pop_item(self) -> Any:
        """Take the newest item away."""
        return await self._step("pop_item")

    async def clear_session(self) -> None:
        """Take all items away."""
        await self._step("clear_session")

    async def _step(self, method: str, *arguments: Any, told: Mapping[str, Any] = _NOTHING, **options: Any) -> Any:
        async def body() -> Any:
            # With what only the SDK knows of an item left out, as it is where it is stored.
            return to_jsonable_python(await getattr(self._session, method)(*arguments, **told), by_alias=True)

        return await current_turn().run_step(
            "step", f"session.{method}", body, key=f"session:{self.session_id}:{method}", **options
        )


class _JournaledConversation(JournaledSession, OpenAIConversationsSession):  # type: ignore[override]
    """A conversation at OpenAI, whose items the SDK writes otherwise. Where there is none yet, it is begun once."""

    _is_begun = False

    async def _step(self, method: str, *arguments: Any, **options: Any) -> Any:
        if not self._is_begun:
            begun: str | None = await current_turn().run_step(
                "step",
                "session.begin",
                lambda: seams.begin_conversation(self._session),
                key="session:begin",
                past=None,  # before, it had to be there
                is_edit=True,
                by_any_code=True,
            )
            if begun is not None:
                self._session.session_id = begun
        made = await super()._step(method, *arguments, **options)
        self._is_begun = method != "clear_session"
        if not self._is_begun:
            self._session.session_id = None
        return made


def journaled(session: Any) -> JournaledSession:
    """The session, as runs in a turn use it."""
    if isinstance(session, JournaledSession):
        return session
    is_at_openai = isinstance(session, OpenAIConversationsSession)
    return _JournaledConversation(session) if is_at_openai else JournaledSession(session)


async def without_known(told: Sequence[ChatMessage], session: Any) -> list[ChatMessage]:
    """What of this a session of the SDK does not have: a turn writes to it after each round, and what is given up of a
    turn stays there.

    A reply is told as a whole, with what came of its calls, or not at all. What other turns have written is no part of
    this, however alike it is: there are models that give the calls of each turn the same ids.
    """
    if not told:
        return []
    kept: list[Item] = await journaled(session).get_items()
    answered = {message.tool_call_id for message in to_chat(kept) if message.role == "tool"}
    items = _given_up(kept, told)
    known = [item for item in items if item.get("role") == "user"]
    for message in to_chat(items):
        known += [] if message.role == "user" else _marks(message)
    unknown: list[ChatMessage] = []
    for group in _replies(told):
        marks = [mark for message in group for mark in _marks(message)]
        if not marks or not _take(marks, known):
            unknown += _with_own_ids(group, answered)
    return unknown


def _with_own_ids(reply: list[ChatMessage], taken: set[str | None]) -> list[ChatMessage]:
    """A reply whose calls have ids that nothing else has: of what has the same, the SDK leaves the newest alone."""
    new: dict[str | None, str] = {}
    for call in reply[0].tool_calls or ():
        made = call["id"]
        while made in taken:
            made += "_"
        new[call["id"]] = made
        taken.add(made)
    first, *results = reply
    calls: list[ToolCall] = [{**call, "id": new[call["id"]]} for call in first.tool_calls or ()]
    renamed = [replace(each, tool_call_id=new[each.tool_call_id]) for each in results]
    return [replace(first, tool_calls=calls) if calls else first, *renamed]


def _given_up(items: list[Item], told: Sequence[ChatMessage]) -> list[Item]:
    """The end of a session, from where the first of these turns has begun there; empty where none has."""
    least = max((at for at, item in enumerate(items, 1) if _is_end(item, items[at : at + 1])), default=0)
    begin = len(items)
    for message in reversed(told):
        if message.role == "user":
            prompt, end = prompt_of(message), begin
            begin = max((at for at in range(least, end) if _is_prompt(items[at], prompt)), default=end)
    return items[begin:]


def _is_end(item: Item, after: list[Item]) -> bool:
    """Whether a turn came to its end with it."""
    return item.get("role") == "assistant" and (not after or after[0].get("role") == "user")


def _is_prompt(item: Item, prompt: Item) -> bool:
    said, wanted = item.get("content"), prompt["content"]
    if item.get("role") != "user" or said == wanted:
        return item == prompt
    # That something is left out may be said at its end.
    return isinstance(said, str) and isinstance(wanted, str) and wanted.startswith(f"{said}\n\n[")


def _replies(told: Sequence[ChatMessage]) -> Iterator[list[ChatMessage]]:
    """What is told in parts of which each is known as a whole: a message, and the results of its calls."""
    begins = [at for at, message in enumerate(told) if message.role != "tool"]
    for begin, end in itertools.pairwise([*begins, len(told)]):
        yield list(told[begin:end])


def _marks(message: ChatMessage) -> list[Any]:
    """What a message is known again by."""
    if message.role == "user":
        return [prompt_of(message)]
    if message.role == "tool":
        return [("result", message.tool_call_id)]
    functions = [(call["id"], call["function"]) for call in message.tool_calls or ()]
    return [("call", call_id, function["name"], _read(function["arguments"])) for call_id, function in functions]


def _read(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _take(wanted: list[Any], known: list[Any]) -> bool:
    """Whether all of this is known. Then it is taken away: it stands for nothing else that looks the same."""
    left = list(known)
    for each in wanted:
        if each not in left:
            return False
        left.remove(each)
    known[:] = left
    return True
