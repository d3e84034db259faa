"""What runs under every agent: one ``Turn`` that names steps, records them and asks questions.

Internal. Tools, models and agents call ``current_turn()`` and then ``run_step`` or ``ask``; how a record reaches the
journal is the business of the ``TurnPort`` that a worker, or a test, gives to the turn; when the turn is told what came
of it is decided by its ``Order``; how the body of a step is run: ``hitl.turn.bodies``; how people are asked:
``hitl.turn.questions``.

The rule that everything here serves: a result or an answer is durably in the journal before the agent sees it, and
what the agent sees is the decoded copy of what was stored. Nothing else may hand a value to the agent.

A Turn belongs to one event loop; only ``run_sync`` may be called from another thread.
"""

from __future__ import annotations

import asyncio
import binascii
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from hitl.errors import HitlError, Parked, ToolRejected
from hitl.journal.account import Limits, RuleChanges, usage_of
from hitl.journal.error_codec import encode_error
from hitl.journal.ports import TurnPort
from hitl.messages import ChatMessage
from hitl.strict_json import sendable
from hitl.turn import bodies, questions
from hitl.turn.forked import refuse_in_fork, this_process
from hitl.turn.holding import DEFAULT_HOLD
from hitl.turn.naming import StepNames
from hitl.turn.order import Order
from hitl.turn.permits import asked_inside, current_permit
from hitl.turn.places import Place, StepScope, place_var
from hitl.turn.places import agent_name as agent_name
from hitl.turn.places import agent_place as agent_place
from hitl.turn.reasking import TypedQuestions
from hitl.turn.resources import Source, resources_at_work
from hitl.turn.schedule import OUTSIDE, AwaitedFuture
from hitl.turn.threads import ThreadCall, job, label
from hitl.turn.threads import call_blocking as call_blocking
from hitl.turn.unawaited import Unawaited
from hitl.turn.waiting import location_of as location_of
from hitl.turn.watching import TurnWatcher

T = TypeVar("T")

DEFAULT_MAX_PAYLOAD = 16_384
"""Bytes of compact JSON that an interrupt's payload may have when the server says nothing else."""

_SCHEMA_TIMES = 4
"""How many times as large as a payload a JSON Schema may be: ``SCHEMA_TIMES`` in ``src/domain/interrupt.rs``."""

_MOST_ENDED = 8
"""Tasks of a turn that have ended and are not forgotten yet."""

SETTINGS_KEY = "hitl.settings"
"""Names the step that records the settings of a run. A key, so that the steps of an agent that is run with settings are
numbered as without."""

NOTHING = object()
"""No value was given, where None is one."""


def current_turn(caller: str = "this") -> Turn:
    """The turn that runs in this context; RuntimeError when there is none, naming ``caller``."""
    place = place_var.get()
    if place is None:
        raise RuntimeError(
            f"{caller} called outside a hitl run\n\n"
            "hint: call it in an agent, or in what one calls, while `hitl serve` or hitl.run() runs that"
        )
    turn = turn_of(place)
    refuse_in_fork(caller, turn.pid)
    return turn


def turn_of(place: Place) -> Turn:
    """The turn that a place is in. Modules below this one know less of it."""
    turn: Any = place.turn
    made: Turn = turn
    return made


