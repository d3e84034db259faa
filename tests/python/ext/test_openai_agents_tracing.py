"""The SDK's own tracing of a turn that waits: one trace, and each span exported once, whoever sees its end."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agents import Runner, add_trace_processor, set_trace_processors, set_tracing_disabled
from agents.tracing import TracingProcessor, custom_span, get_trace_provider

import hitl
from hitl.ext.openai_agents.tracing import TurnTraceProvider, install
from tests.python.ext.openai_agents_runs import Says, payer
from tests.python.support.api import ok
from tests.python.support.gate import Gate
from tests.python.support.served import Served
from tests.python.support.waiting import eventually


class Collected(TracingProcessor):
    """What an exporter gets."""

    def __init__(self) -> None:
        self.traces: list[str] = []
        self.began: list[str] = []
        self.spans: list[dict[str, Any]] = []

    def on_trace_start(self, trace: Any) -> None:
        self.traces.append(trace.trace_id)

    def on_trace_end(self, trace: Any) -> None:
        self.traces.append(f"{trace.trace_id} ended")

    def on_span_start(self, span: Any) -> None:
        self.began.append(span.span_id)

    def on_span_end(self, span: Any) -> None:
        assert span.span_id in self.began
        self.spans.append(span.export())

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...

    @property
    def kinds(self) -> Counter[str]:
        return Counter(span["span_data"]["type"] for span in self.spans)


@pytest.fixture
def collected() -> Any:
    install()  # as whatever loads an agent does
    processor = Collected()
    set_tracing_disabled(False)
    set_trace_processors([processor])
    yield processor
    set_trace_processors([])
    set_tracing_disabled(True)


class Traced(Says):
    """A model with a span of its own, as the SDK's have."""

    async def get_response(self, *asked: Any, **more: Any) -> Any:
        with custom_span("request"):
            return await super().get_response(*asked, **more)


def boss() -> Any:
    inner = payer([], [("pay", {"cents": 2}), ("pay", {"cents": 3})])
    inner.model = Traced(*inner.model.rounds)  # type: ignore[union-attr]
    agent = payer([], [("pay", {"cents": 1}), ("delegate", {"input": "a"})], tools=[inner.as_tool("delegate", "pays")])
    agent.model = Traced(*agent.model.rounds)  # type: ignore[union-attr]
    return agent


async def test_one_trace_of_a_turn_over_its_pauses_and_each_span_once(collected: Collected) -> None:
    result = await hitl.run(boss(), "go")
    assert collected.kinds == {"custom": 2}  # a request of each agent's model; all else has not ended
    while result.status == "interrupted":
        state = result.state.approve(result.interrupts[-1])
        result = await hitl.run(boss(), hitl.RunState.from_string(boss(), state.to_string()))
    assert result.status == "idle", result.error
    # Three payments and a delegation; two runs, their four rounds and the request of each.
    assert collected.kinds == {"agent": 2, "function": 4, "custom": 2 + 4 + 4}

    ids = [span["id"] for span in collected.spans]
    assert len(set(ids)) == len(ids)
    assert {span["parent_id"] for span in collected.spans} - {None} <= set(ids)
    (trace,) = {span["trace_id"] for span in collected.spans}
    assert collected.traces == [trace, f"{trace} ended"]
    assert all(span["started_at"] <= span["ended_at"] for span in collected.spans)


async def test_a_span_over_a_pause_began_when_it_did(collected: Collected) -> None:
    agent = payer([])
    first = await hitl.run(agent, "go")
    between = datetime.now(UTC)
    await hitl.run(agent, first.state.approve(first.interrupts[0]))
    spans = {span["span_data"]["type"]: span for span in collected.spans}
    began, ended = (datetime.fromisoformat(spans["agent"][at]) for at in ("started_at", "ended_at"))
    assert began <= between <= ended
    assert spans["agent"]["error"] is None


