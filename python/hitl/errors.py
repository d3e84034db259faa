"""The exceptions that most of hitl raises; those of one part alone are in its module.

All of them are ``HitlError`` (``Parked`` excepted) and carry ``code``: a stable, snake-case name of the cause, the same
one that the HTTP API uses. Where Python has a fitting built-in (``ValueError``, ``KeyError``), the class is that too.

All of them can be pickled. The positional arguments of a constructor are the exception's ``args``, or what its
``__reduce__`` says: an error that a step raised is stored as its class, its arguments and its attributes, and made
again from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

RETRIABLE_ERRORS = frozenset(
    {
        "replay_mismatch",
        "replay_timeout",
        "python_unsupported",
        "code_pinned",
        "journal_unreadable",
        "worker_exited",
        "model_unavailable",
        "resource_unavailable",
        "max_steps_exceeded",
        "token_limit_exceeded",
        "invalid_output",
        "reply_cut_short",
    }
)
"""Codes of errors after which a turn's journal is kept, so that `retry` can take it up again."""


class HitlError(Exception):
    """Base of hitl's errors. ``code`` names the cause; it never changes between versions."""

    code: str = "error"

    says_all: ClassVar[bool] = False
    """Whether a log needs no traceback: what is wrong is not in the code."""

    def __init__(self, *args: Any, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code

    def _say_hint(self, hint: str | None) -> None:
        """Have a traceback say what to do; `str()` says what is wrong."""
        if hint is not None:
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; our KeyErrors carry a sentence.
        return Exception.__str__(self)


class ToolRejected(HitlError):
    """A person, or a policy, said no to a tool call. ``str()`` is the text that the model sees, ``reason`` what was
    given as the reason."""

    code = "tool_rejected"

    def __init__(self, message: str = "", reason: str | None = None) -> None:
        super().__init__(message, reason)
        self.message = message
        self.reason = reason

    def __str__(self) -> str:
        return self.message


class InterruptExpired(HitlError):
    """Nobody answered in time, and the interrupt has no ``on_expire`` value."""

    code = "interrupt_expired"


class InterruptCancelled(HitlError):
    """The agent withdrew what it asked: the task that waited was cancelled."""

    code = "interrupt_cancelled"


class InvalidAnswer(HitlError, ValueError):
    """An answer of the wrong kind, not allowed, or not valid against the response schema.

    ``errors`` lists every place that is wrong, as ``{"loc", "msg", "type"}``; empty where nobody said.
    """

    code = "invalid_answer"
    errors: list[dict[str, Any]]

    def __init__(self, *args: Any, errors: list[dict[str, Any]] | None = None, code: str | None = None) -> None:
        super().__init__(*args, code=code)
        self.errors = errors or []


class InvalidPayload(HitlError, ValueError):
    """An interrupt's payload that cannot be shown or stored."""

    code = "invalid_payload"


class PayloadTooLarge(InvalidPayload):
    """An interrupt's payload above the server's limit; the message says size and limit, in bytes."""

    code = "payload_too_large"


class InvalidSchema(HitlError, ValueError):
    """A ``response_schema`` that is no valid JSON Schema, or that refers to another document."""

    code = "invalid_response_schema"


class UnknownInterrupt(HitlError, KeyError):
    """No interrupt has that id."""

    code = "unknown_interrupt"

    __str__ = HitlError.__str__


class NothingPending(HitlError, ValueError):
    """An answer was given to a run that asks nothing."""

    code = "nothing_pending"


class AlreadyResolved(HitlError):
    """Another answer counted first."""

    code = "already_resolved"


class AlreadyResumed(HitlError):
    """This run state was resumed before; its tools ran then."""

    code = "already_resumed"


class RunInterrupted(HitlError):
    """A new message for a session whose last turn is not over. ``state`` is that turn's ``RunState``."""

    code = "run_interrupted"
    state: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # The state belongs to a store of this process; another one has it from `RunState.from_store`.
        return type(self), self.args, {name: item for name, item in vars(self).items() if name != "state"}


class RunStateError(HitlError, ValueError):
    """A text that is no run state, or one of a later release. ``code`` tells which."""

    code = "run_state_invalid"


class ReplayMismatch(HitlError):
    """The agent's code asks for something else than its journal holds."""

    code = "replay_mismatch"


class ReplayTimeout(HitlError):
    """A replay waited for longer than it may for what the agent does between its steps. It can be tried again."""

    code = "replay_timeout"


class UnreadableJournal(HitlError):
    """A journal that this release does not understand; nothing of the turn ran."""

    code = "journal_unreadable"


class ModelUnavailable(HitlError):
    """A model, a step with ``retries=``, or an MCP server was away in every try. Code of the agent never sees it: the
    turn is suspended, and a retry goes on with one more round of tries."""

    code = "model_unavailable"


class TransientError(HitlError):
    """Raise it, in a chat client or in a step with ``retries=``, for what may pass by itself. ``retry_after``: not
    before that many seconds."""

    code = "transient"

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, retry_after)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return str(self.args[0])


