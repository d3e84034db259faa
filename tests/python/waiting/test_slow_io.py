"""Raw requests that take longer than a replay's patience with a turn from which nothing comes any more.

What an agent does between its steps runs again in a replay, and takes as long again: the replay waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

import hitl
from hitl import ChatMessage, RunState, interrupt, step
from hitl.turn import replaying
from tests.python.waiting.befores import BEFORES
from tests.python.waiting.cells import SECONDS
from tests.python.waiting.drivers import HOLD_SECONDS
from tests.python.waiting.ledger import Cell
from tests.python.waiting.peers import SLOW_SECONDS

if TYPE_CHECKING:
    from tests.python.waiting.befores import Request

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

_PATIENCE = SLOW_SECONDS / 10
# In a step, as the child that is awaited, it would not run again.
_LIBRARIES = [name for name in BEFORES if name != "child awaited"]

Ask = Callable[[str], Awaitable[Any]]


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a replay waits for comes as quickly as this."""
    monkeypatch.setattr(replaying, "_GRACE_SECONDS", _PATIENCE)
    monkeypatch.setattr(replaying, "_MOST_GRACE_SECONDS", _PATIENCE)  # also where it took longer the first time


async def before(request: Request, ask: Ask) -> list[Any]:
    await request("slow one")
    return [await ask("a"), await ask("b")]


async def between(request: Request, ask: Ask) -> list[Any]:
    first = await ask("a")
    await request("slow one")
    return [first, await ask("b")]


async def after(request: Request, ask: Ask) -> list[Any]:
    answers = [await ask("a"), await ask("b")]
    await request("slow one")
    return answers


async def everywhere(request: Request, ask: Ask) -> list[Any]:
    answers = []
    for name in "ab":
        await request("slow one")
        answers.append(await ask(name))
    await request("slow one")
    return answers


@pytest.mark.parametrize(
    ("where", "library"),
    [(where, library) for where in (before, between, after) for library in ("nothing", "to_thread", "open_connection")]
    + [(everywhere, library) for library in _LIBRARIES],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else value.__name__,
)
async def test_a_slow_request_is_waited_for(
    where: Callable[[Request, Ask], Awaitable[list[Any]]], library: str, cell_of: Callable[[str, str], Cell]
) -> None:
    cell = cell_of(library, where.__name__)

    async def ask(name: str) -> Any:
        await step(cell.note, f"asks {name}")
        return await interrupt({"type": "question", "about": name})

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        await step(cell.note, "first")
        async with BEFORES[library](cell) as request:
            answers = await where(request, ask)
        await step(cell.note, "last")
        reply = ChatMessage.assistant_message(content=" ".join(answers))
        return reply, [*state, message, reply]

    result = await _bounded(agent, "go")
    for name in "ab":
        assert result.state is not None, result.error
        assert [asked.payload["about"] for asked in result.interrupts] == [name], result.error
        state = RunState.from_string(agent, result.state.to_string())
        result = await _bounded(agent, state.answer(state.interrupts[0], f"answer-{name}"))
    assert (result.status, result.output) == ("idle", "answer-a answer-b"), result.error
    assert cell.noted() == dict.fromkeys(["first", "asks a", "asks b", "last"], 1)


async def _bounded(agent: Any, input: Any) -> Any:
    try:
        return await asyncio.wait_for(hitl.run(agent, input, hold=HOLD_SECONDS), SECONDS)
    except TimeoutError:
        raise AssertionError(f"hitl.run did not come back in {SECONDS:g} s") from None
