"""Where code of a turn runs: in which task, inside which step. Steps and timers are named after it.

``0`` is the turn's root task, ``0.k`` its k-th child; ``0.1#2`` is the second step of task ``0.1``, ``0.1@2`` its
second timer; a step inside a step's body starts over under it: ``0#3/0#1``. A step with a key is named by that:
``~charge``, and ``~charge/0#1`` inside it, wherever in the code it stands. In the second run of a body that is run
several times (``Rerun``) they are ``0#!2#1`` and ``~charge#!2``.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol, TypeVar

from hitl.errors import HitlError
from hitl.journal.account import Limits, Usage
from hitl.journal.ports import InterruptRequest, StepIdentity

T = TypeVar("T")


agent_name: contextvars.ContextVar[str | None] = contextvars.ContextVar("hitl_agent_name", default=None)
"""Name of the agent that works in this context, when it is not the turn's own (one called as a tool)."""

agent_place: contextvars.ContextVar[str | None] = contextvars.ContextVar("hitl_agent_place", default=None)
"""Where that agent is, when another one has its name too: see ``hitl.agents.namesakes``."""


class AnySchedule(Protocol):
    """What the modules below ``hitl.turn.schedule`` know of a loop's ``Schedule``."""

    running: AnyOrder | None
    moment: float | None

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def time(self) -> Callable[[], float]: ...

    @property
    def call_soon(self) -> Callable[..., Any]: ...

    @property
    def call_soon_threadsafe(self) -> Callable[..., Any]: ...

    @property
    def call_at(self) -> Callable[..., Any]: ...


