"""Strands' own spans of a turn that waits: one trace, each exported once, over pauses, replays and a SIGKILL."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from strands import Agent, tool
from strands.multiagent import GraphBuilder, Swarm
from strands.telemetry.tracer import get_tracer

import hitl
from hitl.ext.otel import instrument, uninstrument
from hitl.ext.otel.sinks import make_provider
from tests.python.ext.strands_runs import Speaking, payer, says
from tests.python.support.api import ok
from tests.python.support.gate import Gate
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

APPROVE = {"type": "approve"}


class Exported(InMemorySpanExporter):
    """What an exporter gets."""

    @property
    def names(self) -> Counter[str]:
        return Counter(span.name for span in self.get_finished_spans())

    def named(self, name: str) -> Any:
        (span,) = (each for each in self.get_finished_spans() if each.name == name)
        return span


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    exporter, provider = Exported(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(get_tracer(), "tracer", provider.get_tracer("strands"))
    return exporter


async def run_to_its_end(make: Callable[[], Any]) -> Any:
    """A turn whose questions are approved one by one, each in a run that begins from the journal."""
    result = await hitl.run(make(), "go")
    while result.status == "interrupted":
        state = result.state.approve(result.interrupts[-1])
        result = await hitl.run(make(), hitl.RunState.from_string(make(), state.to_string()))
    assert result.status == "idle", result.error
    return result


def assert_one_trace(spans: Any) -> None:
    """Each span once, in one trace, inside of another that is there, which is open as long as it."""
    by_id = {span.context.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    assert len({span.context.trace_id for span in spans}) == 1
    assert len([span for span in spans if span.parent is None]) == 1
    for span in spans:
        if span.parent is not None:
            outer = by_id[span.parent.span_id]
            assert outer.start_time <= span.start_time <= span.end_time <= outer.end_time, (outer.name, span.name)


async def test_a_turn_is_one_trace_over_its_pauses_and_each_span_comes_once(exported: Exported) -> None:
    await run_to_its_end(lambda: payer([], [("pay", {"cents": 1})], [("pay", {"cents": 2}), ("pay", {"cents": 3})]))
    assert exported.names == {
        "invoke_agent payer": 1,
        "execute_event_loop_cycle": 3,
        "chat": 3,
        "execute_tool pay": 3,
    }
    assert_one_trace(exported.get_finished_spans())


async def test_what_is_open_over_a_pause_is_exported_at_its_end_and_began_when_it_did(exported: Exported) -> None:
    first = await hitl.run(payer([]), "go")
    assert exported.names == {"chat": 1}
    chat = exported.named("chat")
    await hitl.run(payer([]), first.state.approve(first.interrupts[0]))
    agent, pay = exported.named("invoke_agent payer"), exported.named("execute_tool pay")
    assert agent.start_time <= chat.start_time < chat.end_time <= pay.start_time <= agent.end_time  # the wait is inside
    assert agent.status.is_ok
    assert not agent.events or all("exception" not in event.name for event in agent.events)


def graph() -> Any:
    builder = GraphBuilder()
    for node_id, cents in (("left", 1), ("right", 2)):
        builder.add_node(payer([], model=says([("pay", {"cents": cents})], ids=node_id), name=node_id), node_id)
    builder.add_node(Agent(Speaking(lambda messages: "read"), name="reader"), "reader")
    builder.add_edge("left", "reader")
    builder.set_entry_point("left")
    builder.set_entry_point("right")
    return builder.set_execution_timeout(600).build()


async def test_the_span_of_a_graph_is_exported_once_and_those_of_its_nodes_are_inside(exported: Exported) -> None:
    await run_to_its_end(graph)
    assert exported.names == {
        "invoke_graph": 1,
        "invoke_agent left": 1,
        "invoke_agent right": 1,
        "invoke_agent reader": 1,
        "execute_event_loop_cycle": 5,
        "chat": 5,
        "execute_tool pay": 2,
    }
    assert_one_trace(exported.get_finished_spans())


def swarm() -> Any:
    def first(messages: list[Any]) -> Any:
        if any("toolResult" in block for block in messages[-1]["content"]):
            return "handed over"
        return [("handoff_to_agent", {"agent_name": "payer", "message": "pay it"})]

    return Swarm([Agent(Speaking(first), name="first"), payer([])])


async def test_the_span_of_a_swarm_is_exported_once(exported: Exported) -> None:
    await run_to_its_end(swarm)
    names = exported.names
    assert (names["invoke_swarm"], names["invoke_agent first"], names["invoke_agent payer"]) == (1, 1, 1)
    assert_one_trace(exported.get_finished_spans())


def asker() -> Agent:
    """Its tool asks by itself, twice, and another agent asks inside of one of its tools, after a pause."""

    @tool
    async def ask() -> str:
        """Ask."""
        return "".join([str(await hitl.interrupt({"type": "color", "n": n})) for n in (1, 2)])

    rounds: Any = [("ask", {})], [("delegate", {"input": "a"})]
    delegate = payer([], [("pay", {"cents": 2})], name="inner").as_tool(name="delegate", description="pays")
    return Agent(says(*rounds), name="outer", tools=[ask, delegate])


async def test_a_tool_that_waits_inside_of_itself_has_one_span(exported: Exported) -> None:
    result = await hitl.run(asker(), "go")
    while result.status == "interrupted":
        (interrupt,) = result.interrupts
        if interrupt.type == "tool_approval":
            state = result.state.approve(interrupt)
        else:
            state = result.state.answer(interrupt, "red")
        result = await hitl.run(asker(), hitl.RunState.from_string(asker(), state.to_string()))
    assert result.status == "idle", result.error
    names = exported.names
    assert (names["execute_tool ask"], names["execute_tool delegate"], names["execute_tool pay"]) == (1, 1, 1)
    assert (names["invoke_agent outer"], names["invoke_agent inner"]) == (1, 1)
    assert_one_trace(exported.get_finished_spans())


async def test_runs_outside_of_turns_are_traced_as_ever(exported: Exported) -> None:
    agent = payer([], interventions=[])
    await agent.invoke_async("go")
    await agent.invoke_async("go")
    assert exported.names["invoke_agent payer"] == 2
    assert len({span.context.trace_id for span in exported.get_finished_spans()}) == 2


@pytest.fixture
def beside_ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    """As workers have it with `--otel`, but for where the spans go."""
    exporter = Exported()
    provider = make_provider(None, SimpleSpanProcessor(exporter))
    monkeypatch.setattr(get_tracer(), "tracer", provider.get_tracer("strands"))
    instrument(tracer_provider=provider)
    yield exporter
    uninstrument()


async def test_with_telemetry_of_turns_they_are_inside_of_the_same_trace(beside_ours: Exported) -> None:
    await run_to_its_end(graph)
    spans: Any = beside_ours.get_finished_spans()
    assert Counter(span.name for span in spans if span.instrumentation_scope.name == "strands")["invoke_graph"] == 1
    assert_one_trace(spans)


AGENT = """
import json, os, socket
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from tests.python.ext.proof import stay
from tests.python.ext.strands_runs import payer, says


