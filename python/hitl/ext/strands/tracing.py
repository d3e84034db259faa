"""Strands' own spans over pauses: one trace for a turn, each span exported once, by whoever sees its end.

In a replay spans begin and end again, with the ids and the times that they had. One that ends in it has been exported
by the process that did what is replayed; one that ends because the turn leaves memory has not ended.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.trace import Span
from strands.telemetry.tracer import Tracer

from hitl.driver.flushing import before_exit
from hitl.ext.otel.ids import TurnIds, given_ids, span_id_of, trace_id_of
from hitl.ext.spans import begin_span, is_told
from hitl.ext.turns import is_in_turn
from hitl.turn.places import place_var
from hitl.turn.runtime import current_turn


class _TurnTracer:
    """A tracer for one span of a turn: stands for `tracer` where Strands begins it."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_span(self, *args: Any, **options: Any) -> Span:
        turn, place = current_turn(), place_var.get()
        assert place is not None
        begin = begin_span(place)
        # Of a program whose provider came after its agents, Strands has a stand-in.
        known = getattr(self._tracer, "_tracer", self._tracer)
        if isinstance(known, SdkTracer) and not isinstance(known.id_generator, TurnIds):
            known.id_generator = TurnIds(known.id_generator)
        given = given_ids.set((trace_id_of(turn.turn_id), span_id_of(turn.turn_id, f"strands/{begin.name}")))
        try:
            span = self._tracer.start_span(*args, **{**options, "start_time": begin.at})
        finally:
            given_ids.reset(given)
        if span.is_recording():
            end = span.end

            def end_once(end_time: int | None = None) -> None:
                if is_told(turn):
                    turn.order.records.when_past(partial(end, end_time or time.time_ns()))

            vars(span)["end"] = end_once
        return span


def _give_names(start: Callable[..., Span]) -> Callable[..., Span]:
    @functools.wraps(start)
    def start_span(self: Tracer, *args: Any, **options: Any) -> Span:
        if is_in_turn():
            self = copy.copy(self)
            self.tracer = _TurnTracer(self.tracer)  # type: ignore[assignment]  # it starts spans and does nothing else
        return start(self, *args, **options)

    return start_span


def _flush() -> None:
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush()


def install() -> None:
    """Trace turns as they are. Outside of them nothing changes."""
    Tracer._start_span = _give_names(Tracer._start_span)  # type: ignore[method-assign]
    before_exit(_flush)
