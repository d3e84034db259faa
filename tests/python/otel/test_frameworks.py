"""What a framework traces by itself, through OpenTelemetry, beside what hitl tells: in one trace, each span once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

import hitl
from hitl.ext.otel import instrument, uninstrument
from hitl.ext.otel.sinks import make_provider


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse([TextPart("done")])
    return ModelResponse([ToolCallPart("pay", {"cents": 5}, "c1")])


def make_agent() -> Agent:
    agent = Agent(FunctionModel(reply), name="payer")

    @agent.tool_plain(requires_approval=True)
    def pay(cents: int) -> str:
        return "paid"

    return agent


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """As workers have it, but for where the spans go."""
    spans = InMemorySpanExporter()
    provider = make_provider(None, SimpleSpanProcessor(spans))
    instrument(tracer_provider=provider)
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    yield spans
    Agent.instrument_all(False)
    uninstrument()


async def test_a_framework_that_traces_itself_does_so_once_and_in_the_same_trace(spans: InMemorySpanExporter) -> None:
    paused = await hitl.run(make_agent(), "go")
    assert paused.status == "interrupted"
    paused.state.approve(paused.interrupts[0])
    done = await hitl.run(make_agent(), hitl.RunState.from_string(make_agent(), paused.state.to_string()))
    assert done.output == "done"

    told = spans.get_finished_spans()
    assert Counter((span.name, span.instrumentation_scope and span.instrumentation_scope.name) for span in told) == {
        ("chat function:reply:", "hitl"): 2,
        ("chat function:reply:", "pydantic-ai"): 2,
        ("execute_tool pay", "hitl"): 1,
        ("execute_tool pay", "pydantic-ai"): 1,
        ("wait tool_approval", "hitl"): 1,
        ("invoke_agent payer", "pydantic-ai"): 1,
        ("invoke_agent payer", "hitl"): 1,
    }
    ids = {span.context.span_id for span in told if span.context}
    assert len(ids) == len(told)
    assert len({span.context.trace_id for span in told if span.context}) == 1
    assert [span.name for span in told if span.parent is None] == ["invoke_agent payer"]
    assert all(span.parent is None or span.parent.span_id in ids for span in told)
