"""Sessions of the OpenAI Agents SDK that conversations are kept in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession, set_tracing_disabled
from agents.memory import OpenAIConversationsSession, OpenAIResponsesCompactionSession

import hitl
from hitl.ext.openai_agents import as_agent
from hitl.ext.openai_agents.sessions import journaled
from hitl.messages import ChatMessage
from tests.python.ext.openai_agents_runs import Says, note_of, payer


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


async def test_that_a_person_changed_a_call_is_told_in_the_turns_after_too(tmp_path: Path) -> None:
    agent = payer([])
    served = as_agent(agent, session=lambda session_id: SQLiteSession("ann", tmp_path / "sessions.db"))
    asked = await hitl.run(served, "go")
    await hitl.run(served, asked.state.edit(asked.interrupts[0], {"cents": 1}))
    seen: list[Any] = agent.model.seen  # type: ignore[union-attr]
    of_turn = list(seen[-1])
    seen.clear()
    await hitl.run(served, "more")
    assert [note_of(item) for item in of_turn].count(True) == 1
    assert [note_of(item) for item in seen[0]] == [False, False, False, True, False, False]


async def test_it_is_told_once_in_a_second_run_of_the_turn(tmp_path: Path) -> None:
    first, second = payer([]), payer([], model=payer([], []).model)
    session = SQLiteSession("ann", tmp_path / "sessions.db")

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        await Runner.run(first, "go", session=session)
        await Runner.run(second, "more", session=session)
        return ChatMessage.assistant_message(content="done"), state

    asked = await hitl.run(agent, "go")
    await hitl.run(agent, asked.state.edit(asked.interrupts[0], {"cents": 1}))
    (items,) = second.model.seen  # type: ignore[union-attr]
    assert [note_of(item) for item in items].count(True) == 1


# -- conversations at OpenAI -------------------------------------------------------------------------------------------


class Conversations:
    """As much of OpenAI's client as its sessions use."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Any]] = {}
        self.made = 0
        self.conversations = self
        self.items = SimpleNamespace(create=self._add, list=self._list)

    async def create(self, **asked: Any) -> Any:
        self.made += 1
        self.kept[f"conv_{self.made}"] = []
        return SimpleNamespace(id=f"conv_{self.made}")

    async def delete(self, conversation_id: str) -> None:
        del self.kept[conversation_id]

    async def _add(self, conversation_id: str, items: list[Any]) -> None:
        self.kept[conversation_id] += items

    async def _list(self, conversation_id: str, order: str) -> AsyncIterator[Any]:
        for item in self.kept[conversation_id][:: 1 if order == "asc" else -1]:
            yield SimpleNamespace(model_dump=lambda item=item, **said: item)


async def test_a_conversation_at_openai_is_begun_once_in_a_turn_and_its_items_have_no_ids_of_others() -> None:
    client: Any = Conversations()

    def served() -> Any:
        return as_agent(payer([]), session=lambda session_id: OpenAIConversationsSession(openai_client=client))

    asked = await hitl.run(served(), "go")
    result = await hitl.run(served(), asked.state.approve(asked.interrupts[0]))
    assert (result.status, result.output, result.error) == ("idle", '["paid 5"]', None)
    (items,) = client.kept.values()
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert not any("id" in item for item in items)


async def test_a_conversation_at_openai_that_is_there_is_gone_on_with() -> None:
    client: Any = Conversations()
    made = await client.create()
    agent = Agent(name="greeter", model=Says(last="hello"))
    served = as_agent(
        agent,
        session=lambda session_id: OpenAIConversationsSession(conversation_id=made.id, openai_client=client),
    )
    for _ in range(2):
        await hitl.run(served, "hi")
    assert [item["role"] for item in client.kept[made.id]] == ["user", "assistant", "user", "assistant"]


async def test_a_conversation_at_openai_that_a_turn_clears_is_followed_by_another() -> None:
    client: Any = Conversations()
    greeter = Agent(name="greeter", model=Says(last="hello"))

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        session = journaled(OpenAIConversationsSession(openai_client=client))
        await Runner.run(greeter, "one", session=session)
        await session.clear_session()
        await Runner.run(greeter, "two", session=session)
        await hitl.interrupt({"type": "sure"})
        await Runner.run(greeter, "three", session=session)
        return ChatMessage.assistant_message(content="done"), state

    asked = await hitl.run(agent, "go")
    await hitl.run(agent, asked.state.answer(asked.interrupts[0], "yes"))
    said = [[item["content"] for item in items if item["role"] == "user"] for items in client.kept.values()]
    assert said == [["two", "three"]]


# -- compaction --------------------------------------------------------------------------------------------------------


class Compacts:
    """As much of OpenAI's client as compaction uses."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.responses = self

    async def compact(self, **asked: Any) -> Any:
        self.asked.append(asked)
        made = {"type": "compaction", "encrypted_content": "short", "id": f"cmp_{len(self.asked)}"}
        return SimpleNamespace(output=[made], usage=None)


class Responds(Says):
    """A model of the Responses API, whose replies have ids."""

    async def get_response(self, *asked: Any, **more: Any) -> Any:
        return replace(await super().get_response(*asked, **more), response_id="resp_1")


def compacted(path: Path, client: Any) -> OpenAIResponsesCompactionSession:
    return OpenAIResponsesCompactionSession(
        session_id="ann",
        underlying_session=SQLiteSession("ann", path),
        client=client,
        should_trigger_compaction=lambda asked: True,
    )


async def test_a_session_is_compacted_at_the_end_of_a_turn_that_paused(tmp_path: Path) -> None:
    path, client = tmp_path / "sessions.db", Compacts()

    def served() -> Any:
        agent = payer([], model=Responds([("pay", {"cents": 5})], last="paid"))
        return as_agent(agent, session=lambda session_id: compacted(path, client))

    asked = await hitl.run(served(), "go")
    assert (asked.status, client.asked) == ("interrupted", [])
    result = await hitl.run(served(), asked.state.approve(asked.interrupts[0]))
    assert (result.status, result.output, len(client.asked)) == ("idle", "paid", 1)
    assert [item["type"] for item in await SQLiteSession("ann", path).get_items()] == ["compaction"]


async def test_a_session_is_compacted_once_however_often_the_turn_goes_on(tmp_path: Path) -> None:
    client = Compacts()
    greeter = Agent(name="greeter", model=Responds(last="hello"))

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        await Runner.run(greeter, "hi", session=compacted(tmp_path / "sessions.db", client))
        await hitl.interrupt({"type": "sure"})
        return ChatMessage.assistant_message(content="done"), state

    asked = await hitl.run(agent, "go")
    result = await hitl.run(agent, asked.state.answer(asked.interrupts[0], "yes"))
    assert (result.status, len(client.asked)) == ("idle", 1)