class Turn:
    """One message in, one response out. Made by a worker, entered by ``enter``, ended by ``close``."""

    def __init__(
        self,
        port: TurnPort,
        *,
        turn_id: str,
        session_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        resources: Source[Any] | None = None,
        resources_are_given: bool = False,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
        journal: list[dict[str, Any]] | None = None,
        epoch: int = 1,
        code: str = "",
        sent_by: str | None = None,
        run_bodies: bool = True,
        hold: float = DEFAULT_HOLD,
        replay_timeout: float = 0.0,
    ) -> None:
        """``journal``: what is recorded already, as in the protocol's ``turn`` frame; more than its first entry means
        that this is a replay. ``resources``: those that the turn's agent has declared, or, where they ``are_given``,
        what stands in the place of all that agents declare. ``epoch`` counts the runs of the turn, ``code`` is the code
        version at hand. Without ``run_bodies`` no step begins in the replay, also none that the journal saw at work
        (``unchecked``). ``hold`` and ``replay_timeout``, in seconds: see ``hitl.turn.holding``."""
        self.port = port
        self.turn_id = turn_id
        self.session_id = session_id
        self.agent = agent
        self.sent_by = sent_by
        """The name of the key that sent the message, where a server knows."""
        self.is_own_run = False
        """Whether whoever has the run has begun it, in a program: on a server anybody may have sent its message."""
        self.conversation: tuple[ChatMessage, ...] = ()
        """What was said before the turn, and the message that it answers."""
        self.context = context
        """The object given to the run, for ``RunContext.context``; on a server what ``context_from`` made."""
        self._resources = resources
        self._resources_are_given = resources_are_given
        self.max_payload = max_payload
        self.epoch = epoch
        self.loop = asyncio.get_running_loop()
        self.pid = this_process()
        """The process that it is in: one that code of the agent forks has a copy of it, and no part in it."""
        self._tasks: dict[asyncio.Task[Any], Place] = {}
        """Those of ``tasks``, and some that have ended since somebody asked."""
        self._most_tasks = _MOST_ENDED
        """With so many of them it is time to forget those that have ended."""
        self.bodies: dict[str, StepScope] = {}
        """Steps whose body runs, by path."""
        self.threads = 0
        """Threads of ours that run for the turn itself and do not wait in a hitl call."""
        self.blocked: dict[object, threading.Thread] = {}
        """Threads that wait in a hitl call, whoever made them, by that call."""
        self.tasks_made = 0
        self.hashes = (binascii.crc32(turn_id.encode()) & 0xFFFFF) << 40
        """What the hashes of its tasks and futures begin at."""
        self.closed = False
        self.stands_still = False
        """None of its tasks runs any more, in a process that is about to end."""
        self.is_over = False
        """The agent has returned: what it left behind is still there, but records nothing any more."""
        self.failure: asyncio.Future[BaseException] = self.loop.create_future()
        """What makes it impossible to go on, whatever the agent would catch: a replay that does not fit."""
        self.stalled: dict[str, tuple[HitlError, Callable[[], None]]] = {}
        """Steps that came to nothing, by path: why, and what begins them once more. The turn fails with the first when
        nothing else of it is at work, unless somebody is asked: the answer begins them again."""
        self.unchecked: list[str] = []
        """Steps whose bodies would have run again in this replay."""
        self._run_bodies = run_bodies
        self.is_parked = False
        """It has left memory: its hitl calls raise ``Parked``."""
        self._rule_changes = RuleChanges(journal or [], code)
        self._asked_inside = asked_inside(journal or [])
        self.tool_error_formatter: Callable[[str, dict[str, Any], ToolRejected], str] | None = None
        """Words a rejection for the model, ``(tool_name, args, error)``, where the person gave no message."""
        self.approved_calls: dict[tuple[str, Hashable, str | None], str] = {}
        """What a tool call's id stands for in a step and a conversation there, once approval was asked for: see
        ``hitl.tools.asking``."""
        self.settings: Mapping[str, Any] = {}
        """How models are asked in this run, a ``ModelSettings``: over the settings of whoever has the conversation."""
        self.let_through: set[str] = set()
        """Tools whose calls have stopped to ask whether they may run, and were answered."""
        self.names = StepNames()
        self.patches: dict[tuple[str, str], bool] = {}
        """What ``hitl.patched`` said in this turn."""
        self.typed = TypedQuestions(journal or [])
        self.unawaited = Unawaited()
        self.order = Order(self, port, self.loop, journal or [], code, hold=hold, replay_timeout=replay_timeout)
        # After the order has found that the journal can be read.
        self.usage = usage_of(journal or [])
        """What its models cost so far, nested agents and replies of earlier runs included."""
        self.finish_reason: str | None = None
        """Why the last reply ended that a model gave to the agent itself; None where nobody said."""
        self.limits = Limits(journal or [])
        self.watcher: TurnWatcher | None = None
        """Who is told what happens in it: see ``hitl.turn.watching``."""
        self.abandoned: dict[str, Any] | None = journal[0].get("abandoned") if journal else None
        """What turns before it did that came to no answer: see ``hitl.agents.abandoned``."""

    # -- where code runs ------------------------------------------------------------------------------------------

    def enter(self) -> contextvars.Context:
        """A context in which code belongs to this turn, at its root task."""
        context = contextvars.copy_context()
        context.run(place_var.set, Place(self))
        context.run(agent_name.set, None)
        context.run(agent_place.set, None)
        context.run(resources_at_work.set, None)
        if self.watcher is not None:
            self.watcher.enter(context)
        return context

    def start(self, agent: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        """The turn's root task, which calls ``agent``."""
        context = self.enter()
        with self.order.inside():
            task = asyncio.Task(self._root(agent), loop=self.loop, context=context, name=f"hitl turn {self.turn_id}")
        place = context[place_var]
        assert place is not None
        self.adopt(task, place)
        return task

    async def _root(self, agent: Callable[[], Awaitable[T]]) -> T:
        try:
            return await agent()
        finally:
            self.agent_returned()

    def agent_returned(self) -> None:
        """What the agent left behind records nothing from now on."""
        self.is_over = True
        self.order.agent_returned()

    def adopt(
        self, task: asyncio.Task[Any], place: Place, done: Callable[[asyncio.Task[Any]], object] | None = None
    ) -> None:
        """Know a task of the turn until it has ended. ``done`` is called then, and has to call ``left``."""
        if len(self._tasks) >= self._most_tasks:
            self._most_tasks = _MOST_ENDED + 2 * len(self.tasks)
        self._tasks[task] = place
        # No callback of each says that it has ended: a framework makes many tasks, and callbacks cost more than most.
        if done is not None or self.is_parked:
            task.add_done_callback(done or self.left, context=OUTSIDE.copy())

    @property
    def tasks(self) -> dict[asyncio.Task[Any], Place]:
        """Unfinished tasks of the turn and of its steps, in creation order."""
        for task in [each for each in self._tasks if each.done()]:
            del self._tasks[task]
        return self._tasks

    def left(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if self.is_parked and not task.cancelled():
            task.exception()  # seen: asyncio would log a Parked that nobody awaited

    @property
    def has_ended(self) -> bool:
        """Whether nothing is recorded any more."""
        return self.closed or self.is_over

    @property
    def has_settings(self) -> bool:
        """Whether the run was given settings, now or when it began."""
        return bool(self.settings) or self.order.recorded_step(f"~{SETTINGS_KEY}") is not None

    def close(self) -> None:
        """Nothing is recorded from now on: hitl calls of leftover tasks and threads raise."""
        self.closed = True
        self.order.release()

    def park(self) -> None:
        """Leave memory: whatever waits in a hitl call gets ``Parked``, and nothing is recorded from now on."""
        self.is_parked = True
        self.closed = True
        for task in tuple(self.tasks):
            task.add_done_callback(self.left, context=OUTSIDE.copy())
            awaited = getattr(task, "_fut_waiter", None)
            if not isinstance(awaited, AwaitedFuture | asyncio.Task) and not hasattr(awaited, "_children"):
                task.cancel()  # a sleeper, or one that waits for a lock
        self.order.release()
        self.order.abandon(Parked("the turn was parked"))

    def stand_still(self) -> bool:
        """Stop where it is: it goes on in another process, from its journal, and this one is about to end. No task of
        it is told or runs again, whatever wakes it, while connections that it has used can be closed.

        False where it was not to be stopped so, as something of it is at work.
        """
        if self.order.count or self.order.is_at_work:
            return False
        self.is_parked = True
        self.closed = True
        self.stands_still = True
        self.order.hold.stop()
        return True

    def fail(self, error: BaseException) -> None:
        """The turn cannot go on. No task of it is told, so that no ``except`` can hide it; the worker ends them."""
        if not self.failure.done():
            self.failure.set_result(error)

    def begin_stalled(self) -> None:
        """Try once more what came to nothing: somebody has answered."""
        stalled, self.stalled = self.stalled, {}
        for _, again in stalled.values():
            again()

    def has_rules_for(self, tool_name: str, arguments: dict[str, Any], *keys: str) -> bool:
        """Whether rules may have a say in this call, which needs no approval by itself and is made here and now.
        ``keys``: of its question, of its step and of its refusal, where they are named."""
        if not self.may_have_rules:
            return False
        place, paths = self._places_of(keys)
        if keys and any(made := [place.finished(path) is not None for path in paths]):
            # An earlier run of the body has made it, asked about or not: whatever rules there are now, it goes its way.
            return made[0] or any(made[2:])
        return self._rule_changes.apply_to(tool_name, arguments, *paths)

    def was_made_without_rules(self, *keys: str) -> bool:
        """Whether this replay comes to a call that is no step by itself, and was made when there were no rules: the
        journal goes on past it, and has none of its ``keys``; see ``has_rules_for``."""
        if self.order.is_live:
            return False
        place, paths = self._places_of(keys)
        if any(place.finished(path) is not None for path in paths):
            return False
        return self._rule_changes.were_none(self.order.last, *paths)

    def _places_of(self, keys: Sequence[str]) -> tuple[Place, list[str]]:
        """Where a call is made, and what the next steps with these keys are called; without any, the next step."""
        place = self._here()
        return place, [self.names.numbered(place.keyed_step(key)) for key in keys] or [place.following_step()]

    def is_recorded(self, key: str | None) -> bool:
        """Whether the journal that this run began with has the next step, or question, of this name that is made here,
        or without one the next of all, or one inside of it."""
        place = self._here()
        path = place.following_step() if key is None else self.names.numbered(place.keyed_step(key))
        return self.order.recorded_step(path) is not None

    def is_recorded_before(self, key: str, other: str | None) -> bool:
        """Whether the journal that this run began with has the next step of the name ``key`` that is made here, and not
        before it the next one of the name ``other``, or without that the next of all."""
        place = self._here()
        following = place.following_step() if other is None else self.names.numbered(place.keyed_step(other))
        recorded = self.order.recorded_step(self.names.numbered(place.keyed_step(key)))
        after = self.order.recorded_step(following)
        return recorded is not None and (after is None or recorded[0] < after[0])

    @property
    def may_have_rules(self) -> bool:
        """Whether there may be a call that ``has_rules_for`` is true of."""
        return self._rule_changes.may_apply

    @property
    def max_schema(self) -> int:
        """Bytes of compact JSON that a schema may have which people are shown."""
        return _SCHEMA_TIMES * self.max_payload

    @property
    def resources(self) -> Source[Any] | None:
        """Those of the agent that works in this context."""
        own = None if self._resources_are_given else resources_at_work.get()
        return self._resources if own is None else own

    @property
    def current_step(self) -> StepScope | None:
        """The step whose body runs in this context."""
        place = place_var.get()
        return place.step if place is not None else None

    def idempotency_key(self) -> str:
        """``session/turn/step`` of the step that runs here: the same in every re-run of it."""
        step = self.current_step
        return "/".join((self.session_id or "local", self.turn_id, step.path if step is not None else "0"))

    def _here(self) -> Place:
        """Where a hitl call is made; raises where none may be made."""
        if self.is_parked:
            raise Parked("the turn was parked")
        refuse_in_fork("hitl", self.pid)
        place = place_var.get()
        if place is None or place.turn is not self:
            raise RuntimeError("a hitl call was made outside the turn that it belongs to")
        if asyncio._get_running_loop() is not self.loop:
            raise RuntimeError(
                "a hitl call was awaited on another event loop than that of its turn\n\n"
                "hint: in a thread that runs a loop of its own, call the twin outside of that: hitl.step.sync(...)"
            )
        if self.has_ended:
            raise RuntimeError("a hitl call was made after its turn had ended")
        scope = place.step
        if scope is not None and scope.over:
            raise RuntimeError(f"a task that was started inside step {scope.name!r} outlived it and made a hitl call")
        return place

    def enter_call(self) -> Place:
        """Where a hitl call is made that is recorded. A free body becomes ordered by it."""
        place = self._here()
        if place.step is not None and not place.step.ordered:
            self.order.convert(place.step)
        return place

    # -- steps ----------------------------------------------------------------------------------------------------

    async def run_step(
        self,
        kind: str,
        name: str,
        body: Callable[[], Awaitable[T]],
        *,
        key: str | None = None,
        location: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        once: bool = False,
        past: Any = NOTHING,
        is_edit: bool = False,
        by_any_code: bool = False,
        tool_call_id: str | None = None,
        only_steps: bool = False,
        shown: bodies.Shown = None,
        source: Source[Any] | None = None,
    ) -> T:
        """Run ``body``, record its outcome, and return (or raise) the decoded copy of the record.

        ``kind`` is one of the protocol's kinds; ``arguments`` are hashed one by one, not stored; ``once`` says that a
        crash in the middle is for a person to judge, not a reason to run again. With a recorded outcome the body does
        not run. A cancelled caller cancels the body and records nothing. Values that the codec does not take are a
        TypeError that names the path.

        ``past`` is returned, and nothing recorded, where a replay finds no record of the step although the journal goes
        on after it; of an ``is_edit`` only where the journal goes on because of that, unless other code began the turn
        (``by_any_code``: also then).
        ``tool_call_id`` says which call of a model's message it belongs to. With ``only_steps``
        all that the body does is steps and questions, so that a check of the journal, too, may run it again.
        ``shown``: of a tool, those of its arguments that whoever watches may see; what is to be seen elsewhere, nothing
        that code has added. ``source``: what is opened first, where the body has to run; where that cannot be the turn
        is suspended.
        """
        place = self.enter_call()
        step = self.names.identify(place, kind, name, key, location, arguments)
        if tool_call_id is not None:
            step["tool_call_id"] = tool_call_id
        path = step["path"]
        if (finished := place.finished(path)) is not None:
            again: T = bodies.opened(finished, None)
            return again
        claim = self.order.claim(step, once)[0]
        is_past = past is not NOTHING and claim == "live" and not self.order.is_live
        if is_past and not (is_edit and self.order.may_be_past(path, {"value": past}, by_any_code=by_any_code)):
            result: T = past
            return result
        number = place.next_number()
        future = self.order.expect(path, number)
        stands_before = current_permit()
        scope: StepScope | None = None
        try:
            if claim != "recorded":  # else it needs neither a body nor what belongs to one
                scope = StepScope(place.step, path, kind, name, once, self.epoch)
                if self.watcher is not None and claim != "never":
                    self.watcher.step_asked(step, scope, shown)
                start = partial(bodies.start_body, self, scope, step, body, contextvars.copy_context())
                begin = partial(bodies.begin, self, scope, step, start, shown, source)
                runs = self.order.began.get(path)
                if claim == "live":
                    self.order.when_live(path, begin, step)
                elif claim == "never" or (
                    runs is not None and await bodies.was_said(self, step, number, arguments, runs.doubtful)
                ):
                    pass  # no body runs
                elif runs is not None and not runs.goes_on:
                    self.order.when_live(path, begin, step)
                elif not (self._run_bodies or only_steps):
                    self.unchecked.append(f"{kind} {name}")
                    self.order.skip(path)
                else:
                    bodies.run_again(self, scope, step, start, source)
            outcome = await future
        except asyncio.CancelledError:
            self.stalled.pop(path, None)
            self.order.withdraw(path)
            if scope is not None and scope.task is not None:
                scope.task.cancel()
            raise
        except Exception:  # it could not begin: what it waited for does not come
            self.order.withdraw(path)
            raise
        is_kept = place.finish(path, outcome) or self.watcher is not None
        if stands_before is not None and (path in self._asked_inside if scope is None else scope.asked):
            stands_before.asked = True
        opened: T = bodies.opened(outcome, scope, is_kept=is_kept)
        return opened

    @staticmethod
    def error_outcome(error: BaseException) -> dict[str, Any]:
        """An exception as the result of a step."""
        return {"error": encode_error(error)}

    def delta(self, delta: dict[str, str]) -> None:
        """Show ``{"content": str}`` or ``{"reasoning": str}`` of the model step that runs here to whoever watches."""
        step = self.current_step
        if step is None:
            raise RuntimeError("delta() called outside a step")
        if not self.closed:
            self.port.delta(step.shown_as, step.attempt, sendable(delta))

    # -- questions ------------------------------------------------------------------------------------------------

    ask = questions.ask
    request = questions.request
    put = questions.put

    # -- threads --------------------------------------------------------------------------------------------------

    async def run_in_thread(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Run a blocking function in a thread of its own, in a copy of this context.

        Not a pool: a function that waits for a person for a week must not take a place from another, and a blocked
        thread must not keep the process alive. A cancelled caller stops waiting; the thread cannot be stopped.
        """
        place = self._here()
        context = contextvars.copy_context()
        done, run = job(self, place, context, partial(function, *args, **kwargs))
        threading.Thread(target=run, name=f"hitl {label(function)}", daemon=True).start()
        try:
            return await done
        finally:
            del done  # a ring, as in ``bodies.opened``

    def run_sync(self, caller: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of this turn from one of its threads and wait for it. ``caller`` is for the error message.

        A step body that is a plain function runs in the waiting thread (see ``call_blocking``): a database
        connection that belongs to the thread keeps working.
        """
        refuse_in_fork(f"{caller}.sync()", self.pid)
        running = asyncio._get_running_loop()
        if running is self.loop:
            raise RuntimeError(f"{caller}.sync() would block the event loop; use: await {caller}(...)")
        if running is not None:
            raise RuntimeError(
                f"{caller}.sync() would block the event loop of this thread; call it outside of that loop"
            )
        return ThreadCall(self).run(make)
