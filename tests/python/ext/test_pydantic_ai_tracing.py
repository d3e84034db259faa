"""Spans of pydantic-ai's own instrumentation of a turn that waits: each is exported once."""

from __future__ import annotations

from collections import Counter

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

import hitl
from tests.python.ext.pydantic_ai_runs import payer


async def test_each_span_is_exported_once_over_pauses_and_replays() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentation = Instrumentation(settings=InstrumentationSettings(tracer_provider=provider))
    agent = payer([], [("pay", {"cents": 1})], [("pay", {"cents": 2})], capabilities=[instrumentation])
    result = await hitl.run(agent, "go")
    while result.status == "interrupted":
        state = result.state.approve(result.interrupts[0])
        result = await hitl.run(agent, hitl.RunState.from_string(agent, state.to_string()))
    assert result.status == "idle", result.error
    spans = exporter.get_finished_spans()
    assert Counter(span.name.partition(" ")[0] for span in spans) == {"chat": 3, "execute_tool": 2, "invoke_agent": 1}
    assert all(span.status.is_ok or span.status.is_unset for span in spans)
