"""The spans of a turn: its own, one for each step, one for each question that was answered.

Their ids follow from the turn's (``hitl.ext.otel.ids``), so a part of a turn that runs in another process has the same
trace and the same parents. A span is told when what it stands for is in the journal, and by the process that put it
there: after a crash it is told by whoever does the work again, and by nobody twice. A turn whose process is killed
between the commit and the moment in which it hears of that has no span of that step.

An answer is nobody's step. Its span is told by whoever records the next thing after it: until then the turn may be
taken up again with the answer at the end of its journal.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import Context as ContextVariables
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hitl.errors import RETRIABLE_ERRORS
from hitl.ext.otel import content, described
from hitl.ext.otel.ids import TURN, given_ids, span_id_of, trace_id_of
from hitl.ext.otel.sinks import DURATION, STEP, TOKENS, WAIT, Sink
from hitl.journal.ports import InterruptRequest, StepIdentity
from hitl.turn.bodies import NoOutcome
from hitl.turn.places import StepScope
from hitl.turn.reporting import log_error
from hitl.turn.retrying import TryFailed
from hitl.turn.runtime import Turn

P = ParamSpec("P")

logger = logging.getLogger("hitl.otel")

_MS: Final = 1_000_000
"""Nanoseconds."""
_OF_THE_TURN: Final = ("step", "intent", "ask", "timer")
"""Entries that a turn hears of when they are committed."""
_UNTOLD: Final = ("clock", "limit")
"""Kinds of steps that are no work."""


@dataclass
class Tracing:
    """What all turns of a process have in common."""

    sink: Sink
    tracer: Tracer
    sampler: Sampler
    with_content: bool


@dataclass
class _Step:
    """A step whose body is to run, runs, or has run, and is not recorded."""

    step: StepIdentity
    start: int
    shown: Mapping[str, Any] | None
    attributes: dict[str, Any]
    end: int | None = None
    span: Span | None = None
    error: str | None = None


@dataclass
class _Question:
    """A question that somebody is asked."""

    interrupt_id: str
    path: str
    type: str
    at: int
    tool_call_id: str | None = None


@dataclass
class _Answer:
    """What came of it, and has not been told."""

    question: _Question
    index: int
    at: int
    outcome: Mapping[str, Any]
    by: str | None


def _harmless(method: Callable[P, None]) -> Callable[P, None]:
    """A mistake in telling is no turn's mistake: it is logged."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - it is logged, with its traceback
            log_error(logger, "a part of a turn is not traced", error)

    return call


