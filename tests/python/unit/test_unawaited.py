"""turn/unawaited.py: a question whose `await` was forgotten ends the turn with an error; no gate is open in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

import hitl
from hitl import ChatMessage

Asks = Callable[[], Awaitable[object]]


def agent(body: Asks) -> Callable[[ChatMessage, list[ChatMessage]], Awaitable[tuple[ChatMessage, list[ChatMessage]]]]:
    async def run(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        await body()
        reply = ChatMessage.assistant_message(content="done")
        return reply, [*state, message, reply]

    return run


async def forgets_an_approval() -> None:
    hitl.approval("transfer", {"cents": 5})  # type: ignore[unused-coroutine]  # what is tested


async def forgets_an_interrupt() -> None:
    kept = hitl.interrupt({"type": "confirm"})
    assert kept is not None


@pytest.mark.parametrize(("body", "what"), [(forgets_an_approval, "approval"), (forgets_an_interrupt, "interrupt")])
async def test_a_question_that_was_never_awaited_ends_the_turn_and_is_named(body: Asks, what: str) -> None:
    result = await hitl.run(agent(body), "go")
    assert result.status == "error"
    assert result.error is not None
    assert f"{what}() at " in result.error
    assert "test_unawaited.py:" in result.error
    assert "was never awaited, and nobody was asked" in result.error
    assert "hint: write await before it" in result.error


async def test_what_was_cancelled_before_it_began_is_not_forgotten() -> None:
    async def body() -> None:
        task = asyncio.ensure_future(hitl.interrupt({"type": "confirm"}))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    assert (await hitl.run(agent(body), "go")).status == "idle"


async def test_many_that_are_made_before_the_first_is_awaited_are_all_asked() -> None:
    async def body() -> None:
        await asyncio.gather(*[hitl.interrupt({"type": "confirm", "number": number}) for number in range(100)])

    result = await hitl.run(agent(body), "go")
    assert [asked.payload["number"] for asked in result.interrupts] == list(range(100))
