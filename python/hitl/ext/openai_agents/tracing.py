"""The SDK's tracing over pauses: one trace for a turn, each span exported once, by whoever sees its end.

In a replay spans begin and end again. They have the ids and times that they had; those that end in it have been
exported before, and are kept from the processors. One that begins in a replay and ends after it is shown to them when
the turn goes on. The SDK's exporting processor gets them once a replay would only repeat them; any other, which may
look at where the program is, at once.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from agents.tracing import Span, Trace, TracingProcessor, get_trace_provider, set_trace_provider
from agents.tracing.processors import BatchTraceProcessor
from agents.tracing.provider import DefaultTraceProvider, TraceProvider

from hitl.driver.flushing import before_exit
from hitl.ext.openai_agents.memory import memory_of, step_path
from hitl.ext.turns import is_in_turn
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn, current_turn


class OncePerTurn(TracingProcessor):
    """Keeps what a turn only repeats from a processor."""

    def __init__(self, processor: TracingProcessor) -> None:
        self.processor = processor
        self._begun: WeakKeyDictionary[Turn, dict[str, Span[Any]]] = WeakKeyDictionary()

    def on_trace_start(self, trace: Trace) -> None:
        turn = _turn()
        if turn is None or turn.order.is_live:
            self._tell(turn, partial(self.processor.on_trace_start, trace))

    def on_trace_end(self, trace: Trace) -> None:
        turn = _turn()
        if turn is None or _counts(turn):
            self._tell(turn, partial(self.processor.on_trace_end, trace))

    def on_span_start(self, span: Span[Any]) -> None:
        turn = _turn()
        if turn is None:
            self.processor.on_span_start(span)
        elif not turn.order.is_live:
            self._begun.setdefault(turn, {})[span.span_id] = span
        elif _counts(turn):
            self._go_live(turn)
            self.processor.on_span_start(span)

    def on_span_end(self, span: Span[Any]) -> None:
        turn = _turn()
        if turn is None:
            self.processor.on_span_end(span)
        elif not turn.order.is_live:
            self._begun.get(turn, {}).pop(span.span_id, None)
        elif _counts(turn):
            self._go_live(turn)
            self._tell(turn, partial(self.processor.on_span_end, span))

    def _tell(self, turn: Turn | None, tell: Callable[[], None]) -> None:
        if turn is not None and isinstance(self.processor, BatchTraceProcessor):
            turn.order.records.when_past(tell)
        else:
            tell()

    def _go_live(self, turn: Turn) -> None:
        for span in self._begun.pop(turn, {}).values():
            self.processor.on_span_start(span)

    def shutdown(self, timeout: float | None = None) -> None:
        takes = inspect.signature(self.processor.shutdown).parameters
        self.processor.shutdown(**({"timeout": timeout} if "timeout" in takes else {}))

    def force_flush(self) -> None:
        self.processor.force_flush()


class TurnTraceProvider(DefaultTraceProvider):
    """Ids and times that a replay comes to again, in turns; else as the SDK has it."""

    def register_processor(self, processor: TracingProcessor) -> None:
        super().register_processor(_wrapped(processor))

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        super().set_processors([_wrapped(each) for each in processors])

    def time_iso(self) -> str:
        turn, place = _turn(), place_var.get()
        if turn is None or (place is not None and place.step is not None and not place.step.ordered):
            return super().time_iso()  # the body of a step does not run again in a replay
        return datetime.fromtimestamp(turn.order.wall_time, UTC).isoformat()

    def gen_trace_id(self) -> str:
        turn = _turn()
        return super().gen_trace_id() if turn is None else f"trace_{_digest(turn, 'trace')[:32]}"

    def gen_span_id(self) -> str:
        turn = _turn()
        return super().gen_span_id() if turn is None else f"span_{_digest(turn, 'span')[:24]}"

    def gen_group_id(self) -> str:
        turn = _turn()
        return super().gen_group_id() if turn is None else f"group_{_digest(turn, 'group')[:24]}"


def install() -> None:
    """Trace turns. Processors stay who they are; a provider of the program's own that is none of the SDK's is left
    alone."""
    provider: TraceProvider = get_trace_provider()
    if isinstance(provider, TurnTraceProvider) or type(provider) is not DefaultTraceProvider:
        return
    before_exit(_flush)
    ours = TurnTraceProvider()
    ours.set_processors(list(provider._multi_processor._processors))
    ours._env_disabled, ours._manual_disabled = provider._env_disabled, provider._manual_disabled
    set_trace_provider(ours)


def _flush() -> None:
    get_trace_provider().force_flush()


def _wrapped(processor: TracingProcessor) -> TracingProcessor:
    return processor if isinstance(processor, OncePerTurn) else OncePerTurn(processor)


def _turn() -> Turn | None:
    return current_turn() if is_in_turn() else None


def _counts(turn: Turn) -> bool:
    """Whether what ends here has ended, and not only left memory."""
    return not turn.has_ended


def _digest(turn: Turn, kind: str) -> str:
    """The same in every replay: by the turn, the step that this is in, and how many it has made."""
    path = step_path()
    ids = memory_of(turn).ids
    ids[path] += 1
    return hashlib.sha256(f"{turn.turn_id}/{path}/{kind}/{ids[path]}".encode()).hexdigest()
