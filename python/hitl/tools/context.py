"""What a tool call knows of the run it is part of, and the functions of an author that get it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hitl.decisions import ApprovalRequest, Decision

if TYPE_CHECKING:
    # With a default, which checkers know and Python does not yet: `RunContext` is a whole type by itself.
    import typing_extensions

    ContextT = typing_extensions.TypeVar("ContextT", default=Any)
else:
    ContextT = TypeVar("ContextT")

ApprovalPolicy = Callable[["RunContext[Any]", dict[str, Any]], bool | Awaitable[bool]]
"""`(ctx, args) -> bool`, plain or async."""
ApprovalDescription = Callable[["RunContext[Any]", dict[str, Any]], str | Awaitable[str]]
"""`(ctx, args) -> str`, plain or async."""
ApprovalCallback = Callable[[ApprovalRequest], Decision | Awaitable[Decision | None] | None]
"""`(ApprovalRequest) -> Decision | None`, plain or async."""

SystemPrompt = Callable[["RunContext[Any]"], str | Awaitable[str]]
"""`(ctx) -> str`, plain or async: the instructions of an agent for one turn."""


@dataclass(frozen=True)
class RunContext(Generic[ContextT]):
    """What a tool call knows about the run it is part of.

    A tool gets it by annotating a parameter with `RunContext`; the model does not see that parameter.
    """

    context: ContextT = None  # type: ignore[assignment]  # whoever says what it is says that there is one
    """The object given to the run; None where it was given none, and on a server: `RunContext[Account | None]` says
    that it may be."""

    tool_call_id: str | None = None
    """The id the model gave the call; None for a call made from Python."""

    agent: str | None = None
    """Name of the agent whose model made the call."""

    session_id: str | None = None
    """The session, where there is one."""

    idempotency_key: str | None = None
    """The same in every re-run of this call and different for every other: hand it to the outside world, so that
    a request sent twice counts once."""
