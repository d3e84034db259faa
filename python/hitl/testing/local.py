"""Turns without a server: a journal in memory and answers from a function. For hitl's own unit tests.

>>> result = await run_locally(agent, "hello", answers=lambda ask: {"approved": True})      # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from hitl.agents.shapes import as_agent
from hitl.errors import HitlError, InterruptExpired
from hitl.messages import ChatMessage
from hitl.ports import InterruptRequest, StepIdentity
from hitl.runtime import Turn, install_task_factory

T = TypeVar("T")

PENDING: Final = object()
"""Returned by an ``answers`` function that leaves the interrupt open."""

Answers = Callable[[InterruptRequest], Any]
"""Called for each interrupt; returns (or awaits) an answer or PENDING, or raises InterruptExpired or a HitlError, which
refuses the question."""


@dataclass
class LocalInterrupt:
    """An interrupt in memory: see ``OpenInterrupt`` in hitl.runtime."""

    id: str
    step: StepIdentity
    request: InterruptRequest
    opened: asyncio.Future[str]
    answer: asyncio.Future[Any]
    withdrawn: bool = False

    def give(self, value: Any) -> None:
        """Answer it, with a copy as JSON would make it."""
        self.answer.set_result(json.loads(json.dumps(value)))


@dataclass
class LocalPort:
    """A ``TurnPort`` that keeps what it is given."""

    answers: Answers | None = None
    steps: list[tuple[StepIdentity, dict[str, Any]]] = field(default_factory=list)
    interrupts: list[LocalInterrupt] = field(default_factory=list)
    deltas: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    logs: list[tuple[str, str]] = field(default_factory=list)
    waits: int = 0
    """How often the turn said that it awaits nothing but interrupts."""
    on_waiting: Callable[[], None] | None = None
    _answering: list[asyncio.Task[None]] = field(default_factory=list)

    def append_step(self, step: StepIdentity, result: dict[str, Any]) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.steps.append((step, json.loads(json.dumps(result, allow_nan=False))))
        # Not at once: a commit is never there before the loop has gone round.
        asyncio.get_running_loop().call_soon(_commit, done)
        return done

    def open_interrupt(self, step: StepIdentity, interrupt: InterruptRequest) -> LocalInterrupt:
        loop = asyncio.get_running_loop()
        copy = json.loads(json.dumps(interrupt, allow_nan=False))
        asked = LocalInterrupt(
            f"interrupt-{len(self.interrupts) + 1}", step, copy, loop.create_future(), loop.create_future()
        )
        self.interrupts.append(asked)
        # In an empty context: who answers is no part of the turn.
        self._answering.append(asyncio.Task(self._answer(asked), loop=loop, context=Context()))
        return asked

    async def _answer(self, asked: LocalInterrupt) -> None:
        try:
            value = PENDING if self.answers is None else self.answers(asked.request)
            if inspect.isawaitable(value):
                value = await value
        except InterruptExpired as expired:
            asked.opened.set_result(asked.id)
            asked.answer.set_exception(expired)
        except HitlError as refused:
            asked.opened.set_exception(refused)
        except Exception as broken:  # noqa: BLE001 - the test's own mistake has to reach the test, through the agent that asked
            asked.opened.set_exception(broken)
        else:
            asked.opened.set_result(asked.id)
            if value is not PENDING:
                asked.give(value)

    def withdraw(self, interrupt: Any) -> None:
        interrupt.withdrawn = True

    def waiting(self) -> None:
        self.waits += 1
        if self.on_waiting is not None:
            self.on_waiting()

    def delta(self, step_id: str, attempt: int, delta: dict[str, str]) -> None:
        self.deltas.append((step_id, attempt, delta))

    def log(self, stream: str, text: str) -> None:
        self.logs.append((stream, text))

    def paths(self) -> list[str]:
        """The paths of the recorded steps, in the order in which they finished."""
        return [step["path"] for step, _ in self.steps]


def _commit(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


class LocalTurn:
    """A turn on the running loop. ``await turn.run(function, *args)`` runs code inside it, as often as wanted."""

    def __init__(self, answers: Answers | None = None, *, context: Any = None, agent: str | None = None) -> None:
        self.port = LocalPort(answers)
        self.turn = Turn(self.port, turn_id="turn-1", session_id="session-1", agent=agent, context=context)
        self._context = self.turn.enter()

    def start(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> asyncio.Task[T]:
        """A task inside the turn, at its root."""

        async def main() -> T:
            return await function(*args, **kwargs)

        loop = asyncio.get_running_loop()
        if loop.get_task_factory() is None:
            install_task_factory(loop)
        return asyncio.Task(main(), loop=loop, context=self._context)

    async def run(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function inside the turn and return what it returns."""
        return await self.start(function, *args, **kwargs)


@dataclass
class LocalResult:
    """What ``run_locally`` returns."""

    response: ChatMessage
    state: list[ChatMessage]
    port: LocalPort

    @property
    def requests(self) -> list[InterruptRequest]:
        """What people were asked, in order."""
        return [asked.request for asked in self.port.interrupts]


async def run_locally(
    agent: Any,
    message: ChatMessage | str,
    state: list[ChatMessage] | None = None,
    answers: Answers | None = None,
    *,
    context: Any = None,
) -> LocalResult:
    """One turn of any accepted agent, errors raised as they are."""
    loaded = as_agent(agent)
    local = LocalTurn(answers, context=context, agent=loaded.name)
    if isinstance(message, str):
        message = ChatMessage.user_message(content=message)
    try:
        response, after = await local.run(loaded.run, message, list(state or []))
    finally:
        local.turn.close()
    return LocalResult(response, after, local.port)
