"""Telemetry of `hitl.run` and of `Server(agent)`, in a program that has an OpenTelemetry of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import hitl
from hitl import Attachment, ReActAgent, TransientError, tool
from hitl.client import Client
from hitl.driver.replay_check import OpenTurn, check_turns
from hitl.driver.shapes import as_agent
from hitl.ext.otel import TelemetryNotConfigured, instrument, uninstrument
from hitl.models import ModelReply, ModelRequest
from hitl.testing import ScriptedChatClient
from hitl.turn import watching
from hitl.worker import loops
from tests.python.support.otlp_receiver import OtlpReceiver

_spans = InMemorySpanExporter()
_reader = InMemoryMetricReader()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_spans))
_meters = MeterProvider([_reader])


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


SCRIPT = [{"tool_calls": [{"id": "c1", "name": "delete", "args": {"path": "secret.txt"}}]}, {"content": "all done"}]


def make_agent(client: ScriptedChatClient | None = None) -> ReActAgent:
    return ReActAgent(client=client or ScriptedChatClient(SCRIPT), model_name="m", name="tracer", tools=[delete])


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """Those of turns that are traced from here on."""
    _spans.clear()
    instrument(tracer_provider=_provider, meter_provider=_meters)
    yield _spans
    uninstrument()


def names(spans: InMemorySpanExporter) -> list[str]:
    return sorted(span.name for span in spans.get_finished_spans())


def named(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    [span] = [span for span in spans.get_finished_spans() if span.name == name]
    return span


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


TURN = ["chat m", "chat m", "execute_tool delete", "invoke_agent tracer", "wait tool_approval"]


async def test_a_run_that_is_carried_on_from_its_state_is_a_part_of_who_began_it(spans: InMemorySpanExporter) -> None:
    with _provider.get_tracer("program").start_as_current_span("request") as request:
        paused = await hitl.run(make_agent(), "go")
    assert names(spans) == ["chat m", "request"]
    paused.state.approve(paused.interrupts[0])
    state = hitl.RunState.from_string(make_agent(), paused.state.to_string())
    done = await hitl.run(make_agent(), state)

    assert done.output == "all done"
    assert names(spans) == [*TURN[:4], "request", "wait tool_approval"]
    everything = spans.get_finished_spans()
    assert len({span.context.trace_id for span in everything}) == 1
    assert len({span.context.span_id for span in everything}) == len(everything)
    turn = named(spans, "invoke_agent tracer")
    assert turn.parent is not None
    assert turn.parent.span_id == request.get_span_context().span_id
    assert attributes(named(spans, "wait tool_approval"))["hitl.wait.outcome"] == "answered"


async def test_outside_of_a_span_a_run_begins_a_trace(spans: InMemorySpanExporter) -> None:
    paused = await hitl.run(make_agent(), "go")
    paused.state.reject(paused.interrupts[0], reason="no")
    await hitl.run(make_agent(), paused.state)

    turn = named(spans, "invoke_agent tracer")
    assert turn.parent is None
    assert {span.context.trace_id for span in spans.get_finished_spans()} == {turn.context.trace_id}
    wait = attributes(named(spans, "wait tool_approval"))
    assert (wait["hitl.decision"], wait["gen_ai.tool.name"]) == ("reject", "delete")


async def test_what_was_said_is_in_spans_where_it_is_asked_for(spans: InMemorySpanExporter) -> None:
    async def run() -> str:
        paused = await hitl.run(make_agent(), "go")
        paused.state.approve(paused.interrupts[0])
        await hitl.run(make_agent(), paused.state)
        return repr([attributes(span) for span in spans.get_finished_spans()])

    assert "secret.txt" not in await run()
    instrument(content=True, tracer_provider=_provider)
    spans.clear()
    text = await run()
    for said in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "secret.txt", "go"):
        assert said in text
    assert "deleted secret.txt" in attributes(named(spans, "execute_tool delete"))["gen_ai.tool.call.result"]


@dataclass
class Drawn:
    by: str
    chart: Attachment


async def test_of_files_the_spans_have_the_name_and_type_and_never_the_bytes(spans: InMemorySpanExporter) -> None:
    png = Attachment.of_bytes(b"\x89PNG" * 10, "image/png", name="s.png")
    elsewhere = Attachment("application/pdf", url="https://example.com/a.pdf")

    @tool
    async def draw() -> Any:
        """Draw."""
        return [png, {"of": Drawn("ada", png)}, png.to_dict(), {"media_type": 1, "data": 2}]

    calls = [{"tool_calls": [{"id": "c1", "name": "draw", "args": {}}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(calls), model_name="m", name="tracer", tools=[draw])
    instrument(content=True, tracer_provider=_provider)
    await hitl.run(agent, hitl.ChatMessage.user_message(attachments=[png, elsewhere]))

    assert png.data is not None
    assert png.data[:8] not in repr([attributes(span) for span in spans.get_finished_spans()])
    mark = "[attachment: s.png, image/png]"
    result = json.loads(attributes(named(spans, "execute_tool draw"))["gen_ai.tool.call.result"])
    assert [result[0], result[1]["of"]["value"]["chart"], *result[2:]] == [
        mark,
        mark,
        mark,
        {"media_type": 1, "data": 2},
    ]
    [*_, last] = [span for span in spans.get_finished_spans() if span.name == "chat m"]
    asked = json.loads(attributes(last)["gen_ai.input.messages"])
    blob = {"type": "blob", "mime_type": "image/png", "modality": "image", "name": "s.png"}
    uri = {"type": "uri", "mime_type": "application/pdf", "modality": "document", "uri": elsewhere.url}
    assert asked[0]["parts"] == [blob, uri]
    assert [part["type"] for part in asked[2]["parts"]] == ["tool_call_response", "blob", "blob", "blob"]


class AwayOnce(ScriptedChatClient):
    retries = 0
    is_away = True

    async def complete(self, request: ModelRequest) -> ModelReply:
        if self.is_away:
            raise TransientError("overloaded")
        return await super().complete(request)


async def test_a_turn_whose_model_is_away_has_its_span_when_it_is_over(spans: InMemorySpanExporter) -> None:
    client = AwayOnce([{"content": "back"}])
    suspended = await hitl.run(make_agent(client), "go")
    assert suspended.status == "error"
    assert names(spans) == ["chat m"]
    assert attributes(named(spans, "chat m"))["error.type"] == "TransientError"
    client.is_away = False
    done = await hitl.run(make_agent(client), suspended.state)

    assert done.output == "back"
    assert names(spans) == ["chat m", "chat m", "invoke_agent tracer"]
    assert len({span.context.span_id for span in spans.get_finished_spans()}) == 3


async def test_an_answer_after_which_the_turn_is_suspended_is_told_when_it_goes_on(spans: InMemorySpanExporter) -> None:
    client = AwayOnce(SCRIPT)
    client.is_away = False
    paused = await hitl.run(make_agent(client), "go")
    client.is_away = True
    paused.state.reject(paused.interrupts[0])
    suspended = await hitl.run(make_agent(client), paused.state)
    assert suspended.status == "error"
    client.is_away = False
    done = await hitl.run(make_agent(client), suspended.state)

    assert done.output == "all done"
    assert names(spans) == ["chat m", "chat m", "chat m", "invoke_agent tracer", "wait tool_approval"]


def test_a_check_of_open_turns_tells_nothing(spans: InMemorySpanExporter) -> None:
    async def check() -> None:
        paused = await hitl.run(make_agent(), "go")
        told = len(spans.get_finished_spans())
        carried = OpenTurn("s", "t", {"role": "user", "content": "go"}, [], _journal_of(paused.state))
        [verdict] = await check_turns(as_agent(make_agent()), [carried], code="")
        assert verdict.error is None, verdict
        assert len(spans.get_finished_spans()) == told

    loop = loops.new_loop()
    try:
        loops.run(loop, check())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _journal_of(state: hitl.RunState) -> list[dict[str, Any]]:
    journal: list[dict[str, Any]] = json.loads(state.to_string())["journal"]
    return journal


def test_a_server_in_a_program_tells_of_its_turns_there(spans: InMemorySpanExporter) -> None:
    with hitl.Server(make_agent(), port=0, store="memory", otel=True) as server, Client(server.url) as client:
        session = client.create_session().session_id
        [interrupt] = client.ask(session, "go").interrupts
        client.approve(interrupt.interrupt_id)
        client.wait(session)
    assert names(spans) == TURN
    found = [
        metric.name
        for resource in (_reader.get_metrics_data() or pytest.fail("no metrics")).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    assert {"gen_ai.client.operation.duration", "hitl.wait.duration"} <= set(found)


OWN = """
import asyncio
import os
import hitl
from hitl.ext.otel import instrument
from hitl.testing import ScriptedChatClient
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