@dataclass
class TurnSpans:
    """A ``TurnWatcher``. See the module."""

    tracing: Tracing
    turn: Turn
    journal: list[dict[str, Any]]
    answered_by: Mapping[str, str]
    _steps: dict[str, _Step] = field(default_factory=dict)
    _facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is told of a question, by its path."""
    _questions: dict[str, _Question] = field(default_factory=dict)
    _answers: list[_Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        start = self.journal[0] if self.journal else {}
        self._start = start.get("at", time.time_ns() // _MS) * _MS
        turn_id = self.turn.turn_id
        parent = start.get("traceparent")
        self._parent = Context() if parent is None else TraceContextTextMapPropagator().extract({"traceparent": parent})
        remote = _span_in(self._parent)
        self._trace_id = trace_id_of(turn_id) if remote is None else remote.trace_id
        self._name = f"invoke_agent {self.turn.agent}" if self.turn.agent else "invoke_agent"
        sampled = self.tracing.sampler.should_sample(self._parent, self._trace_id, self._name)
        is_sampled = sampled.decision is Decision.RECORD_AND_SAMPLE
        self._flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
        self._common = {"gen_ai.conversation.id": self.turn.session_id, "hitl.turn.id": turn_id}
        self._read()

    def _read(self) -> None:
        """Take from the journal what was asked, and what was answered since it went on last."""
        last = max((index for index, entry in enumerate(self.journal) if entry["entry"] in _OF_THE_TURN), default=0)
        for index, entry in enumerate(self.journal):
            kind, at = entry["entry"], entry.get("at", 0)
            if kind == "ask":
                self._know(entry["step"], entry["interrupt_id"], at)
            elif kind in ("answer", "expire") and index > last:
                outcome = {"answer": entry["value"]} if kind == "answer" else {"expired": True}
                interrupt_id = entry["interrupt_id"]
                self._keep(interrupt_id, index, at, outcome, self.answered_by.get(interrupt_id))

    # -- contexts ---------------------------------------------------------------------------------------------------

    def enter(self, context: ContextVariables) -> None:
        _attach(context, self._context_of(TURN))

    def _context_of(self, part: str) -> Context:
        """The context in which a part of the turn is the current span."""
        own = SpanContext(self._trace_id, span_id_of(self.turn.turn_id, part), False, self._flags)
        return set_span_in_context(NonRecordingSpan(own), Context())

    def _begin(
        self,
        part: str,
        name: str,
        start: int,
        attributes: Mapping[str, Any],
        parent: Context,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        given = given_ids.set((self._trace_id, span_id_of(self.turn.turn_id, part)))
        try:
            told = {key: value for key, value in {**self._common, **attributes}.items() if value is not None}
            return self.tracing.tracer.start_span(name, parent, kind, told, start_time=start)
        finally:
            given_ids.reset(given)

    # -- steps ------------------------------------------------------------------------------------------------------

    @_harmless
    def step_asked(self, step: StepIdentity, scope: StepScope, shown: Mapping[str, Any] | None) -> None:
        if step["kind"] not in _UNTOLD:
            order = self.turn.order
            now = time.time_ns() if order.is_live else round(order.wall_time * 1e9)
            self._steps[step["path"]] = _Step(step, now, shown, described.step(step))

    @_harmless
    def body_begins(self, scope: StepScope, context: ContextVariables) -> None:
        known = self._steps.get(scope.path)
        if known is None:
            return
        if not scope.ordered:  # else it runs again from its top, and began when it did so first
            known.start = time.time_ns()
        known.span = self._span_of(known, scope.path)
        _attach(context, set_span_in_context(known.span, Context()))

    def _span_of(self, known: _Step, part: str) -> Span:
        step = known.step
        kind = SpanKind.CLIENT if step["kind"] == "model" else SpanKind.INTERNAL
        parent = self._context_of(_outer(step["path"]))
        return self._begin(part, described.name(step), known.start, known.attributes, parent, kind)

    @_harmless
    def model_asked(self, scope: StepScope, client: object, request: Any) -> None:
        known = self._steps.get(scope.path)
        if known is not None:
            known.attributes |= described.request(client, request)
            if self.tracing.with_content:
                known.attributes |= content.of_request(request.messages)

    @_harmless
    def body_ended(self, scope: StepScope, outcome: Mapping[str, Any] | None) -> None:
        known = self._steps.get(scope.path)
        if known is None:
            return
        known.end = time.time_ns()
        error = scope.error
        if isinstance(error, TryFailed | NoOutcome) and error.__cause__ is not None:
            error = error.__cause__  # what the try itself came to
        known.error = None if error is None else type(error).__name__
        if outcome is None:
            # Nothing is recorded, and the step will be tried again: this try is a part of the turn of its own.
            self._tell(self._span_of(known, f"{scope.path}/try/{scope.attempt}"), known, known.end)
            known.span = None

    @_harmless
    def recorded(self, step: StepIdentity, outcome: Mapping[str, Any], at: int) -> None:
        known = self._steps.pop(step["path"], None)
        if known is None:
            if step["kind"] in _UNTOLD:
                return
            # No body ran here: somebody said what came of it, or it could not begin.
            began = self.turn.order.began.get(step["path"])
            known = _Step(step, (at if began is None else began.doubtful[-1]) * _MS, None, described.step(step))
        if "error" in outcome and known.error is None:
            known.error = outcome["error"].get("type", "Exception")
        end = max(known.end or at * _MS, known.start)
        reply = described.reply(step, outcome)
        known.attributes |= reply
        if self.tracing.with_content:
            known.attributes |= described.said(step, known.shown, outcome)
        self._tell(known.span or self._span_of(known, step["path"]), known, end)

    def _tell(self, span: Span, known: _Step, end: int) -> None:
        attributes = dict(known.attributes)
        if known.error is not None:
            attributes["error.type"] = known.error
            span.set_status(Status(StatusCode.ERROR))
        span.set_attributes(attributes)
        span.end(end)
        labels = described.labels(attributes)
        is_genai = known.step["kind"] in ("model", "tool")
        self.tracing.sink.measure(DURATION if is_genai else STEP, (end - known.start) / 1e9, labels)
        for kind in ("input", "output"):
            tokens = attributes.get(f"gen_ai.usage.{kind}_tokens")
            if tokens is not None:
                self.tracing.sink.measure(TOKENS, tokens, {**labels, "gen_ai.token.type": kind})

    # -- questions --------------------------------------------------------------------------------------------------

    @_harmless
    def asks(self, step: StepIdentity, request: InterruptRequest) -> None:
        self._facts[step["path"]] = described.question(request)

    @_harmless
    def asked(self, step: StepIdentity, interrupt_id: str, at: int) -> None:
        self._know(step, interrupt_id, at)

    def _know(self, step: StepIdentity, interrupt_id: str, at: int) -> None:
        self._questions[interrupt_id] = _Question(
            interrupt_id, step["path"], step["name"], at, step.get("tool_call_id")
        )

    @_harmless
    def answered(self, interrupt_id: str, index: int, at: int, outcome: Mapping[str, Any], by: str | None) -> None:
        self._keep(interrupt_id, index, at, outcome, by)

    def _keep(self, interrupt_id: str, index: int, at: int, outcome: Mapping[str, Any], by: str | None) -> None:
        question = self._questions.get(interrupt_id)
        known = any(answer.question is question for answer in self._answers)
        if question is not None and not known:
            self._answers.append(_Answer(question, index, at, outcome, by))

    @_harmless
    def went_on(self, index: int) -> None:
        self._tell_answers(index)

    def _tell_answers(self, before: float) -> None:
        told = [answer for answer in self._answers if answer.index < before]
        self._answers = [answer for answer in self._answers if answer.index >= before]
        for answer in told:
            question = answer.question
            facts = {
                "hitl.interrupt.id": question.interrupt_id,
                "hitl.interrupt.type": question.type,
                "gen_ai.tool.call.id": question.tool_call_id,
                **self._facts.get(question.path, {}),
                **described.answer(answer.outcome, answer.by),
            }
            parent = self._context_of(_outer(question.path))
            self._begin(f"wait/{question.path}", f"wait {question.type}", question.at * _MS, facts, parent).end(
                answer.at * _MS
            )
            self.tracing.sink.measure(WAIT, (answer.at - question.at) / 1000, described.labels(facts))

    # -- the end ----------------------------------------------------------------------------------------------------

    @_harmless
    def ended(self, result: Mapping[str, Any]) -> None:
        error = result.get("error")
        if error is not None and error.get("code") in RETRIABLE_ERRORS:
            return  # it goes on when it is retried, from the same answers
        self._tell_answers(float("inf"))
        self._tell_turn(None if error is None else error["type"])

    @_harmless
    def cancelled(self) -> None:
        self._tell_answers(float("inf"))
        self._tell_turn("cancelled")

    def _tell_turn(self, error: str | None) -> None:
        usage = {
            f"gen_ai.usage.{name}": int(self.turn.usage[name])
            for name in ("input_tokens", "output_tokens")
            if name in self.turn.usage
        }
        facts = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self.turn.agent, "error.type": error}
        span = self._begin(TURN, self._name, self._start, {**facts, **usage}, self._parent)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(max(time.time_ns(), self._start))


def _outer(path: str) -> str:
    """The part of the turn that a step, or a question, is in."""
    return path.rpartition("/")[0] or TURN


def _span_in(context: Context) -> SpanContext | None:
    """The span that a context names, where it does."""
    found = get_current_span(context).get_span_context()
    return found if found.is_valid else None


def _attach(variables: ContextVariables, context: Context) -> None:
    variables.run(otel_context.attach, context)
