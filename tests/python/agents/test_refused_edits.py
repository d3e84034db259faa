"""An edit that only the types of a tool refuse: it is asked for again."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import AfterValidator, AnyUrl

from hitl import ReActAgent, tool
from hitl.journal.ports import InterruptRequest
from hitl.messages import ChatMessage
from hitl.testing import ScriptedChatClient
from hitl.tools import approvals
from tests.python.agents.test_edits import APPROVE, agent_with, edit, shown
from tests.python.support.local import LocalTurn, run_locally
from tests.python.support.prefixes import Effects, run_all_prefixes


def even(number: int) -> int:
    if number % 2:
        raise ValueError("not even")
    return number


@pytest.mark.parametrize(
    ("kind", "first", "wrong"),
    [
        (datetime, "2026-01-05T10:00:00Z", "1 January 2027, 10 o'clock"),
        (date, "2026-01-05", "tomorrow"),
        (timedelta, "PT1H", "an hour"),
        (UUID, "5f3b1c1e-0d55-4f7a-9d0d-0d2b7a8f9a10", "the first"),
        (AnyUrl, "https://example.com/", "example"),
        (Decimal, "1.5", "1.5.0"),
        (Annotated[int, AfterValidator(even)], 2, 3),
    ],
)
async def test_what_only_the_types_refuse_in_an_edit_is_asked_for_again(kind: Any, first: Any, wrong: Any) -> None:
    """A schema names the format of a text, which nobody checks, and nothing of a validator."""

    def make(effects: Effects) -> ReActAgent:
        async def book(at: Any) -> str:
            effects.append(at)
            return "booked"

        book.__annotations__["at"] = kind
        return agent_with(tool(book, requires_approval=True), at=first)

    run = await run_all_prefixes(make, lambda asked: APPROVE if asked["message"] else edit(at=wrong))
    assert run.requests[1]["message"].startswith("The answer was refused: at: ")
    assert (shown(run), run.told, len(run.effects)) == ([{"at": first}] * 2, ["booked"], 1)


async def test_what_is_said_of_a_refused_edit_can_be_shown_however_much_of_it_is_wrong() -> None:
    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True)
        async def book(days: list[date]) -> str:
            return "booked"

        return agent_with(book, days=["2026-01-05"])

    run = await run_all_prefixes(make, lambda asked: APPROVE if asked["message"] else edit(days=["never"] * 400))
    assert run.told == ["booked"]


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_journal_whose_model_was_told_of_an_edit_that_does_not_fit_goes_on_so(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As releases did that asked nobody again, whether the call was the only one of its message or not."""
    effects: Effects = []

    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    def agent() -> ReActAgent:
        called = [{"name": "pay", "args": {"cents": cents}, "id": f"call_{cents}"} for cents in range(1, calls + 1)]
        return ReActAgent(client=ScriptedChatClient([{"tool_calls": called}, {"content": "done"}]), tools=[pay])

    def answer(asked: InterruptRequest) -> Any:
        is_first = asked["payload"]["tool_args"] == {"cents": 1}
        return edit(cents="many") if is_first else APPROVE

    async def tells_the_model(*_: Any) -> bool:
        return False

    monkeypatch.setattr(approvals, "_is_refused", tells_the_model)
    first = await run_locally(agent(), "go", answers=answer)
    wrong = "cents: Input should be a valid integer, unable to parse string as an integer"
    told = f"the arguments that a person gave do not fit pay: {wrong}"
    assert first.state[2].content == json.dumps({"error": told})
    assert len(first.requests) == calls

    monkeypatch.undo()
    journal = json.loads(json.dumps(first.port.journal))
    replied = [entry["entry"] == "step" and entry["step"]["kind"] == "model" for entry in journal]
    for cut in range(len(journal) - replied[::-1].index(True), len(journal) + 1):
        again = LocalTurn(answer, journal=journal[:cut])
        _, state = await again.run(agent().run_turn, ChatMessage.user_message(content="go"), [])
        assert (state, len(effects)) == (first.state, calls - 1)


@pytest.mark.parametrize("code", ["code-1", "code-2"])
async def test_an_edit_that_does_not_fit_is_asked_for_again_where_the_turn_went_on_elsewhere(code: str) -> None:
    """Answered in a crash, with another call that has gone on since; and taken up by newer code."""
    effects: Effects = []

    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    def agent() -> ReActAgent:
        called = [{"name": "pay", "args": {"cents": cents}, "id": f"call_{cents}"} for cents in (1, 2)]
        return ReActAgent(client=ScriptedChatClient([{"tool_calls": called}, {"content": "done"}]), tools=[pay])

    def answer(asked: InterruptRequest) -> Any:
        is_first = asked["payload"]["tool_args"] == {"cents": 1} and not asked["message"]
        return edit(cents="many") if is_first else APPROVE

    journal = (await run_locally(agent(), "go", answers=answer)).port.journal
    cut = next(at for at, entry in enumerate(journal) if entry.get("step", {}).get("name") == "pay.refused_edit")
    assert sum(entry["entry"] == "answer" for entry in journal[:cut]) == 2
    effects.clear()
    kept = [entry for entry in journal[:cut] if entry["entry"] != "intent"]
    again = LocalTurn(answer, journal=kept, code=code)
    _, state = await again.run(agent().run_turn, ChatMessage.user_message(content="go"), [])
    assert sorted(effects) == [1, 2]
    assert [message.content for message in state if message.role == "tool"] == ["paid 1", "paid 2"]
