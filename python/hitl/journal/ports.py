"""What a turn needs from whoever runs it: a place for its records. A worker gives one, and so does a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, Protocol, TypedDict


class StepIdentity(TypedDict):
    """Which step this is: ``step`` in docs/worker-protocol.md."""

    path: str
    key: str | None
    kind: str
    name: str
    location: str | None
    arguments: dict[str, str]
    tool_call_id: NotRequired[str]


class ApprovalMembers(TypedDict):
    """What only the approval of a tool call has."""

    required: bool
    proposed: dict[str, Any] | None
    args_schema: dict[str, Any] | None
    tool_source: str | None
    is_run: NotRequired[bool]
    approvers: NotRequired[list[str]]


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
    required: NotRequired[bool]
    proposed: NotRequired[dict[str, Any] | None]
    args_schema: NotRequired[dict[str, Any] | None]
    tool_source: NotRequired[str | None]
    is_run: NotRequired[bool]
    approvers: NotRequired[list[str]]
    lets_run: NotRequired[bool]


class PendingTimer(TypedDict):
    """A timer that a paused turn waits for; ``due`` in milliseconds since 1970."""

    path: str
    due: int


class Wake(TypedDict):
    """Something outside the journal woke the turn: which task, after which entry, and where in the code it waited."""

    after: int
    task: str
    location: NotRequired[str | None]


class Holder(TypedDict):
    """Something that keeps a turn from being paused, or from being replayed; ``location`` is ``file.py:12``."""

    what: str
    location: str | None


class TurnPort(Protocol):
    """Where a turn's records go. Called on the turn's loop only, ``log`` excepted.

    What returns a number is a call: ``Order.acknowledged`` or ``Order.refused`` is told that number once the record is
    committed, or refused. Acknowledgements, answers and expiries come in the order of the journal. What takes values of
    the agent's raises TypeError or ValueError for those that cannot be sent.
    """

    def step(self, step: StepIdentity, result: dict[str, Any]) -> int:
        """Store the outcome of a step."""

    def intent(self, step: StepIdentity, arguments: Mapping[str, Any] | None = None) -> int:
        """Store that a step begins which must not run twice; ``arguments``: of a tool, for whoever watches."""

    def started(self, step: StepIdentity, arguments: Mapping[str, Any] | None) -> None:
        """A tool begins that may run twice, with ``arguments`` as they may be shown; for whoever watches."""

    def ask(self, step: StepIdentity, interrupt: InterruptRequest) -> int:
        """Ask a person; the acknowledgement brings the interrupt's id."""

    def timer(self, path: str, due: int) -> int:
        """Store that a timer fired."""

    def withdraw(self, interrupt_id: str) -> None:
        """Nobody waits for this answer any more."""

    def wakes(self, wakes: list[Wake]) -> None:
        """Store order marks."""

    def waiting(self, seen: int | None, timers: list[PendingTimer], context: Any) -> None:
        """The turn now awaits nothing but interrupts and timers, and knows the journal up to ``seen``.

        ``context`` is the object given to its run, encoded; None without one.
        """

    def held(self, by: list[Holder], *, at_work: bool, is_replay: bool) -> None:
        """Something besides people, timers and the journal has kept the turn for a while: a turn with an open question,
        or its replay. ``at_work``: something that must be neither stopped nor repeated."""

    def replayed(self, warnings: list[str]) -> None:
        """The turn stands where its journal ends, and goes on from there."""

    def delta(self, step_id: str, attempt: int, delta: dict[str, str]) -> None:
        """A piece of a model's reply, for whoever watches; not stored."""

    def log(self, stream: str, text: str) -> None:
        """Text that the agent printed, whole lines; ``stream`` is ``stdout`` or ``stderr``. Any thread may call it."""
