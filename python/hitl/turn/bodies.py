"""How the body of a step is run, and what comes of it: its outcome, encoded for the journal and decoded for the agent.

A body runs as a task of its own. Where it ended without an outcome (``NoOutcome``), it can be begun once more.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

from hitl.errors import HitlError
from hitl.journal.codec import decode, encode
from hitl.journal.error_codec import decode_error
from hitl.journal.outcomes import question as outcome_question
from hitl.journal.outcomes import result_of as outcome_result
from hitl.journal.outcomes import stored_as_json
from hitl.journal.plain import NOT_PLAIN, copy_plain
from hitl.journal.ports import InterruptRequest, StepIdentity
from hitl.turn.lease import stand_still
from hitl.turn.order import Order
from hitl.turn.places import AnyTurn, Place, StepScope, place_var
from hitl.turn.resources import Source
from hitl.turn.schedule import OUTSIDE
from hitl.turn.threads import contained


class _Turn(AnyTurn, Protocol):
    """What is known here of a ``Turn`` besides."""

    max_payload: int

    @property
    def order(self) -> Order: ...

    def left(self, task: asyncio.Task[Any]) -> None: ...

    def enter_call(self) -> Place: ...

    def request(self, type: str, payload: dict[str, Any], **members: Any) -> InterruptRequest: ...


Shown = Mapping[str, Any] | None
"""What a tool is called with, as it may be shown: as the model's message has it, or whoever approved the call."""


class NoOutcome(Exception):
    """Raised by the body of a step, for ``error``: it came to nothing that may be recorded."""

    def __init__(self, error: HitlError) -> None:
        super().__init__(error)
        self.error = error


def begin(
    turn: _Turn,
    scope: StepScope,
    step: StepIdentity,
    start: Callable[[], None],
    shown: Shown,
    source: Source[Any] | None = None,
) -> None:
    """Start a body; that of a once step as soon as it is recorded that it begins. Whoever watches is told of a tool.

    ``source``: what has to be open by then. Before anything is said of the step: one that cannot begin has not begun,
    and is nothing to ask a person about.
    """
    if source is not None and not source.is_open:
        _begin_open(turn, scope, step, source, partial(begin, turn, scope, step, start, shown, source))
    elif scope.once:
        turn.order.records.send_intent(step, start, shown)
    elif scope.kind == "tool":
        turn.order.records.send_started(step, start, shown)
    else:
        start()


def run_again(
    turn: _Turn, scope: StepScope, step: StepIdentity, start: Callable[[], None], source: Source[Any] | None
) -> None:
    """Start a body in a replay that asked for something when it ran before: from its top."""
    if source is not None and not source.is_open:
        _begin_open(turn, scope, step, source, partial(run_again, turn, scope, step, start, source))
        return
    turn.order.run_again(scope)
    start()


def _begin_open(
    turn: _Turn, scope: StepScope, step: StepIdentity, source: Source[Any], go_on: Callable[[], None]
) -> None:
    """Open what a body needs, then go on. Outside of the turn's order, as a thread that works for it: no mark is left.

    Meanwhile the step is at work. Where it cannot be opened it has come to nothing, and the turn is suspended.
    """
    turn.bodies[scope.path] = scope
    opening = source.open()

    def opened(_: object) -> None:
        if turn.bodies.get(scope.path) is scope:
            del turn.bodies[scope.path]
        if not turn.has_ended and turn.order.is_expected(scope.path):
            error = opening.exception()
            if error is None:
                turn.order.arrive(go_on, (), OUTSIDE.copy())
            elif not turn.order.is_live:
                turn.fail(error)  # a replay would wait for what is recorded of the body
            elif isinstance(error, HitlError) and not _is_inside_once(scope):
                turn.stalled[scope.path] = (error, partial(_begin_open, turn, scope, step, source, go_on))
            else:
                turn.order.when_live(scope.path, partial(turn.order.records.send_step, step, turn.error_outcome(error)))
        turn.order.eased()

    opening.add_done_callback(opened, context=OUTSIDE.copy())


def _is_inside_once(scope: StepScope) -> bool:
    """Whether a step around it must not run twice: a retry would do so, and the agent is told instead."""
    outer = scope.outer
    while outer is not None and not outer.once:
        outer = outer.outer
    return outer is not None


def start_body(
    turn: _Turn, scope: StepScope, step: StepIdentity, body: Callable[[], Awaitable[Any]], context: contextvars.Context
) -> None:
    """Run a body as a task of its own: what it sets in its context stays inside, as when a replay skips it."""
    if turn.has_ended or not turn.order.is_expected(scope.path):
        return
    stand_still()
    place = Place(turn, scope)
    context.run(place_var.set, place)
    if turn.watcher is not None:
        turn.watcher.body_begins(scope, context)
    task = asyncio.Task(contained(body, scope.end), loop=turn.loop, context=context, name=f"hitl step {scope.path}")
    scope.task = task
    turn.bodies[scope.path] = scope
    again = partial(_begin_again, turn, scope, step, body, context)
    turn.adopt(task, place, partial(_body_done, turn, scope, step, again))