class AnyOrder(Protocol):
    """What the modules below ``hitl.turn.order`` know of a turn's ``Order``, which explains it."""

    count: int
    now: float

    @property
    def turn(self) -> AnyTurn: ...

    @property
    def schedule(self) -> AnySchedule: ...

    @property
    def is_at_work(self) -> bool: ...

    @property
    def last(self) -> int: ...

    def ran(self) -> None: ...

    def eased(self) -> None: ...

    def deliver_next(self) -> None: ...

    def wake(self, counted: Any) -> None: ...

    def soon(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None: ...

    def arrive(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None: ...

    def deliver(self, index: int, at: int, tell: Callable[[], None]) -> None: ...

    def give(self, path: str, outcome: dict[str, Any], index: int, at: int) -> None: ...

    def set_timer(
        self, place: Place, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> Any: ...

    def timer_due(self, timer: Any) -> None: ...

    def free_timer_due(self, timer: Any, scope: StepScope, tries: int) -> bool: ...

    def forget_timer(self, timer: Any) -> None: ...


class AnyTurn(Protocol):
    """What the modules below ``hitl.turn.runtime`` know of a ``Turn``, which explains it."""

    turn_id: str
    session_id: str | None
    agent: str | None
    loop: asyncio.AbstractEventLoop
    pid: int
    bodies: dict[str, StepScope]
    threads: int
    blocked: dict[object, threading.Thread]
    tasks_made: int
    hashes: int
    closed: bool
    is_parked: bool
    stands_still: bool
    is_over: bool
    context: Any
    stalled: dict[str, tuple[HitlError, Callable[[], None]]]
    usage: Usage
    limits: Limits
    watcher: Any
    """A ``hitl.turn.watching.TurnWatcher``, or None: that module is above this one."""

    @property
    def resources(self) -> Any: ...

    @property
    def order(self) -> AnyOrder: ...

    @property
    def tasks(self) -> dict[asyncio.Task[Any], Place]: ...

    @property
    def has_ended(self) -> bool: ...

    @property
    def may_have_rules(self) -> bool: ...

    def adopt(
        self, task: asyncio.Task[Any], place: Place, done: Callable[[asyncio.Task[Any]], object] | None = None
    ) -> None: ...

    def fail(self, error: BaseException) -> None: ...

    def begin_stalled(self) -> None: ...

    def error_outcome(self, error: BaseException) -> dict[str, Any]: ...

    async def put(self, number: int, step: StepIdentity, request: InterruptRequest, past: object = None) -> Any: ...

    async def run_in_thread(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T: ...


class StepScope:
    """A step whose body runs.

    A body is free until it makes a hitl call of its own: its callbacks run as they come, as of any program. From that
    call on it is ``ordered``, since what it records has to be found again by a re-run: it is then run like the turn
    itself, by the rules of ``hitl.turn.order``. A re-run of a body that asked is ordered from its top.
    """

    __slots__ = (
        "asked",
        "attempt",
        "calls",
        "clock",
        "done",
        "error",
        "fired",
        "kind",
        "name",
        "once",
        "ordered",
        "outer",
        "over",
        "path",
        "pending",
        "plain",
        "shown_as",
        "task",
        "tasks_made",
        "threads",
    )

    def __init__(self, outer: StepScope | None, path: str, kind: str, name: str, once: bool, attempt: int) -> None:
        self.outer = outer
        self.path = path
        self.kind = kind
        self.name = name
        self.once = once
        self.attempt = attempt
        """Grows with every run of the turn: what a model says in a later attempt replaces what it said before."""
        self.shown_as = path
        """The step whose message what a model says here belongs to: of a later try, the first one."""
        self.asked = False
        """Whether a person was asked inside, by this run of the body or, in a replay, by an earlier one."""
        self.ordered = False
        self.over = False
        """The body has come to its end, and nothing of it may record anything more."""
        self.done = False
        """What the body came to has been taken."""
        self.task: asyncio.Task[object] | None = None
        self.error: BaseException | None = None
        """What the body raised, for its traceback."""
        self.plain: dict[str, Any] | None = None
        """The outcome of the body, where its value stands for itself in the journal."""
        self.tasks_made = 0
        self.pending = 0
        """Callbacks of the free body that are scheduled and have not run."""
        self.fired: list[tuple[int, str]] = []
        """Timers that fired while it was free, each with the entry that was delivered last: a re-run has to know."""
        self.clock: float = 0.0 if outer is None else outer.clock
        """It is no earlier than this in the body, on the scale of the loop's clock: what it did before it became
        ordered took time, of which the turn was told nothing."""
        self.threads = 0
        """Threads of ours that run for it and do not wait in a hitl call."""
        self.calls: dict[asyncio.Task[object], None] = {}
        """What its threads wait for, in the order of their calls."""

    @property
    def is_busy(self) -> bool:
        """Whether something runs here that the journal does not know: the body itself, or a thread of it."""
        if self.done:
            return False
        return not self.ordered or self.threads > 0 or self.over

    def begin_again(self) -> None:
        """The body, which made no hitl call, is about to run once more in this run of the turn."""
        self.over = self.done = False
        self.attempt += 1
        self.tasks_made = 0
        self.fired = []

    def end(self) -> None:
        """The body is over. A thread of it cannot be stopped, but waits for nothing any more: how far it had come when
        its task was cancelled, no re-run could tell."""
        self.over = True
        for call in tuple(self.calls):
            call.cancel()


class Rerun:
    """One of several runs of the same body, each from its top: what one of them has finished, the next gets again.

    For frameworks that resume a function by calling it once more with the answer. The second run's steps have paths of
    their own, so that nothing that is left of the first gets in their way.
    """

    __slots__ = ("mark", "outcomes")

    def __init__(self, number: int = 1, outcomes: dict[str, dict[str, Any]] | None = None) -> None:
        self.mark = "" if number == 1 else f"#!{number}"
        """What tells the paths of this run from those of the first."""
        self.outcomes: dict[str, dict[str, Any]] = {} if outcomes is None else outcomes
        """Of what the runs so far have finished, by the path that it has in the first."""


class Place:
    """One task of a turn, or of a step's body. Counts the steps, timers and child tasks that were made in it."""

    __slots__ = ("_children", "_prefix", "_rerun", "_steps", "_task", "_timers", "step", "turn")

    def __init__(self, turn: AnyTurn, step: StepScope | None = None, rerun: Rerun | None = None) -> None:
        """``rerun``: the body is run several times, and this is one of them."""
        self.turn = turn
        self.step = step
        self._prefix = "" if step is None else f"{step.path}/"
        self._rerun = rerun
        self._task = "0" if rerun is None else f"0{rerun.mark}"
        self._steps = 0
        self._timers = 0
        self._children = 0

    @property
    def path(self) -> str:
        """The task's name."""
        return self._prefix + self._task

    @property
    def is_ordered(self) -> bool:
        """Whether what runs here follows the journal's order; see StepScope."""
        return self.step is None or self.step.ordered

    @property
    def holder(self) -> AnyTurn | StepScope:
        """Whose threads those are that work here."""
        return self.turn if self.step is None else self.step

    def next_step(self) -> str:
        """The path of the next step made here."""
        self._steps += 1
        return f"{self._prefix}{self._task}#{self._steps}"

    def following_step(self) -> str:
        """The path that the next step made here will have, if its author does not name it."""
        return f"{self._prefix}{self._task}#{self._steps + 1}"

    def keyed_step(self, key: str) -> str:
        """The path of a step that its author named. A slash would look like a step inside another, a `#` like the
        number of a key's later use."""
        escaped = key.replace("%", "%25").replace("/", "%2F").replace("#", "%23")
        return f"{self._prefix}~{escaped}{'' if self._rerun is None else self._rerun.mark}"

    def finished(self, path: str) -> dict[str, Any] | None:
        """The outcome of a step that an earlier run of this body has finished; None for one that is to be made."""
        return None if self._rerun is None else self._rerun.outcomes.get(self._in_first_run(path, self._rerun))

    def finish(self, path: str, outcome: dict[str, Any]) -> bool:
        """A step that was made here has come to this. Whether that is kept for another run of the body."""
        if self._rerun is None:
            return False
        self._rerun.outcomes[self._in_first_run(path, self._rerun)] = outcome
        return True

    def _in_first_run(self, path: str, rerun: Rerun) -> str:
        return path[len(self._prefix) :].replace(rerun.mark, "", 1) if rerun.mark else path[len(self._prefix) :]

    def next_timer(self) -> str:
        """The path of the next timer set here."""
        self._timers += 1
        return f"{self._prefix}{self._task}@{self._timers}"

    def next_task(self) -> Place:
        """The place of the next task made here."""
        self._children += 1
        child = Place.__new__(Place)
        child.turn = self.turn
        child.step = self.step
        child._prefix = self._prefix
        child._rerun = self._rerun
        child._task = f"{self._task}.{self._children}"
        child._steps = child._timers = child._children = 0
        return child

    def next_number(self) -> int:
        """Tells the tasks and futures of a turn, or of a body, apart in an order that a re-run repeats.

        They hash by it. Sets place what they hold by the low bits, which count alike in every turn; the high ones keep
        those of many turns apart, which share asyncio's set of all tasks.
        """
        scope = self.step if self.step is not None else self.turn
        scope.tasks_made += 1
        return self.turn.hashes + scope.tasks_made


place_var: contextvars.ContextVar[Place | None] = contextvars.ContextVar("hitl_place", default=None)
