"""How long what is outside may hold a turn: one that waits for a person, and one that is replayed.

Work in a step's body, a thread and an executor's call hold it for as long as they take. Between steps nothing tells
a request that is under way from a connection that is idle for ever, and code there may run again anyway: such a wait
holds a turn with an open question for ``--hold`` seconds, and after those it is paused all the same.

Whatever holds a turn for longer than a moment is said, with the line of code that waits.
"""

from __future__ import annotations

import asyncio

from hitl.errors import ReplayTimeout
from hitl.journal.ports import Holder, TurnPort
from hitl.turn.places import AnyOrder
from hitl.turn.schedule import OUTSIDE
from hitl.turn.waiting import Wait, Waits, waits_of, where

DEFAULT_HOLD = 60.0
"""Seconds: see ``--hold``."""

# Seconds until it is said what holds a turn that waits for a person, and a replay.
_SAID_AFTER = 1.0
_REPLAY_SAID_AFTER = 30.0

# Seconds until it is looked at anew whether the turn is held, and then after twice as long each time: nobody says when
# a thread that is not the turn's has ended, or a connection was closed elsewhere.
_LOOK_AFTER = 0.05


class Hold:
    """That of one turn. ``seconds``: see the module; 0 means without limit. A replay that is held for longer than
    ``replay_timeout`` seconds (0: without limit) fails the turn."""

    def __init__(self, order: AnyOrder, port: TurnPort, seconds: float, replay_timeout: float) -> None:
        self._order = order
        self._port = port
        self._seconds = seconds
        self._replay_timeout = replay_timeout
        self._since = 0.0
        self.has_moved = True
        """The turn was told something, or made a hitl call, since it was looked at: what holds it begins anew."""
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0
        """When that is due."""
        self._said: list[Holder] = []

    def _now(self) -> float:
        now = self._order.schedule.time()
        if self.has_moved:
            self.has_moved, self._since = False, now
        return now

    def stop(self) -> None:
        """Do not look again: the turn is over, or not ours any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def is_over(self, waits: Waits | None) -> bool:
        """Whether a turn with an open question is to be paused although it is held. ``waits`` is None where a body or
        a thread is at work."""
        now = self._now()
        can_end = waits is not None and not waits.in_bodies and self._seconds > 0
        is_over = can_end and now >= self._since + self._seconds
        if is_over or now >= self._since + _SAID_AFTER:
            self._say(waits, is_replay=False)
        if not is_over:
            self._look_again(now, _SAID_AFTER, self._seconds if can_end else 0)
        return is_over

    def delays_replay(self, waits: Waits | None) -> None:
        """A replay waits for somebody to ask for its next entry, and something that may lead there is under way."""
        now = self._now()
        limit = self._since + self._replay_timeout
        if now >= self._since + _REPLAY_SAID_AFTER:
            self._say(waits, is_replay=True)
        if self._replay_timeout > 0 and now >= limit:
            held_by = ", ".join(map(str, self._holders(waits))) or "the agent"
            self._order.turn.fail(
                ReplayTimeout(f"the replay waited {self._replay_timeout:g} s for {held_by}; it can be tried again")
            )
            return
        self._look_again(now, _REPLAY_SAID_AFTER, self._replay_timeout)

    def _look_again(self, now: float, *moments: float) -> None:
        """At the first of these moments that is to come, in seconds since the turn moved, or sooner."""
        held = now - self._since
        sooner = max(_LOOK_AFTER, 2 * held)
        later = self._since + min((moment for moment in moments if held < moment < sooner), default=sooner)
        if self._handle is not None and self._at <= later:
            return
        self.stop()
        self._at = later
        self._handle = self._order.schedule.call_at(later, self._due, context=OUTSIDE.copy())

    def _due(self) -> None:
        self._handle = None
        self._order.deliver_next()

    def _say(self, waits: Waits | None, *, is_replay: bool) -> None:
        holders = self._holders(waits)
        said: list[Holder] = [{"what": wait.what, "location": wait.location} for wait in holders]
        if said and said != self._said:
            self._said = said
            at_work = waits is None or bool(waits.in_bodies)
            self._port.held(said, at_work=at_work, is_replay=is_replay)

    def _holders(self, waits: Waits | None) -> list[Wait]:
        turn = self._order.turn
        waits = waits or waits_of(turn)
        bodies = [
            Wait(f"{scope.kind} {scope.name}", scope.path, None if scope.task is None else where(scope.task))
            for scope in turn.bodies.values()
            if scope.is_busy
        ]
        threads = [Wait("a thread", "0", None)] * (turn.threads > 0)
        return [*bodies, *threads, *waits.in_bodies, *waits.between_steps]
