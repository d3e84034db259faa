"""An edit that only the types of a tool refuse: it is asked for again."""

from __future__ import annotations

import asyncio
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import AfterValidator, AnyUrl, Field

from hitl import ReActAgent, tool
from hitl import agent as hitl_agent
from hitl.driver.shapes import as_agent
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

    monkeypatch.setattr(approvals, "is_refused", tells_the_model)
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


@pytest.mark.parametrize("is_asked_again", [True, False], ids=["asked again", "not asked again yet"])
@pytest.mark.parametrize("has_made_default", [False, True])
async def test_an_edit_stays_refused_although_a_deploy_has_loosened_the_types(
    is_asked_again: bool, has_made_default: bool
) -> None:
    """An edit that was taken before it, and changed, stays taken too."""
    effects: Effects = []

    def agent(kind: Any) -> ReActAgent:
        async def pay(cents: int, notes: list[str]) -> str:
            effects.append(cents)
            return f"paid {cents}"

        pay.__annotations__["cents"] = kind
        if has_made_default:
            pay.__annotations__["notes"] = Annotated[list[str], Field(default_factory=list)]
        return agent_with(tool(pay, requires_approval=True), cents=2, notes=[])

    answers = [edit(cents="4", notes=[]), edit(cents=3), edit(cents=8)]
    if not has_made_default:
        answers[1:] = [{"type": "edit", "args": {**each["args"], "notes": []}} for each in answers[1:]]
    journal = (
        await run_locally(agent(Annotated[int, AfterValidator(even)]), "go", answers=lambda _: answers.pop(0))
    ).port.journal
    refused = next(at for at, entry in enumerate(journal) if entry.get("step", {}).get("name") == "pay.refused_edit")
    asked = [at for at, entry in enumerate(journal) if entry["entry"] == "ask"]
    assert [at < refused for at in asked] == [True, True, False]
    effects.clear()

    again = LocalTurn(lambda _: APPROVE, journal=journal[: (asked[2] if is_asked_again else refused) + 1])
    await again.run(agent(int).run_turn, ChatMessage.user_message(content="go"), [])
    assert effects == [4]


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "at work"])
async def test_an_edit_that_was_taken_is_not_taken_for_the_refused_one_of_a_call_beside_it(is_done: bool) -> None:
    """Calls that code makes have no id by which what is recorded of them is told apart."""
    refused = asyncio.Event()

    @tool(requires_approval=True, once=False)
    async def pay(cents: Annotated[int, AfterValidator(even)]) -> str:
        await refused.wait()
        return f"paid {cents}"

    @hitl_agent
    async def both(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        said = await asyncio.gather(pay.call(cents=2), pay.call(cents=4))
        return ChatMessage.assistant_message(content=" ".join(said)), [*state, message]

    def answer(asked: InterruptRequest) -> Any:
        if asked["message"]:
            refused.set()
            return edit(cents=10)
        return edit(cents=8 if asked["payload"]["tool_args"] == {"cents": 2} else 3)

    first = await run_locally(both, "go", answers=answer)
    journal = first.port.journal
    assert first.response.content is not None
    assert first.response.content.count("paid") == 2
    asked = [at for at, entry in enumerate(journal) if entry["entry"] == "ask"]
    again = LocalTurn(lambda _: edit(cents=10), journal=journal if is_done else journal[: asked[2] + 1], agent="both")
    reply, _ = await again.run(as_agent(both).run, ChatMessage.user_message(content="go"), [])
    assert reply.content == first.response.content
