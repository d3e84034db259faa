"""Limits of a whole turn: what reaches one suspends the turn, and goes past it once somebody retries."""

from __future__ import annotations

import asyncio

from hitl.errors import HitlError
from hitl.turn.runtime import Turn


async def passes(turn: Turn, limit: str, error: HitlError) -> None:
    """Return where the turn was suspended at this very limit and has been retried since, else raise ``error``. One
    that nobody catches suspends the turn."""
    place = turn.enter_call()
    step = turn.names.identify(place, "limit", limit, None, None, None)
    path = step["path"]
    if turn.limits.is_recorded(path):
        turn.order.claim(step, False)
        future = turn.order.expect(path, place.next_number())
        try:
            await future
        except asyncio.CancelledError:
            turn.order.withdraw(path)
            raise
        if turn.limits.is_lifted(path):
            return
    turn.limits.reached(error, step)
    raise error


def uncaught(turn: Turn, error: BaseException) -> None:
    """The agent ends with this error: where a limit is the reason, the journal says which."""
    step = turn.limits.reason(error)
    if step is not None and turn.order.is_live and not turn.has_ended:
        turn.order.records.send_step(step, {"value": None})
