"""The context of a served turn: made of its request by a function of the author's, once, as a step of the turn."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from hitl.messages import ChatMessage
from hitl.turn.runtime import Turn
from hitl.turn.threads import call_blocking

KEY = "hitl.context"
"""Names the step. A key, so that the steps of an agent that begins to have a context are numbered as before."""


@dataclass(frozen=True)
class TurnRequest:
    """What a turn began with, as `context_from` sees it. Of the request's key only the name is part of it, and no token
    or header.

    Example:
        def account(request: TurnRequest) -> dict[str, str]:
            return {"user": request.user_params["user"]}

        agent = ReActAgent(context_from=account)
    """

    message: ChatMessage
    """The message that was sent; a copy."""

    session_id: str | None = None
    """The session, where there is one."""

    agent: str | None = None
    """What the agent is called."""

    user_params: dict[str, Any] = field(default_factory=dict)
    """The message's own `user_params`: JSON that the client sent, as it sent it; empty where it sent none.

    Whoever may send a message chooses what is in it: look up what a user may do, and do not take it from here."""

    sent_by: str | None = None
    """The name of the key that sent the message, which its sender cannot choose; None where a server asks for no keys,
    and in `hitl.run`."""


ContextFrom = Callable[[TurnRequest], Any | Awaitable[Any]]
"""`(TurnRequest) -> context`, plain or async. What it returns is stored in the journal: JSON, a pydantic model, a
dataclass."""


async def set_context(turn: Turn, context_from: ContextFrom, message: ChatMessage) -> None:
    """Make the turn's context, where it was given none. One that was recorded is taken from the journal; a turn that
    was begun without one goes on without it."""
    if turn.context is not None and turn.order.recorded_step(f"~{KEY}") is None:
        return

    async def make() -> Any:
        # What it changes in there is its own affair: a replay would not see it.
        given = copy.deepcopy(message)
        request = TurnRequest(given, turn.session_id, turn.agent, given.user_params or {}, turn.sent_by)
        if inspect.iscoroutinefunction(context_from):
            return await context_from(request)
        made = await call_blocking(turn, context_from, request)
        return await made if inspect.isawaitable(made) else made

    made = await turn.run_step("step", "context_from", make, key=KEY, past=None)
    if turn.context is None:
        turn.context = made
