"""What a run comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from hitl.messages import ChatMessage
from hitl.runs.interrupts import Interrupt as Interrupt
from hitl.runs.states import RunState

RunStatus = Literal["idle", "interrupted", "error"]


@dataclass(frozen=True, slots=True)
class _Result:
    """What every result has."""

    status: RunStatus
    """``idle``: the agent has answered. ``interrupted``: it waits for people. ``error``: it failed."""
    response: ChatMessage | None
    """What the agent answered; None unless idle."""
    messages: list[ChatMessage]
    """The conversation: with this turn when it is over, else as it was before."""
    error: str | None
    """``TypeName: message`` of a failed run."""
    error_code: str | None
    """A stable name of what went wrong; ``agent_error`` where the agent raised."""
    exception: BaseException | None
    """The error itself, where it was raised in this process."""
    usage: dict[str, float]
    """What the turn's models cost so far, over every pause: ``requests``, and the sums of what the models report."""
    interrupts: list[Interrupt]
    """What is asked, in order of arrival; empty unless interrupted."""
    state: RunState | None
    """From where the run can go on; None when there is nothing left to go on with."""
    session_id: str
    output: str | None
    """The text of the response, empty for one without text; None unless idle."""


@dataclass(frozen=True, slots=True)
class IdleResult(_Result):
    """The agent has answered."""

    status: Literal["idle"]
    response: ChatMessage
    error: None
    error_code: None
    exception: None
    state: None
    output: str


@dataclass(frozen=True, slots=True)
class InterruptedResult(_Result):
    """The agent waits for people."""

    status: Literal["interrupted"]
    response: None
    error: None
    error_code: None
    exception: None
    state: RunState
    output: None


@dataclass(frozen=True, slots=True)
class ErrorResult(_Result):
    """The agent failed. Where the run can be taken up again all the same, ``state`` is from where."""

    status: Literal["error"]
    response: None
    error: str
    output: None


RunResult: TypeAlias = IdleResult | InterruptedResult | ErrorResult
"""How a run came out. Checkers know by its ``status`` which of the three it is."""

RESULTS: Final[Mapping[RunStatus, type[RunResult]]] = {
    "idle": IdleResult,
    "interrupted": InterruptedResult,
    "error": ErrorResult,
}
"""The class of each status."""
