"""turn/unawaited.py: what is asked or done without `await` ends the turn with an error that names its line."""

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


async def charge() -> str:
    return "charged"


@hitl.step(key="charge")
async def charge_decorated() -> str:
    return "charged"


@hitl.step(retries=2)
async def charge_again() -> str:
    return "charged"


async def forgets_a_step() -> None:
    hitl.step(charge)  # type: ignore[unused-coroutine]  # what is tested


async def forgets_a_decorated_step() -> None:
    charge_decorated()  # type: ignore[unused-coroutine]  # what is tested


async def forgets_a_step_that_is_tried_again() -> None:
    charge_again()  # type: ignore[unused-coroutine]  # what is tested


@pytest.mark.parametrize(
    ("body", "step"),
    [
        (forgets_a_step, "charge"),
        (forgets_a_decorated_step, "charge_decorated"),
        (forgets_a_step_that_is_tried_again, "charge_again"),
    ],
)
async def test_a_step_that_was_never_awaited_ends_the_turn_and_is_named(body: Asks, step: str) -> None:
    result = await hitl.run(agent(body), "go")
    assert result.error is not None
    assert f"step {step}() at " in result.error
    assert "test_unawaited.py:" in result.error
    assert "was never awaited, and has not run" in result.error


async def test_what_a_task_that_is_left_behind_is_about_to_begin_is_not_forgotten() -> None:
    async def body() -> None:
        asyncio.create_task(hitl.step(charge))  # noqa: RUF006 - left behind

    assert (await hitl.run(agent(body), "go")).status == "idle"


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