class File(SpanExporter):
    def export(self, spans):
        with Path(os.environ["LEDGER"]).open("a") as file:
            for span in spans:
                file.write(json.dumps([span.name, json.loads(span.to_json())]) + chr(10))
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor({"simple": SimpleSpanProcessor, "batch": BatchSpanProcessor}[os.environ["SPANS"]](File()))
trace.set_tracer_provider(provider)

model = says([("pay", {"cents": 5})])
stream = model.stream


async def held(messages, *args, **options):
    if len(messages) > 1:
        await stay(int(os.environ["GATE"]))
    async for event in stream(messages, *args, **options):
        yield event


model.stream = held
agent = payer([], model=model)
"""
ONCE = {"invoke_agent payer": 1, "execute_event_loop_cycle": 2, "chat": 2, "execute_tool pay": 1}


def told(ledger: Path) -> list[Any]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


@pytest.mark.parametrize(("isolation", "spans"), [("task", "simple"), ("process", "batch")])
def test_over_a_pause_and_kills_each_span_comes_once(isolation: str, spans: str, tmp_path: Path) -> None:
    """SIGKILL while a turn waits, and in the middle of a request to a model, after spans that have ended."""
    (tmp_path / "traced.py").write_text(AGENT)
    ledger, paths = tmp_path / "ledger", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    with Gate() as gate:
        environment = {
            "LEDGER": str(ledger),
            "PYTHONPATH": paths,
            "GATE": str(gate.port),
            "SPANS": spans,
            "OTEL_BSP_SCHEDULE_DELAY": "1",
        }
        options: dict[str, Any] = {"isolation": isolation, "store": tmp_path / "hitl.db", "environment": environment}
        with Served("traced:agent", **options) as server:
            session_id = server.api.create()
            session = server.api.settled(session_id, "go", 1)
            eventually(lambda: [name for name, _ in told(ledger)], ["chat"])
            server.kill()
        with Served("traced:agent", **options) as server:
            ok(server.api.resume(session_id, session["interrupts"][0]["interrupt_id"], APPROVE))
            gate.wait_for_arrival()
            eventually(lambda: Counter(name for name, _ in told(ledger))["execute_tool pay"], 1)
            server.kill()
            gate.wait_until_gone()
        with Served("traced:agent", **options) as server:
            gate.wait_for_arrival()
            gate.release()
            assert server.api.wait(session_id)["status"] == "idle"
            eventually(lambda: Counter(name for name, _ in told(ledger)), Counter(ONCE))
    found = [span for _, span in told(ledger)]
    ids = {span["context"]["span_id"] for span in found}
    assert len(ids) == len(found)
    assert len({span["context"]["trace_id"] for span in found}) == 1
    assert {span["parent_id"] for span in found} - ids == {None}