class StepError(HitlError):
    """An error of a step whose own class cannot be rebuilt here.

    ``type`` and ``module`` name the class that was raised, ``message`` is its text. ``is_a`` tells what it was, for an
    ``except`` that means the original class.
    """

    code = "step_error"

    def __init__(self, type: str, message: str, module: str = "builtins", classes: Iterable[str] = ()) -> None:
        self.type = type
        self.message = message
        self.module = module
        self.classes = tuple(classes) or (f"{module}.{type}",)
        """The class that was raised, then its bases, as ``module.Name``."""
        super().__init__(type, message, module, self.classes)

    def is_a(self, cls: type | tuple[type, ...]) -> bool:
        """Whether the error that was raised is of this class, or of one of these: what ``isinstance`` would have said.

        Classes are compared by module and name.
        """
        return any(class_name(each) in self.classes for each in (cls if isinstance(cls, tuple) else (cls,)))

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class ResultNotStored(HitlError, TypeError):
    """A tool ran, and returned what cannot be stored, not even as JSON. Its effect has happened."""

    code = "result_not_stored"


class AgentLoadError(HitlError):
    """An agent that cannot be served. ``hint`` says what to do about it, when there is something to say."""

    code = "agent_load_error"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint
        self._say_hint(hint)

    def __str__(self) -> str:
        return self.message


class StoreError(HitlError):
    """A store that cannot be opened or read. ``code`` tells the cause, ``hint`` what to do about it."""

    code = "store_error"

    def __init__(self, message: str, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message, hint, code, code=code)
        self.message = message
        self.hint = hint
        self._say_hint(hint)

    def __str__(self) -> str:
        return self.message


class PythonUntested(HitlError):
    """A run or a server on a Python that hitl is not tested on. ``hint`` says how to go on."""

    code = "python_untested"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}; {self.hint}"


class WorkerProtocolError(HitlError):
    """A frame between the server and a worker that breaks the worker protocol."""

    code = "worker_protocol_error"


class Parked(BaseException):
    """The turn leaves memory while it waits; it goes on from its journal.

    Not an ``Exception``, so that an agent's ``except Exception`` lets it pass. Nothing that runs while it unwinds is
    recorded.
    """


def class_name(cls: type) -> str:
    """``module.Name``, by which classes are known where they are not at hand."""
    return f"{cls.__module__}.{cls.__qualname__}"


def error_of(code: str, message: str, errors: list[dict[str, Any]] | None = None) -> HitlError:
    """The exception for an error of the core: the class with that ``code``, else a plain HitlError."""
    if code == InvalidAnswer.code:
        return InvalidAnswer(message, errors=errors)
    cls = _BY_CODE.get(code)
    return cls(message, code=code) if cls is not None else HitlError(message, code=code)


def error_for_refusal(code: str, message: str) -> HitlError:
    """The exception for a call that the server refused: the class with that ``code``, else a plain HitlError."""
    cls = _REFUSALS.get(code)
    return cls(message) if cls is not None else HitlError(message, code=code)


_REFUSALS: dict[str, type[HitlError]] = {
    cls.code: cls
    for cls in (
        InvalidAnswer,
        InvalidPayload,
        PayloadTooLarge,
        InvalidSchema,
        UnknownInterrupt,
        NothingPending,
        AlreadyResolved,
        ReplayMismatch,
    )
}

_BY_CODE: dict[str, type[HitlError]] = {
    **_REFUSALS,
    InterruptExpired.code: InterruptExpired,
    InterruptCancelled.code: InterruptCancelled,
    RunInterrupted.code: RunInterrupted,
    AlreadyResumed.code: AlreadyResumed,
    "duplicate_answer": InvalidAnswer,
    "value_too_large": InvalidAnswer,
    "run_state_invalid": RunStateError,
    "run_state_newer": RunStateError,
    "store_unavailable": StoreError,
}
