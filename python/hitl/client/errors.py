"""What a client raises: one tree under `ClientError`, each carrying `.code`, `.status` and `.detail`.

The texts and codes are the server's own (RFC 9457 problems), so that a program can branch on
`error.code` and a person can read `str(error)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from hitl.errors import HitlError


class ClientError(HitlError):
    """A request that did not get the answer it asked for.

    code: stable, snake case, one per cause.
    status: the HTTP status, or None when no answer came.
    detail: one sentence for a person.
    """

    def __init__(self, detail: str, code: str, status: int | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status
        self.detail = detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given(), vars(self)

    def _given(self) -> tuple[Any, ...]:
        """What the constructor takes: pickle and the journal make the error again from it."""
        return self.detail, self.code, self.status


class ConnectionFailed(ClientError):
    """No answer: nothing listens there, the connection broke, or the server took longer than the time-out."""

    def __init__(self, detail: str, code: str = "connection_failed") -> None:
        super().__init__(detail, code)

    def _given(self) -> tuple[Any, ...]:
        return self.detail, self.code


class UnexpectedResponse(ClientError):
    """An answer that no hitl server gives; the address most likely belongs to another program."""

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail, "unexpected_response", status)

    def _given(self) -> tuple[Any, ...]:
        return self.detail, self.status


class ApiError(ClientError):
    """The server refused. Subclasses name the kind of refusal.

    problem: the whole problem object as the server sent it.
    """

    def __init__(self, detail: str, code: str, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(detail, code, status)
        self.problem = problem

    def _given(self) -> tuple[Any, ...]:
        return self.detail, self.code, self.status, self.problem


class BadRequest(ApiError):
    """400: the request makes no sense, for example a session id that is no UUID."""


class Unauthorized(ApiError):
    """401: the server wants an API key, or another one."""


class Forbidden(ApiError):
    """403: not allowed from here."""


class NotFound(ApiError):
    """404: no such session or interrupt, or it was deleted."""


class MethodNotAllowed(ApiError):
    """405: for example a session id of one's own while the server does not take them."""


class Conflict(ApiError):
    """409: the session or the interrupt is not in a state that allows this.

    resolved_by, resolved_at: who answered the interrupt first and when, where that is the conflict.
    claimed_by, claimed_until: who works on the interrupt and until when, where that is the conflict.
    """

    @property
    def resolved_by(self) -> str | None:
        return self._text("resolved_by")

    @property
    def resolved_at(self) -> datetime | None:
        return self._time("resolved_at")

    @property
    def claimed_by(self) -> str | None:
        return self._text("claimed_by")

    @property
    def claimed_until(self) -> datetime | None:
        return self._time("claimed_until")

    def _text(self, member: str) -> str | None:
        text = self.problem.get(member)
        return text if isinstance(text, str) else None

    def _time(self, member: str) -> datetime | None:
        text = self._text(member)
        return None if text is None else datetime.fromisoformat(text)


class Gone(ApiError):
    """410: the interrupt has expired."""


class TooLarge(ApiError):
    """413: the body or the answer is over the server's limit."""


class Invalid(ApiError):
    """422: a value was refused and nothing was changed.

    errors: one `{"loc": [...], "msg": str, "type": str}` for each thing that is wrong.
    """

    @property
    def errors(self) -> Sequence[Mapping[str, Any]]:
        listed = self.problem.get("errors")
        return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


class RateLimited(ApiError):
    """429: too many requests, or too many wrong keys from this address.

    retry_after: seconds the server asks to wait, None where it does not say.
    """

    retry_after: float | None = None


class ServerFault(ApiError):
    """5xx: the server failed."""


class Unavailable(ServerFault):
    """503: too many sessions or a full queue; try again later.

    retry_after: seconds the server asks to wait, None where it does not say.
    """

    retry_after: float | None = None


class ErrorClasses:
    """Which class stands for which HTTP status."""

    BY_STATUS: ClassVar[Mapping[int, type[ApiError]]] = {
        400: BadRequest,
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        405: MethodNotAllowed,
        409: Conflict,
        410: Gone,
        413: TooLarge,
        422: Invalid,
        429: RateLimited,
        503: Unavailable,
    }

    @classmethod
    def of(cls, status: int) -> type[ApiError]:
        return cls.BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