def _begin_again(
    turn: _Turn, scope: StepScope, step: StepIdentity, body: Callable[[], Awaitable[Any]], context: contextvars.Context
) -> None:
    scope.begin_again()
    start_body(turn, scope, step, body, context)


def _body_done(
    turn: _Turn, scope: StepScope, step: StepIdentity, again: Callable[[], None], task: asyncio.Task[Any]
) -> None:
    turn.left(task)
    scope.end()  # where it was cancelled before it began
    scope.done = True
    scope.task = None  # whose context leads here: a ring for the garbage collector, with all that the body had
    if turn.bodies.get(scope.path) is scope:
        del turn.bodies[scope.path]
    value, error = _end_of(task)
    if turn.has_ended or not turn.order.is_expected(scope.path):
        pass  # nobody waits for it
    elif isinstance(error, NoOutcome):
        if turn.watcher is not None:
            scope.error = error
            turn.watcher.body_ended(scope, None)
            scope.error = None
        turn.stalled[scope.path] = (error.error, again)
    else:
        scope.error = error
        result = _outcome(turn, scope, value, error)
        if turn.watcher is not None:
            turn.watcher.body_ended(scope, result)
        turn.order.when_live(scope.path, partial(turn.order.records.send_step, step, result))
    turn.order.body_ended(scope.path)


def _end_of(task: asyncio.Task[tuple[Any, BaseException | None]]) -> tuple[Any, BaseException | None]:
    """Value or error of a body that has ended. The error is not raised, or it would hold this frame, which has the task
    that holds it: a ring for the garbage collector, with all that the body had.
    """
    if not task.cancelled():
        error = task.exception()  # whatever a body ends with is its outcome
        return task.result() if error is None else (None, error)
    try:
        return task.result()
    except asyncio.CancelledError as cancelled:  # its own: a cancelled caller does not wait for it any more
        return None, cancelled


def _outcome(turn: _Turn, scope: StepScope, value: Any, error: BaseException | None) -> dict[str, Any]:
    if error is None:
        plain = copy_plain(value)
        if plain is not NOT_PLAIN:
            scope.plain = {"value": plain}
            return scope.plain
        try:
            return {"value": encode(value, f"result of {scope.kind} {scope.name!r}")}
        except Exception as unstorable:  # noqa: BLE001 - else whoever waits for the step would wait for ever
            if scope.kind == "tool":
                return stored_as_json(scope.name, value, unstorable)
            return turn.error_outcome(unstorable)
    return turn.error_outcome(error)


def opened(outcome: dict[str, Any], scope: StepScope | None, *, is_kept: bool = True) -> Any:
    """What an outcome is to whoever asked for the step. ``is_kept``: somebody holds on to it besides."""
    if "error" not in outcome:
        # What was recorded of a plain value is its copy already, and nobody else has it.
        is_copy = not is_kept and scope is not None and scope.plain is outcome
        return outcome["value"] if is_copy else decode(outcome["value"])
    error = decode_error(outcome["error"])
    if scope is not None and scope.error is not None:
        # The class and arguments are those of the record; the traceback is only for people to read.
        error = error.with_traceback(scope.error.__traceback__)
        scope.error = None
    try:
        raise error
    finally:
        del error  # else it holds this frame, which holds it: a ring for the garbage collector


async def was_said(
    turn: _Turn, step: StepIdentity, number: int, arguments: Mapping[str, Any] | None, doubtful: list[int]
) -> bool:
    """A crash hit a once step in flight: a person says what came of it, instead of a second run.

    False when the answer is that it was not done: then the body runs, and each such run may be hit by a crash in its
    turn. ``doubtful``: see ``hitl.journal.outcomes``.
    """
    turn.enter_call()
    for run, at in enumerate(doubtful, 1):
        payload, schema = outcome_question(step["name"], arguments, at, turn.max_payload)
        question: StepIdentity = {
            "path": f"{step['path']}/?{run}",
            "key": None,
            "kind": "interrupt",
            "name": "unknown_outcome",
            "location": step["location"],
            "arguments": {},
        }
        # With the number of the step itself: the run before the crash asked for nothing else here.
        call = step.get("tool_call_id")
        request = turn.request("unknown_outcome", payload, response_schema=schema, tool_call_id=call)
        answer = await turn.put(number, question, request)
        result = outcome_result(answer, step["kind"])
        if result is not None:
            turn.order.when_live(step["path"], partial(turn.order.records.send_step, step, result))
            return True
    return False
