"""The order of a turn: what it is told, one thing at a time, live and in a replay alike.

Results, answers and timers are delivered in the order of the journal. Between two of them the turn runs until nothing
of it is left to run; the schedule's count of its callbacks tells when. What wakes it from outside the journal (raw I/O)
waits for such a moment too, and leaves a mark. So a turn that is run again from its journal goes the same way, callback
by callback.

Which entry comes next in a replay, and whether the agent asks for what is recorded, is decided by ``_core.Replay``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple

from hitl import _core
from hitl.errors import HitlError, ReplayMismatch, UnreadableJournal
from hitl.journal.codec import encode
from hitl.journal.outcomes import begun
from hitl.journal.ports import PendingTimer, StepIdentity, TurnPort, Wake
from hitl.turn.holding import Hold
from hitl.turn.places import AnyTurn, Place, StepScope, place_var
from hitl.turn.records import Outcome, Records
from hitl.turn.schedule import OUTSIDE, AwaitedFuture, Counted, install
from hitl.turn.timers import Timer
from hitl.turn.waiting import Waits, waits_of, where

# Callbacks of one turn between two deliveries. Only a loop that polls (`while ...: await asyncio.sleep(0)`) needs more.
_MOST_CALLBACKS = 1_000_000

# Rounds of the loop that a timer of a free body waits for the body to have nothing left to run.
_MOST_TRIES = 1000

# How long a replay waits before it takes something for missing: somebody to ask for the next entry where nothing that
# is under way was found to lead there, or a wake that nobody needs to get there. Twice as long as it took live, but not
# longer than the second figure: a turn may have been woken while it waited for a person.
_GRACE_SECONDS = 2.0
_MOST_GRACE_SECONDS = 60.0


class Delivery(NamedTuple):
    """Something to tell the turn: entry ``entry`` of the journal, recorded at ``at`` (ms since 1970)."""

    entry: int
    at: int
    tell: Callable[[], None]


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
        self._seen: int | None = len(journal) - 1 if journal else None
        self._last = 0
        self._runs = 0
        self._expected: dict[str, AwaitedFuture] = {}
        self._timers: dict[str, Timer] = {}
        self._internal: deque[Counted] = deque()
        self._wakes: deque[Counted] = deque()
        self._deliveries: deque[Delivery] = deque()
        self._arriving = 0
        """Calls of threads that have not been taken up."""
        self._is_left_at_work = False
        self._is_delivering = False
        self._reported = False
        self._hold = Hold(self, port, hold, replay_timeout)
        self._grace: asyncio.TimerHandle | None = None
        self._is_impatient = False
        """A grace was waited for in vain since the turn was told something."""
        self._late: list[Callable[[], None]] = []
        self._gate: dict[str, tuple[StepIdentity | None, Callable[[], None]]] = {}
        self._replay: Any = None
        self.began: dict[str, list[int]] = begun(journal)
        """When once steps without a result began (ms since 1970), by path."""
        if len(journal) > 1:
            try:
                self._replay = _core.Replay(journal, code)
            except ValueError as error:
                raise UnreadableJournal(
                    f"this release cannot read the journal of the turn: {error}; it was recorded by another one"
                ) from error

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
        self.schedule.call_soon(Counted(self, callback, args, context), context=context)

    def wake(self, counted: Counted) -> None:
        """Something outside the journal wants to run a callback of the turn."""
        self._wakes.append(counted)
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
        if self._replay is not None:
            self._replay.body_ended(path)
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
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
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
        self._hold.stop()
        for held in (self._internal, self._wakes):
            while held:
                self._run(held.popleft())

    def _advance(self) -> bool:
        """Whether something was told, and the next may be."""
        if self._internal:
            self._run(self._internal.popleft())
        elif self._replay is not None:
            return self._advance_replay()
        elif self._deliveries:
            self._tell(self._deliveries.popleft())
            return True
        elif self._wakes:
            self._pass(self._wakes.popleft())
        else:
            self._report()
        return False

    def _run(self, counted: Counted) -> None:
        self._reported = False
        self.count += 1
        self.schedule.call_soon(counted, context=counted.context)

    def _tell(self, delivery: Delivery) -> None:
        self._reported = self._is_impatient = False
        self._hold.has_moved = True
        self.now = max(self.now, self._clock(delivery.at))
        self._last = delivery.entry
        self.schedule.running = self
        try:
            delivery.tell()
        finally:
            self.schedule.running = None

    def _pass(self, counted: Counted) -> None:
        place = counted.context.get(place_var)
        assert place is not None
        mark: Wake = {"after": self._last, "task": place.path}
        if self.is_pure and place.step is None:
            self.is_pure = False
            mark["location"] = self._where(place.path)
        self.records.marks.append(mark)
        self.now = max(self.now, self.schedule.time())
        self._run(counted)

    def _where(self, path: str) -> str | None:
        return next((where(task) for task, place in self.turn.tasks.items() if place.path == path), None)

    def _clock(self, at: int) -> float:
        return min(at / 1000 + self._offset, self.schedule.time())

    # -- replay -----------------------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether nothing of the journal is left to tell."""
        return self._replay is None or bool(self._replay.done)

    @property
    def last(self) -> int:
        """The entry that the turn was told of last."""
        return self._last

    def claim(self, step: StepIdentity, once: bool) -> tuple[Any, ...]:
        """What the journal knows of a step that is asked for now: see ``_core.Replay.ask``. Fails the turn when it
        does not fit: ``("never",)``."""
        self._hold.has_moved = True
        if self._replay is None:
            return ("live",)
        try:
            claim: tuple[Any, ...] = self._replay.ask(step, once)
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
        if self._replay is None:
            start()
        else:
            self._gate[path] = (step, start)

    def _advance_replay(self) -> bool:
        verdict = self._replay.next()
        kind = verdict[0]
        if kind == "deliver":
            self._tell(self._recorded(verdict[1], verdict[2]))
            return True
        if kind == "end":
            self._go_live()
            return True
        if kind == "wake":
            counted = self._take_wake(verdict[1])
            if counted is not None:
                self._replay.woken()
                self._run(counted)
            else:
                return self._wait(verdict[1])
        elif self._wakes:
            self._pass(self._wakes.popleft())
        else:
            return self._wait()
        return False

    def _take_wake(self, task: str) -> Counted | None:
        timer = self._timers.get(task)
        if timer is not None:  # of a body that was free when it fired
            return Counted(self, self._fire, (task,), OUTSIDE.copy())
        for counted in self._wakes:
            place = counted.context.get(place_var)
            if place is not None and place.path == task:
                self._wakes.remove(counted)
                self.now = max(self.now, self.schedule.time())
                return counted
        return None

    def _recorded(self, index: int, path: str) -> Delivery:
        entry = self._journal[index]
        kind = entry["entry"]
        if kind == "timer":
            return Delivery(index, entry["at"], partial(self._fire, path))
        outcome: Outcome
        if kind != "step":
            self.records.settle(entry["interrupt_id"])
        if kind == "step":
            outcome = entry["result"]
        elif kind == "answer":
            outcome = {"answer": entry["value"]}
        else:
            outcome = {"expired": True}
        return Delivery(index, entry["at"], partial(self._give, path, outcome))

    def _wait(self, woken: str | None = None) -> bool:
        """Nobody has asked for the next entry, or the wake of the task ``woken`` has not come: wait for what may lead
        there, for as long as it takes. Give up where nothing is under way."""
        waits = None if self.is_at_work else waits_of(self.turn)
        if waits is None or (waits and not (woken is not None and self._can_do_without(woken, waits))):
            self._hold.delays_replay(waits)
            return False
        if (waits or waits.is_inferred) and not self._is_impatient:
            until = self.schedule.time() + self._grace_seconds()
            self._grace = self.schedule.call_at(until, self._give_up, context=OUTSIDE.copy())
            return False
        return self._stuck()

    def _can_do_without(self, woken: str, waits: Waits) -> bool:
        """How often raw I/O wakes a task is not the journal's to say: whether the replay comes to its next entry
        without the wake of that task, or by another way."""
        return bool(self._wakes) or not waits.is_of(woken) or bool(self._replay.is_asked_for())

    def _grace_seconds(self) -> float:
        entries = zip(self._journal, self._journal[1:], strict=False)
        took = max((entry["at"] - before["at"] for before, entry in entries if entry["entry"] == "wakes"), default=0)
        return min(max(_GRACE_SECONDS, 2 * took / 1000), _MOST_GRACE_SECONDS)

    def _give_up(self) -> None:
        self._grace = None
        if not self.count and not self.turn.closed and self._replay is not None:
            self._is_impatient = True
            if self._stuck():
                self.deliver_next()

    def _stuck(self) -> bool:
        """Whether what was in the way could be dropped."""
        if self._wakes:  # of another task than the recorded one
            self._replay.woken()
            self._run(self._wakes.popleft())
            return False
        mismatch: ReplayMismatch | None = self._replay.stuck(
            [step for step, _ in self._gate.values() if step is not None]
        )
        if mismatch is not None:
            self.turn.fail(mismatch)
        return mismatch is None

    def agent_returned(self) -> None:
        """Nothing more is told."""
        if self._replay is not None:
            self._is_left_at_work = self._arriving > 0 or self.is_at_work or bool(waits_of(self.turn))

    def returned(self) -> ReplayMismatch | None:
        """The agent has returned: what it left unasked in the journal, if that cannot be."""
        if self._replay is None:
            return None
        mismatch: ReplayMismatch | None = self._replay.returned()
        if self._is_left_at_work:  # what the agent left behind was on its way to what is recorded of it
            mismatch = None
        if mismatch is None:
            self.records.port.replayed(list(self._replay.warnings))
        return mismatch

    def _go_live(self) -> None:
        replay, self._replay = self._replay, None
        self._hold.has_moved = True
        self.records.port.replayed(list(replay.warnings))
        if self.turn.closed:  # this was all that was wanted
            return
        for interrupt_id in replay.orphans():
            self.records.port.withdraw(interrupt_id)
        for timer in list(self._timers.values()):
            if timer.place.is_ordered:
                timer.arm_after_replay()
        late, self._late = self._late, []
        for answered in late:
            answered()
        gate, self._gate = self._gate, {}
        for _, start in gate.values():
            start()

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
        if self._replay is not None:  # newer than the journal: the agent may not have asked yet
            self._late.append(partial(self.answered, interrupt_id, index, at, outcome))
            return
        path = self.records.settle(interrupt_id)
        if path is not None:
            self.deliver(index, at, partial(self._give, path, outcome))
            self.turn.begin_stalled()
            self.deliver_next()

    def deliver(self, index: int, at: int, tell: Callable[[], None]) -> None:
        """Tell the turn of entry ``index`` when its time comes."""
        self._deliveries.append(Delivery(index, at, tell))

    def give(self, path: str, outcome: Outcome, index: int, at: int) -> None:
        """Entry ``index`` is the outcome of the step at ``path``."""
        self.deliver(index, at, partial(self._give, path, outcome))

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
        gated = self._gate.pop(path, None)
        if self._replay is not None:
            self._replay.withdraw(path)
            self.records.forget(path)
        elif gated is None and not self.turn.has_ended:  # the end of a turn cancels what is open by itself
            self.records.withdraw(path)

    def skip(self, path: str) -> None:
        """Leave out what a replay would find inside the step at ``path``; whoever asked for it goes on waiting."""
        if self._replay is not None:
            self._replay.withdraw(path)

    def abandon(self, error: BaseException) -> None:
        """Raise ``error`` in whatever waits in a hitl call."""
        expected, self._expected = self._expected, {}
        for future in expected.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: a step in doubt waits for a person and not for its own future

    def _give(self, path: str, outcome: Outcome) -> None:
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
        delay = when - (self.now if is_ours else self.schedule.time())
        if delay <= 0:
            return self.loop.call_soon(callback, *args, context=context)
        timer = Timer(self, place, when, delay, callback, args, context)
        self._timers[timer.path] = timer
        if place.is_ordered and self._replay is not None:
            self._replay.arm(timer.path)
            timer.deadline = self.now + delay
        else:
            timer.arm()
        return timer

    def forget_timer(self, timer: Timer) -> None:
        """It was cancelled, or has fired in a free body."""
        if self._timers.pop(timer.path, None) is not None and self._replay is not None and timer.place.is_ordered:
            self._replay.disarm(timer.path)

    def free_timer_due(self, timer: Timer, scope: StepScope, tries: int) -> bool:
        """The time of a timer in a free body has come: whether it fires now. Not while something of the body is left to
        run, so that a re-run can tell before what it fired; but a body that polls cannot hold it up for ever."""
        if scope.pending and tries < _MOST_TRIES:
            return False
        self._timers.pop(timer.path, None)
        scope.fired.append((self._last, timer.path))
        return True

    def timer_due(self, timer: Timer) -> None:
        """Its time has come: it fires once that is in the journal."""
        self.records.send_timer(timer.path, self._wall(timer.deadline), partial(self._fire, timer.path))

    def _fire(self, path: str) -> None:
        timer = self._timers.pop(path, None)
        if self._replay is not None:
            self._replay.disarm(path)
        if timer is not None and timer.callback is not None:
            self.soon(timer.callback, timer.args, timer.context)

    def _wall(self, deadline: float) -> int:
        return round((deadline - self._offset) * 1000)

    # -- is the turn at work? ---------------------------------------------------------------------------------------

    @property
    def is_at_work(self) -> bool:
        """Whether a thread, or a body that the journal knows nothing of yet, is at work."""
        turn = self.turn
        return turn.threads > 0 or any(scope.is_busy for scope in turn.bodies.values())

    def _report(self) -> None:
        """Say that the turn awaits nothing but people and timers, if that is so and has not been said."""
        if self._reported or self.records.unacknowledged:
            return
        timers: list[PendingTimer] = [
            {"path": timer.path, "due": self._wall(timer.deadline)}
            for timer in self._timers.values()
            if timer.place.is_ordered
        ]
        if not (self._expected or timers):
            return
        waits = None if self.is_at_work else waits_of(self.turn)
        if self.turn.stalled and waits is not None and not waits.in_bodies and not self.records.is_asking:
            self.turn.fail(next(error for error, _ in self.turn.stalled.values()))
            return
        if (waits is None or waits) and not (self.records.has_questions and self._hold.is_over(waits)):
            return
        context: Any = None
        if self.turn.context is not None and self._expected:
            try:
                context = encode(self.turn.context, "context")
            except (TypeError, ValueError) as unstorable:
                self.turn.fail(TypeError(f"the context of a run that waits must be JSON: {unstorable}"))
                return
        self.records.flush()
        self._reported = True
        self.records.port.waiting(self._seen, timers, context)