instrument()
own = InMemorySpanExporter()
if "OWN" in os.environ:  # set after instrument(), and before the first turn
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(own))
    trace.set_tracer_provider(provider)
agent = hitl.ReActAgent(client=ScriptedChatClient([{"content": "hi"}]), model_name="m", name="tracer")
hitl.run_sync(agent, "go")
print(len(own.get_finished_spans()))
"""


@pytest.mark.parametrize("has_own", [True, False])
def test_a_program_that_has_telemetry_keeps_it_and_another_gets_that_of_its_environment(has_own: bool) -> None:
    with OtlpReceiver().serving() as receiver:
        environment = os.environ | receiver.environment | ({"OWN": "1"} if has_own else {})
        done = subprocess.run([sys.executable, "-c", OWN], check=True, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == ("2\n" if has_own else "0\n")
    assert sorted(span.name for span in receiver.spans) == ([] if has_own else ["chat m", "invoke_agent tracer"])


PROGRAM = """
import sys
import hitl
from hitl.testing import ScriptedChatClient
result = hitl.run_sync(hitl.ReActAgent(client=ScriptedChatClient([{"content": "hi"}]), model_name="m"), "go")
assert result.output == "hi"
assert not [name for name in sys.modules if name.startswith(("opentelemetry", "hitl.ext"))]
"""


def test_nothing_of_it_is_imported_unless_it_is_asked_for() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER is 'zipkin'"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "carrier/pigeon", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL is 'carrier/pigeon'"),
    ],
)
def test_an_environment_that_nobody_understands_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    before = watching.installed()
    monkeypatch.setenv(name, value)
    with pytest.raises(TelemetryNotConfigured, match=said) as caught:
        instrument()
    assert caught.value.code == "telemetry_not_configured"
    assert "hint: one of" in str(caught.value)
    assert watching.installed() is before


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl.ext.otel.environment.find_spec", lambda name: None)
    with pytest.raises(TelemetryNotConfigured, match=r"pip install 'hitl-runtime\[otel\]'"):
        instrument()
    monkeypatch.setattr("hitl.serving.options.find_spec", lambda name: None)
    with pytest.raises(hitl.InvalidOption, match="--otel") as caught:
        hitl.Server("module:attribute", otel=True)
    assert "hitl-runtime[otel]" in caught.value.hint


def test_the_environment_may_say_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    before = watching.installed()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    instrument()
    assert watching.installed() is before
