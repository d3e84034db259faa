"""Spans of pydantic-ai's own instrumentation of a turn that waits: each is exported once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, Tracer, TracerProvider, use_span
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

import hitl
from tests.python.ext.pydantic_ai_runs import payer


class Ended(TracerProvider, Tracer):
    """Counts the spans that end, as an exporter gets them, by the first word of their name."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()

    def get_tracer(self, *names: Any, **more: Any) -> Tracer:
        return self

    def start_span(self, name: str, *more: Any, **options: Any) -> Span:
        return Span(name.partition(" ")[0], self.kinds)

    @contextmanager
    def start_as_current_span(self, name: str, *more: Any, **options: Any) -> Iterator[Any]:
        with use_span(self.start_span(name), end_on_exit=True) as span:
            yield span


class Span(NonRecordingSpan):
    def __init__(self, kind: str, kinds: Counter[str]) -> None:
        super().__init__(INVALID_SPAN_CONTEXT)
        self.kind = kind
        self.kinds = kinds

    def end(self, end_time: int | None = None) -> None:
        self.kinds[self.kind] += 1


async def test_each_span_is_exported_once_over_pauses_and_replays() -> None:
    ended = Ended()
    instrumentation = Instrumentation(settings=InstrumentationSettings(tracer_provider=ended))
    agent = payer([], [("pay", {"cents": 1})], [("pay", {"cents": 2})], capabilities=[instrumentation])
    result = await hitl.run(agent, "go")
    assert ended.kinds == {"chat": 1}  # all else goes on
    while result.status == "interrupted":
        state = result.state.approve(result.interrupts[0])
        result = await hitl.run(agent, hitl.RunState.from_string(agent, state.to_string()))
    assert result.status == "idle", result.error
    assert ended.kinds == {"chat": 3, "execute_tool": 2, "invoke_agent": 1}
