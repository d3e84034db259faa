"""What a turn needs from whoever runs it: a place for its records. A worker gives one, and so does a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, TypedDict


class StepIdentity(TypedDict):
    """Which step this is: ``step`` in docs/worker-protocol.md."""

    path: str
    key: str | None
    kind: str
    name: str
    location: str | None
    arguments: dict[str, str]


class InterruptRequest(TypedDict):
    """A question to a person: ``interrupt`` in docs/worker-protocol.md."""

    type: str
    payload: dict[str, Any]
    message: str | None
    response_schema: dict[str, Any] | None
    allowed_decisions: list[str] | None
    tool_call_id: str | None
    agent: str | None
    args_digest: str | None
    expires_in: float | None
    has_default: bool
    metadata: dict[str, Any] | None


class OpenInterrupt(Protocol):
    """An ask that was sent. Both futures belong to the turn's loop."""

    opened: asyncio.Future[str]
    """The interrupt's id once it is committed, or the refusal as an exception."""
    answer: asyncio.Future[Any]
    """The answer once it is committed, or ``InterruptExpired``."""


class TurnPort(Protocol):
    """Where a turn's records go. Called on the turn's loop only."""

    def append_step(self, step: StepIdentity, result: dict[str, Any]) -> Awaitable[None]:
        """Store the outcome of a step; done when it is committed, raises when it was refused."""

    def open_interrupt(self, step: StepIdentity, interrupt: InterruptRequest) -> OpenInterrupt:
        """Ask a person."""

    def withdraw(self, interrupt: OpenInterrupt) -> None:
        """Nobody waits for this answer any more; also valid before ``opened`` is done."""

    def waiting(self) -> None:
        """The turn now awaits nothing but interrupts."""

    def delta(self, step_id: str, attempt: int, delta: dict[str, str]) -> None:
        """A piece of a model's reply, for whoever watches; not stored."""

    def log(self, stream: str, text: str) -> None:
        """Text that the agent printed, whole lines; ``stream`` is ``stdout`` or ``stderr``. Any thread may call it."""