async def test_processors_that_are_added_later_and_runs_outside_of_turns_are_as_they_were(collected: Collected) -> None:
    later = Collected()
    add_trace_processor(later)
    assert isinstance(get_trace_provider(), TurnTraceProvider)
    await Runner.run(payer([]), "go")
    assert later.kinds == collected.kinds
    assert later.kinds["agent"] == 1
    assert len(later.traces) == 2


AGENT = """
import json, os
from pathlib import Path

from agents import set_trace_processors
from agents.tracing.processors import BatchTraceProcessor
from tests.python.ext.openai_agents_runs import payer

class File:
    def export(self, items):
        with Path(os.environ["LEDGER"]).open("a") as file:
            for item in items:
                file.write(json.dumps(item.export()) + chr(10))

set_trace_processors([BatchTraceProcessor(File(), schedule_delay=3600)])
agent = payer([])
"""


def test_what_a_process_has_collected_is_exported_before_it_ends(tmp_path: Path) -> None:
    (tmp_path / "traced.py").write_text(AGENT)
    paths = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    environment = {"LEDGER": str(tmp_path / "ledger"), "PYTHONPATH": paths}
    with Served("traced:agent", isolation="process", workers=1, environment=environment) as server:
        api = server.api
        session_id = api.create()
        session = api.settled(session_id, "go", 1)
        ok(api.resume(session_id, session["interrupts"][0]["interrupt_id"], {"type": "approve"}))
        eventually(lambda: Counter(kinds(tmp_path))["agent"], 1)
    assert Counter(kinds(tmp_path)) == {"trace": 1, "agent": 1, "function": 1, "custom": 1 + 2}


HELD = """
import os

from agents import set_trace_processors
from agents.tracing import get_trace_provider
from agents.tracing.processors import BatchTraceProcessor
from tests.python.ext.openai_agents_runs import Says
from tests.python.ext.proof import stay
from traced import File, payer


class Held(Says):
    async def get_response(self, system_instructions, input, *asked, **more):
        if len(input) > 1:
            get_trace_provider().force_flush()
            await stay(int(os.environ["GATE"]))
        return await super().get_response(system_instructions, input, *asked, **more)


set_trace_processors([BatchTraceProcessor(File(), schedule_delay=0.01)])
agent = payer([])
agent.model = Held(*agent.model.rounds)
"""


def test_over_kills_each_span_is_exported_once(tmp_path: Path) -> None:
    """SIGKILL while a turn waits, and in the middle of a request to a model, after spans that have ended."""
    (tmp_path / "traced.py").write_text(AGENT)
    (tmp_path / "held.py").write_text(HELD)
    paths = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    with Gate() as gate:
        environment = {"LEDGER": str(tmp_path / "ledger"), "PYTHONPATH": paths, "GATE": str(gate.port)}
        options: dict[str, Any] = {"isolation": "task", "store": tmp_path / "hitl.db", "environment": environment}
        with Served("held:agent", **options) as server:
            session_id = server.api.create()
            session = server.api.settled(session_id, "go", 1)
            eventually(lambda: Counter(kinds(tmp_path)), Counter(trace=1))
            server.kill()
        with Served("held:agent", **options) as server:
            ok(server.api.resume(session_id, session["interrupts"][0]["interrupt_id"], {"type": "approve"}))
            gate.wait_for_arrival()
            server.kill()
            gate.wait_until_gone()
        with Served("held:agent", **options) as server:
            gate.wait_for_arrival()
            gate.release()
            assert server.api.wait(session_id)["status"] == "idle"
            eventually(lambda: Counter(kinds(tmp_path)), Counter(trace=1, agent=1, function=1, custom=1 + 2))
    spans = [each for each in exported(tmp_path) if "span_data" in each]
    assert len({span["id"] for span in spans}) == len(spans)


def exported(path: Path) -> list[Any]:
    file = path / "ledger"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def kinds(path: Path) -> list[str]:
    return [each.get("span_data", {}).get("type", "trace") for each in exported(path)]
