"""Timers of a turn: what ``asyncio.sleep``, ``timeout`` and ``wait_for`` set, by way of the loop's ``call_later``.

Only that a timer fired is recorded; it then happens at that place of the journal, whatever the clock says. While the
journal is replayed nothing is armed. A timer of a free body (see ``hitl.turn.places``) is an ordinary one until the
body becomes ordered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from hitl.turn.places import AnyOrder, Place

# What a replayed turn waits for may be long overdue: a client that is asked again must get some time to answer.
_LEAST_AFTER_REPLAY = 30.0


class Timer:
    """One timer; also the handle that its caller gets."""

    __slots__ = ("_delay", "_handle", "_when", "args", "callback", "context", "deadline", "order", "path", "place")

    def __init__(
        self,
        order: AnyOrder,
        place: Place,
        when: float,
        delay: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
    ) -> None:
        self.order = order
        self.place = place
        self.path = place.next_timer()
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.deadline = order.schedule.time() + delay
        """On the loop's own clock."""
        self._when = when
        self._delay = delay
        self._handle: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Let it fire at its time."""
        self._handle = self.order.schedule.call_at(self.deadline, self._due, context=self.context)

    def arm_after_replay(self) -> None:
        """The same for one that was set long ago."""
        self.deadline = max(self.deadline, self.order.schedule.time() + min(self._delay, _LEAST_AFTER_REPLAY))
        self.arm()

    def _due(self, tries: int = 0) -> None:
        if self.callback is None:
            return
        scope = self.place.step
        if self.place.turn.has_ended:
            self.callback(*self.args)
        elif scope is None or scope.ordered:
            self.order.timer_due(self)
        elif self.order.free_timer_due(self, scope, tries):
            self.callback(*self.args)
        else:
            self.order.schedule.call_soon(self._due, tries + 1, context=self.context)

    def cancel(self) -> None:
        """Do not fire."""
        if self.callback is not None:
            self.callback = None
            self.args = ()
            self.order.forget_timer(self)
            if self._handle is not None:
                self._handle.cancel()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.callback is None

    def when(self) -> float:
        """The deadline, on the turn's clock."""
        return self._when
