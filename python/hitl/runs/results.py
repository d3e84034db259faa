"""What a run comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

from hitl.messages import ChatMessage
from hitl.runs.interrupts import Interrupt as Interrupt
from hitl.runs.states import RunState

if TYPE_CHECKING:
    # With a default, which checkers know and Python does not yet: most agents answer in text.
    import typing_extensions

    OutputT = typing_extensions.TypeVar("OutputT", default=str)
else:
    OutputT = TypeVar("OutputT")

RunStatus = Literal["idle", "interrupted", "error"]


@dataclass(frozen=True, slots=True)
class _Result(Generic[OutputT]):
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
    output: OutputT | None
    """What was answered: a value of the agent's ``output_type``, else the text of the response, empty for one without
    text; None unless idle."""
    finish_reason: str | None
    """Why the model's last reply ended: ``stop``, ``length``, ...; None where nobody said, and for a state in which
    nothing was decided. Models of agents that are tools do not count."""


@dataclass(frozen=True, slots=True)
class IdleResult(_Result[OutputT]):
    """The agent has answered."""

    status: Literal["idle"]
    response: ChatMessage
    error: None
    error_code: None
    exception: None
    state: None
    output: OutputT


@dataclass(frozen=True, slots=True)
class InterruptedResult(_Result[Any]):
    """The agent waits for people."""

    status: Literal["interrupted"]
    response: None
    error: None
    error_code: None
    exception: None
    state: RunState
    output: None


@dataclass(frozen=True, slots=True)
class ErrorResult(_Result[Any]):
    """The agent failed. Where the run can be taken up again all the same, ``state`` is from where."""

    status: Literal["error"]
    response: None
    error: str
    output: None


if TYPE_CHECKING:
    RunResult: TypeAlias = IdleResult[OutputT] | InterruptedResult | ErrorResult
else:
    # `isinstance(x, RunResult)` works, as it would not of a union with a type that takes another.
    RunResult = _Result
"""How a run came out, of an agent whose answers are of the type in brackets. Checkers know by its ``status`` which of
the three it is."""

RESULTS: Final[Mapping[RunStatus, type[RunResult[Any]]]] = {
    "idle": IdleResult,
    "interrupted": InterruptedResult,
    "error": ErrorResult,
}
"""The class of each status."""
