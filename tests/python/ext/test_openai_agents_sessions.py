"""Sessions of the OpenAI Agents SDK that conversations are kept in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents import Runner, SQLiteSession, set_tracing_disabled

import hitl
from hitl.ext.openai_agents import as_agent
from hitl.messages import ChatMessage
from tests.python.ext.openai_agents_runs import note_of, payer


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
