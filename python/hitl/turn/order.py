"""The order of a turn: what it is told, one thing at a time, live and in a replay alike.

Results, answers and timers are delivered in the order of the journal. Between two of them the turn runs until nothing
of it is left to run; the schedule's count of its callbacks tells when. What wakes it from outside the journal (raw I/O)
waits for such a moment too, and leaves a mark. So a turn that is run again from its journal goes the same way, callback
by callback.

What a replay is told, and what it waits for: ``hitl.turn.replaying``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any

from hitl.errors import HitlError, ReplayMismatch
from hitl.journal.codec import encode
from hitl.journal.outcomes import begun
from hitl.journal.ports import PendingTimer, StepIdentity, TurnPort, Wake
from hitl.turn.holding import Hold
from hitl.turn.places import AnyTurn, Place, StepScope, place_var
from hitl.turn.records import Delivery, Outcome, Records
from hitl.turn.replaying import Replaying
from hitl.turn.reporting import report_error
from hitl.turn.schedule import OUTSIDE, AwaitedFuture, Counted, install
from hitl.turn.timers import Timer
from hitl.turn.waiting import waits_of, where

# Callbacks of one turn between two deliveries. Only a loop that polls (`while ...: await asyncio.sleep(0)`) needs more.
_MOST_CALLBACKS = 1_000_000

# The end of the year 9999, in ms. A timer that is due later, or never (`asyncio.sleep(math.inf)`), is due then.
_LAST_DUE = 253_402_300_799_999

# Rounds of the loop that a timer of a free body waits for the body to have nothing left to run.
_MOST_TRIES = 1000


class Order:
    """See the module. Belongs to one turn and one loop, and is not safe to use from other threads."""

    def __init__(
        self,
        turn: AnyTurn,
        port: TurnPort,
        loop: asyncio.AbstractEventLoop,
        journal: list[dict[str, Any]],
        code: str,
        *,
        hold: float,
        replay_timeout: float,
    ) -> None:
        """``hold``, ``replay_timeout``: see ``hitl.turn.holding``."""
        self.turn = turn
        self.records = Records(port, self)
        self.schedule = install(loop)
        self.loop = loop
        self.count = 0
        """Callbacks of the turn that are scheduled and have not run."""
        self.is_pure = not any(
            "/" not in wake["task"] for entry in journal if entry["entry"] == "wakes" for wake in entry["wakes"]
        )
        """Whether nothing but the journal has woken the turn so far."""
        self._offset = self.schedule.time() - time.time()
        self.now = self._clock(journal[0]["at"]) if journal else self.schedule.time()
        """The turn's clock, on the scale of the loop's: the time of what it was told last."""
        self._journal = journal
        self._replaying = Replaying(self, journal, code) if len(journal) > 1 else None
        """None once the journal has been told to its end."""
        self._seen: int | None = len(journal) - 1 if journal else None
        self._last = 0
        self._runs = 0
        self._expected: dict[str, AwaitedFuture] = {}
        self.timers: dict[str, Timer] = {}
        self._internal: deque[Counted] = deque()
        self.wakes: deque[Counted] = deque()
        self._deliveries: deque[Delivery] = deque()
        self._arriving = 0
        """Calls of threads that have not been taken up."""
        self._is_delivering = False
        self._reported = False
        self.hold = Hold(self, port, hold, replay_timeout)
        self.began = begun(journal)
        """Once steps without a result that somebody was asked about, or is to be, by path."""

    # -- callbacks of the turn, as the schedule sees them -----------------------------------------------------------

    def ran(self) -> None:
        """A callback has run."""
        self._runs += 1
        self.count -= 1
        if not self.count:
            self._runs = 0
            self.deliver_next()
        elif self._runs == _MOST_CALLBACKS:
            self.turn.fail(
                HitlError(
                    f"the agent ran {_MOST_CALLBACKS:,} callbacks without waiting for anything; a loop around "
                    "asyncio.sleep(0) must wait for an event, or sleep for longer",
                    code="endless_polling",
                )
            )

    def convert(self, scope: StepScope) -> None:
        """A free body makes its first hitl call, in the callback that runs at this moment."""
        scope.ordered = True
        moment = self.schedule.moment
        scope.clock = max(scope.clock, self.schedule.time() if moment is None else moment)
        self.count += scope.pending
        self.records.marks.extend({"after": after, "task": path} for after, path in scope.fired)
        if self.schedule.running is not self:
            self.schedule.running = self
            self.count += 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What is scheduled in this block comes from the turn itself."""
        outer, self.schedule.running = self.schedule.running, self
        self.count += 1
        try:
            yield
        finally:
            self.schedule.running = outer
            self.ran()

    def soon(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        """Run a callback of the turn, as the consequence of one that runs."""
        self.count += 1
        self.schedule.push(Counted(self, callback, args, context))

    def wake(self, counted: Counted) -> None:
        """Something outside the journal wants to run a callback of the turn."""
        self.wakes.append(counted)
        self.deliver_next()

    def arrive(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        """A thread that works for the turn has something to say; it leaves no mark, there is one thread at a time."""

        def arrived() -> None:
            self._arriving -= 1
            callback(*args)

        self._arriving += 1
        self._internal.append(Counted(self, arrived, (), context))
        self.deliver_next()

    def eased(self) -> None:
        """Something that may have kept the turn busy is over."""
        self.deliver_next()

    def body_ended(self, path: str) -> None:
        """The body of that step is over."""
        if self._replaying is not None:
            self._replaying.matcher.body_ended(path)
        self.eased()

    def deliver_next(self) -> None:
        """If nothing of the turn is left to run: tell it the next thing, or say that it waits.

        Never inside code of the turn, whose callbacks are counted; nor inside that of another turn.
        """
        if self.turn.is_over:
            self.release()
        if self._is_delivering or not self._is_quiet():
            return
        if self.schedule.running is not None:
            self.schedule.call_soon(self.deliver_next, context=OUTSIDE.copy())
            return
        if self._replaying is not None and self._replaying.grace is not None:
            self._replaying.grace.cancel()
            self._replaying.grace = None
        self._is_delivering = True
        try:
            while self._is_quiet():
                if not self._advance():
                    break
        finally:
            self._is_delivering = False

    def _is_quiet(self) -> bool:
        return not (self.count or self.turn.closed or self.turn.is_over)

    def release(self) -> None:
        """Run what was held back: the turn is over, or not ours any more, and its tasks must be able to end."""
        self.hold.stop()
        for held in (self._internal, self.wakes):
            while held:
                self.run(held.popleft())

    def _advance(self) -> bool:
        """Whether something was told, and the next may be."""
        if self._internal:
            self.run(self._internal.popleft())
        elif self._replaying is not None:
            return self._replaying.advance()
        elif self._deliveries:
            self.tell(self._deliveries.popleft())
            return True
        elif self.wakes:
            self.pass_wake(self.wakes.popleft())
        else:
            if self.records.has_questions and not self.is_at_work:
                self.records.tell_past()  # what comes next is an answer
            try:
                self._report()
            except Exception as mistake:  # noqa: BLE001 - ours: it is this turn's end, and not that of all on the channel
                report_error(mistake)
                self.turn.fail(mistake)
        return False

    def run(self, counted: Counted) -> None:
        """Run a callback that was held back."""
        self._reported = False
        self.count += 1
        self.schedule.push(counted)

    def tell(self, delivery: Delivery) -> None:
        """Tell the turn the next thing."""
        self._reported = False
        self.hold.has_moved = True
        self.passes(delivery.at)
        self._last = delivery.entry
        self.schedule.running = self
        try:
            delivery.tell()
        finally:
            self.schedule.running = None

    def pass_wake(self, counted: Counted) -> None:
        """Run a callback that something outside the journal woke, and leave a mark."""
        place = counted.context.get(place_var)
        assert place is not None
        mark: Wake = {"after": self._last, "task": place.path}
        if self.is_pure and place.step is None:
            self.is_pure = False
            mark["location"] = self._where(place.path)
        self.records.marks.append(mark)
        if self._replaying is None:
            self.now = max(self.now, self.schedule.time())
        else:
            self._replaying.pass_unmarked()
        self.run(counted)

    def passes(self, at: int) -> None:
        """The turn's clock comes to that time (ms since 1970)."""
        self.now = max(self.now, self._clock(at))

    def run_again(self, scope: StepScope) -> None:
        """A body that asked for something when it ran before begins from its top: ordered, at the time of the first
        entry inside of it. How long it had waited for its resources by then, and worked, no entry tells."""
        scope.ordered = True
        for entry in self._journal:
            path: str = entry["step"]["path"] if "step" in entry else entry.get("path", "")
            if path.startswith(f"{scope.path}/"):
                scope.clock = max(scope.clock, self._clock(entry["at"]))
                return

    def _where(self, path: str) -> str | None:
        return next((where(task) for task, place in self.turn.tasks.items() if place.path == path), None)

    def _clock(self, at: int) -> float:
        return min(at / 1000 + self._offset, self.schedule.time())

    @property
    def wall_time(self) -> float:
        """The time of what the turn was told last, in seconds since 1970: the same in every replay."""
        return self.now - self._offset

    # -- replay -----------------------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether nothing of the journal is left to tell."""
        return self._replaying is None or self._replaying.is_done()

    @property
    def last(self) -> int:
        """The entry that the turn was told of last."""
        return self._last

    def claim(self, step: StepIdentity, once: bool) -> tuple[Any, ...]:
        """What the journal knows of a step that is asked for now: see ``_core.Replay.ask``. Fails the turn when it
        does not fit: ``("never",)``."""
        self.hold.has_moved = True
        if self._replaying is None:
            return ("live",)
        try:
            claim: tuple[Any, ...] = self._replaying.matcher.ask(step, once)
            self._replaying.is_done()
        except ReplayMismatch as mismatch:
            self.turn.fail(mismatch)
            return ("never",)
        if claim[0] == "interrupt":
            self.records.asked(claim[1], step["path"])
        return claim

    def recorded_step(self, path: str) -> tuple[int, StepIdentity] | None:
        """What the journal holds of a step, or of the first inside it, and where: whether it was asked for or not."""
        for index, entry in enumerate(self._journal):
            step: StepIdentity | None = entry.get("step")
            if step is not None and (step["path"] == path or step["path"].startswith(f"{path}/")):
                return index, step
        return None

    def when_live(self, path: str, start: Callable[[], None], step: StepIdentity | None = None) -> None:
        """Do something that is not in the journal: now, or once it has been told to its end, in the order of asking."""
        if self._replaying is None:
            start()
        else:
            self._replaying.gate[path] = (step, start)

    def may_be_past(self, path: str, outcome: Outcome, *, by_any_code: bool = False) -> bool:
        """In a replay: whether the step at ``path``, which the journal does not know, may be new all the same, as this
        code alone has recorded it, or any. Then ``outcome`` is what came of it only where the journal goes on without
        it."""
        if self._replaying is None or not (by_any_code or self._replaying.is_by_this_code):
            return False
        self._replaying.past[path] = outcome
        return True

    def agent_returned(self) -> None:
        """Nothing more is told."""
        if self._replaying is not None:
            self._replaying.agent_returned(self._arriving > 0)

    def returned(self) -> ReplayMismatch | None:
        """The agent has returned: what it left unasked in the journal, if that cannot be."""
        return self._replaying.returned() if self._replaying is not None else None

    def go_live(self) -> None:
        """The journal has been told to its end."""
        self._replaying = None
        self.hold.has_moved = True

    # -- what is received -------------------------------------------------------------------------------------------

    def acknowledged(self, call: int, index: int, at: int, interrupt_id: str | None) -> None:
        """A record is committed as entry ``index``."""
        self._saw(index)
        if not self.turn.closed:
            self.records.acknowledged(call, index, at, interrupt_id)
            self.deliver_next()

    def refused(self, call: int, error: HitlError) -> None:
        """A record was refused: nothing was stored."""
        if not self.turn.closed:
            self.records.refused(call, error)
            self.deliver_next()

    def answered(self, interrupt_id: str, index: int, at: int, outcome: Outcome) -> None:
        """Entry ``index`` settles an interrupt."""
        self._saw(index)
        if self._replaying is not None:  # newer than the journal: the agent may not have asked yet
            self._replaying.late.append(partial(self.answered, interrupt_id, index, at, outcome))
            return
        path = self.records.settle(interrupt_id)
        if path is not None:
            self.records.tell_past()
            self.deliver(index, at, partial(self.hand_over, path, outcome))
            self.turn.begin_stalled()
        else:
            # Withdrawn meanwhile: nobody is told. But a turn that says it waits, and has not seen this, is not paused.
            self._reported = False
        self.deliver_next()

    def deliver(self, index: int, at: int, tell: Callable[[], None]) -> None:
        """Tell the turn of entry ``index`` when its time comes."""
        self._deliveries.append(Delivery(index, at, tell))

    def give(self, path: str, outcome: Outcome, index: int, at: int) -> None:
        """Entry ``index`` is the outcome of the step at ``path``."""
        self.deliver(index, at, partial(self.hand_over, path, outcome))

    def _saw(self, index: int) -> None:
        self._seen = index if self._seen is None else max(self._seen, index)

    # -- who waits --------------------------------------------------------------------------------------------------

    def expect(self, path: str, number: int) -> AwaitedFuture:
        """What the asker of a step or question awaits; ``number``: see ``Place.next_number``."""
        future = AwaitedFuture(number, self.loop)
        self._expected[path] = future
        return future

    def is_expected(self, path: str) -> bool:
        """Whether somebody still waits for that step."""
        return path in self._expected

    def withdraw(self, path: str) -> None:
        """Nobody waits for it any more; it is not to begin, and what comes of it is dropped."""
        self._expected.pop(path, None)
        if self._replaying is not None:
            self._replaying.gate.pop(path, None)
            self._replaying.past.pop(path, None)
            self._replaying.matcher.withdraw(path)
            self.records.forget(path)
        elif not self.turn.has_ended:  # the end of a turn cancels what is open by itself
            self.records.withdraw(path)

    def skip(self, path: str) -> None:
        """Leave out what a replay would find inside the step at ``path``; whoever asked for it goes on waiting."""
        if self._replaying is not None:
            self._replaying.matcher.withdraw(path)

    def abandon(self, error: BaseException) -> None:
        """Raise ``error`` in whatever waits in a hitl call."""
        expected, self._expected = self._expected, {}
        for future in expected.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: a step in doubt waits for a person and not for its own future

    def hand_over(self, path: str, outcome: Outcome) -> None:
        """Give the outcome of a step to whoever awaits it."""
        future = self._expected.pop(path, None)
        if future is not None and not future.done():
            future.set_result(outcome)

    # -- timers -----------------------------------------------------------------------------------------------------

    def set_timer(
        self, place: Place, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> Any:
        """``loop.call_at`` inside the turn: the handle."""
        is_ours = self.schedule.running is self
        if (
            place.is_ordered and not is_ours
        ):  # set by a callback of a socket: not the turn's, but what it fires wakes it
            return self.schedule.call_at(when, callback, *args, context=context)
        delay = when - (self.schedule.now_in(self) if is_ours else self.schedule.moment or self.schedule.time())
        if delay <= 0:
            return self.loop.call_soon(callback, *args, context=context)
        timer = Timer(self, place, when, delay, callback, args, context)
        self.timers[timer.path] = timer
        if place.is_ordered and self._replaying is not None:
            self._replaying.matcher.arm(timer.path)
            timer.deadline = when
        else:
            timer.arm()
        return timer

    def forget_timer(self, timer: Timer) -> None:
        """It was cancelled, or has fired in a free body."""
        if self.timers.pop(timer.path, None) is not None and self._replaying is not None and timer.place.is_ordered:
            self._replaying.matcher.disarm(timer.path)

    def free_timer_due(self, timer: Timer, scope: StepScope, tries: int) -> bool:
        """The time of a timer in a free body has come: whether it fires now. Not while something of the body is left to
        run, so that a re-run can tell before what it fired; but a body that polls cannot hold it up for ever."""
        if scope.pending and tries < _MOST_TRIES:
            return False
        self.timers.pop(timer.path, None)
        scope.fired.append((self._last, timer.path))
        return True

    def timer_due(self, timer: Timer) -> None:
        """Its time has come: it fires once that is in the journal."""
        self.records.send_timer(timer.path, self._wall(timer.deadline), partial(self.fire, timer.path))

    def fire(self, path: str) -> None:
        """Run the callback of a timer."""
        timer = self.timers.pop(path, None)
        if self._replaying is not None:
            self._replaying.matcher.disarm(path)
        if timer is not None and timer.callback is not None:
            self.soon(timer.callback, timer.args, timer.context)

    def _wall(self, deadline: float) -> int:
        return round(min(_LAST_DUE, (deadline - self._offset) * 1000))

    # -- is the turn at work? ---------------------------------------------------------------------------------------

    @property
    def is_at_work(self) -> bool:
        """Whether a thread, or a body that the journal knows nothing of yet, is at work."""
        turn = self.turn
        return turn.threads > 0 or any(scope.is_busy for scope in turn.bodies.values())

    def _report(self) -> None:
        """Say that the turn awaits nothing but people and timers, if that is so and has not been said."""
        if self._reported or self.records.unacknowledged or self.records.is_about_to_tell:
            return
        timers: list[PendingTimer] = [
            {"path": timer.path, "due": self._wall(timer.deadline)}
            for timer in self.timers.values()
            if timer.place.is_ordered
        ]
        if not (self._expected or timers):
            return
        waits = None if self.is_at_work else waits_of(self.turn)
        if self.turn.stalled and waits is not None and not waits.in_bodies and not self.records.is_asking:
            self.turn.fail(next(error for error, _ in self.turn.stalled.values()))
            return
        if (waits is None or waits) and not (self.records.has_questions and self.hold.is_over(waits)):
            return
        self.records.flush()
        self._reported = True
        has_context = self.turn.context is not None and bool(self._expected)
        try:
            context = encode(self.turn.context, "context") if has_context else None
            self.records.port.waiting(self._seen, timers, context)
        except (TypeError, ValueError) as unsendable:  # no JSON, or too large to be sent
            about_context = TypeError(f"the context of a run that waits must be JSON: {unsendable}")
            self.turn.fail(about_context if has_context else unsendable)
