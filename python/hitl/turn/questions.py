"""What a turn asks people: how a question is made, put, and what comes of it. Methods of a ``Turn``."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, Protocol

from hitl.errors import InterruptExpired
from hitl.journal.error_codec import decode_error
from hitl.journal.ports import ApprovalMembers, InterruptRequest, StepIdentity
from hitl.turn.naming import StepNames
from hitl.turn.order import Order
from hitl.turn.permits import current_permit
from hitl.turn.places import AnyTurn, Place, agent_name
from hitl.turn.reasking import Reader, TypedQuestions
from hitl.turn.stopwatch import paused

_NOBODY: Final = "nobody answered in time"
_EXPIRED: Final[dict[str, Any]] = {"expired": True}


class _AskingTurn(AnyTurn, Protocol):
    """What is known here of a ``Turn`` besides."""

    names: StepNames
    typed: TypedQuestions

    @property
    def order(self) -> Order: ...

    def enter_call(self) -> Place: ...

    def request(self, type: str, payload: dict[str, Any], **members: Any) -> InterruptRequest: ...


async def ask(
    turn: _AskingTurn,
    type: str,
    payload: dict[str, Any],
    *,
    message: str | None = None,
    response_schema: dict[str, Any] | None = None,
    allowed_decisions: list[str] | None = None,
    tool_call_id: str | None = None,
    agent: str | None = None,
    args_digest: str | None = None,
    expires_in: float | None = None,
    has_default: bool = False,
    metadata: dict[str, Any] | None = None,
    key: str | None = None,
    location: str | None = None,
    approval: ApprovalMembers | None = None,
    approvers: tuple[str, ...] = (),
    read: Reader | None = None,
    takes_past: bool = False,
) -> Any:
    """Open an interrupt and wait for its answer, a JSON value; or what ``read`` makes of the first that it takes.
    ``takes_past``: or one that it refuses, where the journal went on with that.

    ``payload`` is valid already (``_core.check_payload``). ``expires_in`` is in seconds. Raises InterruptExpired
    when nobody answered in time, and the matching HitlError when the server refuses the question.
    """
    place = turn.enter_call()
    scope = place.step
    while scope is not None:
        scope.asked = True
        scope = scope.outer
    step = turn.names.identify(place, "interrupt", type, key, location, {"payload": payload})
    if tool_call_id is not None:
        step["tool_call_id"] = tool_call_id
    request = turn.request(
        type,
        payload,
        message=message,
        response_schema=response_schema,
        allowed_decisions=allowed_decisions,
        tool_call_id=tool_call_id,
        args_digest=args_digest,
        expires_in=expires_in,
        has_default=has_default,
        metadata=metadata,
    )
    if approval is None and (stands_before := current_permit()) is not None:
        stands_before.asked = request["lets_run"] = True
    if approvers:
        request["approvers"] = list(approvers)
    if approval is not None:
        request.update(approval)  # type: ignore[typeddict-item]  # its members are all members of a request
    if agent is not None:
        request["agent"] = agent
    if (finished := place.finished(step["path"])) is not None:
        if finished is _EXPIRED:
            raise InterruptExpired(_NOBODY)
        return finished["answer"]
    try:
        with paused():
            if read is not None:
                answer = await turn.typed.ask(turn, place, step, request, read, takes_past)
            else:
                answer = await turn.put(place.next_number(), step, request)
    except InterruptExpired:
        place.finish(step["path"], _EXPIRED)
        raise
    place.finish(step["path"], {"answer": answer})
    return answer


def request(turn: _AskingTurn, type: str, payload: dict[str, Any], **members: Any) -> InterruptRequest:
    """A question of this turn, with members that are not as they mostly are."""
    request: InterruptRequest = {
        "type": type,
        "payload": payload,
        "message": None,
        "response_schema": None,
        "allowed_decisions": None,
        "tool_call_id": None,
        "agent": agent_name.get() or turn.agent,
        "args_digest": None,
        "expires_in": None,
        "has_default": False,
        "metadata": None,
    }
    request.update(members)  # type: ignore[typeddict-item]  # all callers name members of a request
    return request


async def put(
    turn: _AskingTurn, number: int, step: StepIdentity, request: InterruptRequest, past: object = None
) -> Any:
    """Put one question and wait for its answer; for ``past``, if it is given, where the journal goes on without that
    question. ``number``: see ``Place.next_number``."""
    path = step["path"]
    claim = turn.order.claim(step, False)[0]
    future = turn.order.expect(path, number)
    try:
        if turn.watcher is not None:
            turn.watcher.asks(step, request)
        if claim == "live":
            if past is not None:
                turn.order.may_be_past(path, {"answer": past}, by_any_code=True)
            turn.order.when_live(path, partial(turn.order.records.send_ask, step, request), step)
    except BaseException:
        turn.order.withdraw(path)
        raise
    try:
        outcome = await future
    except asyncio.CancelledError:
        turn.order.withdraw(path)
        raise
    if "answer" in outcome:
        return outcome["answer"]
    if "expired" in outcome:
        raise InterruptExpired(_NOBODY)
    raise decode_error(outcome["error"])
