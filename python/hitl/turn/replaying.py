"""A replay: a turn is told what its journal holds, until it stands where it stood.

Which entry comes next, and whether the agent asks for what is recorded, is decided by ``_core.Replay``, the matcher.
What the turn asks for beyond its journal waits at a gate until that has been told to its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from hitl import _core
from hitl.errors import ReplayMismatch, UnreadableJournal
from hitl.journal.ports import StepIdentity
from hitl.turn.holding import Hold
from hitl.turn.places import AnyOrder, place_var
from hitl.turn.records import Delivery, Outcome, Records
from hitl.turn.schedule import OUTSIDE, Counted
from hitl.turn.timers import Timer
from hitl.turn.waiting import Waits, waits_of

# How long a replay waits before it takes something for missing: somebody to ask for the next entry where nothing that
# is under way was found to lead there, or a wake that nobody needs to get there. Twice as long as it took live; but no
# longer than the first figure once the waits in vain come to the second. A turn may have been woken while it waited for
# a person, or many times on a machine that was busy then.
_GRACE_SECONDS = 2.0
_MOST_GRACE_SECONDS = 60.0

# Entries that are recorded as soon as the turn has come so far.
_WORK = frozenset({"intent", "step", "ask", "wakes"})


class _Order(AnyOrder, Protocol):
    """What is known here of an ``Order`` besides."""

    records: Records
    hold: Hold
    timers: dict[str, Timer]
    wakes: deque[Counted]

    @property
    def last(self) -> int: ...

    def go_live(self) -> None: ...

    def tell(self, delivery: Delivery) -> None: ...

    def run(self, counted: Counted) -> None: ...

    def pass_wake(self, counted: Counted) -> None: ...

    def passes(self, at: int) -> None: ...

    def fire(self, path: str) -> None: ...

    def hand_over(self, path: str, outcome: Outcome) -> None: ...


class Replaying:
    """That of one turn, from its beginning to its end. See the module."""

    def __init__(self, order: _Order, journal: list[dict[str, Any]], code: str) -> None:
        self._order = order
        self._journal = journal
        try:
            self.matcher: Any = _core.Replay(journal, code)
        except ValueError as error:
            raise UnreadableJournal(
                f"this release cannot read the journal of the turn: {error}; it was recorded by another one"
            ) from error
        self.gate: dict[str, tuple[StepIdentity | None, Callable[[], None]]] = {}
        """What begins once the journal has been told to its end, by path."""
        self.is_by_this_code = all(
            entry.get("code") == code for entry in journal if entry["entry"] in ("start", "taken")
        )
        """Whether all of the journal was recorded under the code version at hand."""
        self.past: dict[str, Outcome] = {}
        """What steps at the gate come to, by path, as soon as the journal does not go on without them."""
        self._woken_at: dict[str, deque[int]] = {}
        """When the wakes of each task came, or soon after (ms since 1970)."""
        for entry in journal:
            for wake in entry["wakes"] if entry["entry"] == "wakes" else ():
                self._woken_at.setdefault(wake["task"], deque()).append(entry["at"])
        self.late: list[Callable[[], None]] = []
        """Answers that are newer than the journal."""
        self.grace: asyncio.TimerHandle | None = None
        self._is_impatient = False
        """A grace was waited for in vain since the turn was told something."""
        self._grace_left = _MOST_GRACE_SECONDS
        self._is_left_at_work = False
        self._is_over = False
        self._is_done = False
        """What ``is_done`` said last."""

    def is_done(self) -> bool:
        """Whether nothing of the journal is left to tell. The matcher is the loop's: of a thread that asks it, it would
        wait for the lock of the interpreter, and that thread for it."""
        if asyncio._get_running_loop() is self._order.turn.loop:
            self._is_done = bool(self.matcher.done)
        return self._is_done

    def advance(self) -> bool:
        """Whether something was told, and the next may be."""
        verdict = self.matcher.next()
        self.is_done()
        kind = verdict[0]
        if kind == "deliver":
            self._is_impatient = False
            self._order.tell(self._recorded(verdict[1], verdict[2]))
            return True
        if kind == "end":
            self._go_live()
            return True
        if kind == "wake":
            counted = self._take_wake(verdict[1])
            if counted is not None:
                self.matcher.woken()
                self._order.run(counted)
            else:
                return self._wait(verdict[1])
        elif self._order.wakes:
            self._order.pass_wake(self._order.wakes.popleft())
        else:
            return self._wait()
        return False

    def _take_wake(self, task: str) -> Counted | None:
        timer = self._order.timers.get(task)
        if timer is not None:  # of a body that was free when it fired
            return Counted(self._order, self._order.fire, (task,), OUTSIDE.copy())
        for counted in self._order.wakes:
            place = counted.context.get(place_var)
            if place is not None and place.path == task:
                self._order.wakes.remove(counted)
                if came := self._woken_at.get(task):
                    self._order.passes(came.popleft())
                return counted
        return None

    def pass_unmarked(self) -> None:
        """A wake that left no mark: of a body that was free when it came. It was before the next entry; but how long
        people took is nothing that the turn's clock may count as work."""
        following = self._order.last + 1
        if following < len(self._journal) and self._journal[following]["entry"] in _WORK:
            self._order.passes(self._journal[following]["at"])

    def _recorded(self, index: int, path: str) -> Delivery:
        entry = self._journal[index]
        kind = entry["entry"]
        if kind == "timer":
            return Delivery(index, entry["at"], partial(self._order.fire, path))
        outcome: Outcome
        if kind != "step":
            self._order.records.settle(entry["interrupt_id"])
        if kind == "step":
            outcome = entry["result"]
        elif kind == "answer":
            outcome = {"answer": entry["value"]}
        else:
            outcome = {"expired": True}
        return Delivery(index, entry["at"], partial(self._order.hand_over, path, outcome))

    def _wait(self, woken: str | None = None) -> bool:
        """Nobody has asked for the next entry, or the wake of the task ``woken`` has not come: wait for what may lead
        there, for as long as it takes. Give up where nothing is under way."""
        if woken is None and self._go_past():
            return True
        waits = None if self._order.is_at_work else waits_of(self._order.turn)
        # What is at work may itself be held back behind a wake that comes no more.
        can_do_without = woken is not None and (
            bool(self._order.wakes) if waits is None else self._can_do_without(woken, waits)
        )
        if (waits is None or waits) and not can_do_without:
            self._order.hold.delays_replay(waits)
            return False
        if (waits is None or waits or waits.is_inferred) and not self._is_impatient:
            seconds = self._grace_seconds()
            until = self._order.schedule.time() + seconds
            self.grace = self._order.schedule.call_at(until, self._give_up, seconds, context=OUTSIDE.copy())
            return False
        return self._stuck()

    def _can_do_without(self, woken: str, waits: Waits) -> bool:
        """How often raw I/O wakes a task is not the journal's to say: whether the replay comes to its next entry
        without the wake of that task, or by another way."""
        return bool(self._order.wakes) or not waits.is_of(woken) or bool(self.matcher.is_asked_for())

    def _grace_seconds(self) -> float:
        entries = zip(self._journal, self._journal[1:], strict=False)
        took = max((entry["at"] - before["at"] for before, entry in entries if entry["entry"] == "wakes"), default=0)
        return max(_GRACE_SECONDS, min(2 * took / 1000, self._grace_left))

    def _give_up(self, waited: float) -> None:
        self.grace = None
        self._grace_left = max(self._grace_left - waited, 0.0)
        if not self._order.count and not self._order.turn.closed and not self._is_over:
            self._is_impatient = True
            if self._stuck():
                self._order.deliver_next()

    def _go_past(self) -> bool:
        """Let go on what waits at the gate and was not there when the next entry was recorded. Whether anything did."""
        for path, outcome in self.past.items():
            del self.past[path], self.gate[path]
            last = self._order.last
            self._order.tell(Delivery(last, self._journal[last]["at"], partial(self._order.hand_over, path, outcome)))
            return True
        return False

    def _stuck(self) -> bool:
        """Whether what was in the way could be dropped."""
        if self._order.wakes:  # of another task than the recorded one
            self.matcher.woken()
            self._order.run(self._order.wakes.popleft())
            return False
        if self._go_past():
            return True
        mismatch: ReplayMismatch | None = self.matcher.stuck(
            [step for step, _ in self.gate.values() if step is not None]
        )
        if mismatch is not None:
            self._order.turn.fail(mismatch)
        return mismatch is None

    def agent_returned(self, is_arriving: bool) -> None:
        """Nothing more is told. ``is_arriving``: a thread has something to say."""
        self._is_left_at_work = is_arriving or self._order.is_at_work or bool(waits_of(self._order.turn))

    def returned(self) -> ReplayMismatch | None:
        """See ``Order.returned``."""
        mismatch: ReplayMismatch | None = self.matcher.returned()
        if self._is_left_at_work:  # what the agent left behind was on its way to what is recorded of it
            mismatch = None
        if mismatch is None:
            self._order.records.port.replayed(list(self.matcher.warnings))
        return mismatch

    def _go_live(self) -> None:
        self._is_over = True
        self._order.go_live()
        self._order.records.port.replayed(list(self.matcher.warnings))
        if self._order.turn.closed:  # this was all that was wanted
            return
        for interrupt_id in self.matcher.orphans():
            self._order.records.port.withdraw(interrupt_id)
        for timer in list(self._order.timers.values()):
            if timer.place.is_ordered:
                timer.arm_after_replay()
        late, self.late = self.late, []
        gate, self.gate = self.gate, {}
        try:
            for begin in (*late, *(start for _, start in gate.values())):
                begin()
        except Exception as error:  # noqa: BLE001 - whoever asked for it waits, and nobody else would hear of it
            self._order.turn.fail(error)
