"""What tracers are told of a graph that waits: LangSmith's, which sends it, and others. Each run once, in one trace."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.base import AsyncBaseTracer, BaseTracer
from langchain_core.tracers.langchain import LangChainTracer
from langchain_core.tracers.schemas import Run
from langgraph.graph import StateGraph
from langgraph.types import interrupt
from langsmith import Client, tracing_context

import hitl
from hitl.ext.langgraph import as_agent
from tests.python.ext.langgraph_runs import Timeless, says
from tests.python.support.api import ok
from tests.python.support.langsmith_server import LangSmithServer
from tests.python.support.prefixes import run_all_prefixes
from tests.python.support.served import Served


@tool
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def payer() -> Any:
    gate = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode="batched")
    model = says([("pay", {"cents": 1})], [("pay", {"cents": 2})])
    return create_agent(model, [pay], middleware=[gate], name="payer")


def payer_per_call() -> Any:
    """Two calls of one reply wait, each in middleware, which LangSmith traces by itself."""
    gate = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode="per_call")
    model = says([("pay", {"cents": 1}), ("pay", {"cents": 2})])
    return create_agent(model, [pay], middleware=[gate], name="payer")


class State(TypedDict, total=False):
    said: str


def mixed() -> Any:
    """A node that does a part of its work before it asks, twice; beside one that asks in a graph inside of it."""

    async def ask(state: State) -> State:
        before = await RunnableLambda(lambda said: f"{said}!", name="before").ainvoke("ask")
        first, second = interrupt(before), interrupt("again")
        return {"said": await RunnableLambda(lambda said: said, name="after").ainvoke(f"{first}{second}")}

    def plain(state: State) -> State:
        RunnableLambda(lambda said: said, name="in a thread").invoke("x")
        return {"said": interrupt("inside")}

    inner = StateGraph(State).add_node("plain", plain).set_entry_point("plain").compile(name="inner graph")

    async def outer(state: State) -> State:
        await inner.ainvoke({})
        return {}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("outer", outer)
    builder.set_entry_point("ask")
    builder.set_entry_point("outer")
    return builder.compile(name="mixed")


ASKS = "chain HumanInTheLoopMiddleware.after_model"
MIXED = {
    "chain mixed": 1,
    "chain ask": 1,
    "chain before": 1,
    "chain after": 1,
    "chain outer": 1,
    "chain inner graph": 1,
    "chain plain": 1,
    "chain in a thread": 1,
}


async def run_to_its_end(graph: Callable[[], Any], tracer: Callable[[], Any]) -> None:
    """A turn whose questions are answered one by one, each in a run that begins from the journal."""

    def make() -> Any:
        return as_agent(graph(), config={"callbacks": [tracer()]})

    result = await hitl.run(make(), '{"said": "go"}')
    while result.status == "interrupted":
        first = result.interrupts[0]
        state = result.state.approve(first) if first.type == "tool_approval" else result.state.answer(first, "yes")
        result = await hitl.run(make(), hitl.RunState.from_string(make(), state.to_string()))
    assert result.status == "idle", result.error


@pytest.fixture
def smith() -> Iterator[LangSmithServer]:
    with LangSmithServer().serving() as server:
        yield server


def client_of(server: LangSmithServer) -> Client:
    return Client(api_url=server.url, api_key="key", auto_batch_tracing=False)


def tracer_to(server: LangSmithServer) -> LangChainTracer:
    return LangChainTracer(client=client_of(server))


def assert_one_trace(server: LangSmithServer, *, is_whole: bool = True) -> None:
    """Each run began and ended once, all in one trace, each inside of another that was open as long as it."""
    runs = server.runs
    assert set(server.begun.values()) == {1}, server.begun
    if is_whole:
        assert set(server.ended.values()) == {1}, server.ended
    (root,) = (run for run in runs.values() if run.get("parent_run_id") is None)
    for run in runs.values():
        assert run["trace_id"] == root["id"]
        if run is not root:
            outer = runs[run["parent_run_id"]]
            assert run["dotted_order"].rpartition(".")[0] == outer["dotted_order"]
            assert outer["start_time"] <= run["start_time"]
            assert not is_whole or run["end_time"] <= outer["end_time"]


async def test_a_call_that_waits_in_middleware_is_one_run(smith: LangSmithServer) -> None:
    with tracing_context(enabled=True, client=client_of(smith)):
        await run_to_its_end(payer_per_call, lambda: tracer_to(smith))
    assert_one_trace(smith)
    assert all(run.get("error") is None for run in smith.runs.values())
    names = smith.names
    assert (names["chain payer"], names["chain tools"], names["tool pay"]) == (1, 2, 2)
    assert names["chain HumanInTheLoopMiddleware.awrap_tool_call"] == 2


@pytest.mark.parametrize("graph", [payer, mixed])
async def test_langsmith_gets_a_turn_as_one_trace_and_each_run_once(smith: LangSmithServer, graph: Any) -> None:
    await run_to_its_end(graph, lambda: tracer_to(smith))
    assert_one_trace(smith)
    assert all(run.get("error") is None for run in smith.runs.values())
    if graph is mixed:
        assert smith.names == MIXED
    else:
        assert_paid_twice(smith)


async def test_a_run_that_waits_is_shown_as_open_and_ends_with_what_came_of_it(smith: LangSmithServer) -> None:
    agent = as_agent(payer(), config={"callbacks": [tracer_to(smith)]})
    first = await hitl.run(agent, "go")
    assert first.status == "interrupted"
    (root,) = (run for run in smith.runs.values() if run["name"] == "payer")
    assert root.get("end_time") is root.get("error") is None
    assert root["inputs"]["messages"]
    assert_one_trace(smith, is_whole=False)
    began = root["start_time"]
    agent = as_agent(payer(), config={"callbacks": [tracer_to(smith)]})
    await hitl.run(agent, first.state.approve(first.interrupts[0]))
    assert root["start_time"] == began


class Told(AsyncBaseTracer):
    """Counts the runs that end, by their kind and name."""

    def __init__(self, ended: Counter[str]) -> None:
        super().__init__()
        self.ended = ended

    async def _persist_run(self, run: Run) -> None:
        """They are counted as they come."""

    async def _end_trace(self, run: Run) -> None:
        await super()._end_trace(run)
        self.ended[f"{run.run_type} {run.name}"] += 1


class ToldInThreads(BaseTracer):
    """The same, not on the loop."""

    def __init__(self, ended: Counter[str]) -> None:
        super().__init__()
        self.ended = ended

    def _persist_run(self, run: Run) -> None:
        """They are counted as they come."""

    def _end_trace(self, run: Run) -> None:
        super()._end_trace(run)
        self.ended[f"{run.run_type} {run.name}"] += 1


@pytest.mark.parametrize("kind", [Told, ToldInThreads])
async def test_other_tracers_are_told_of_each_end_once(kind: Any) -> None:
    ended: Counter[str] = Counter()
    await run_to_its_end(mixed, lambda: kind(ended))
    assert ended == MIXED


@pytest.mark.parametrize("kind", [Told, ToldInThreads])
async def test_who_is_told_makes_no_difference_to_a_replay(kind: Any) -> None:
    served = Timeless(mixed(), config={"callbacks": [kind(Counter())]})
    run = await run_all_prefixes(lambda effects: served, lambda asked: "yes", message='{"said": "go"}')
    assert run.response.content


async def test_runs_outside_of_turns_are_traced_as_ever(smith: LangSmithServer) -> None:
    graph: Any = create_agent(says([("pay", {"cents": 1})]), [pay], name="payer")
    for _ in range(2):
        await graph.ainvoke({"messages": ["go"]}, config={"callbacks": [tracer_to(smith)]})
    assert smith.names["chain payer"] == 2
    assert set(smith.begun.values()) == set(smith.ended.values()) == {1}


def assert_paid_twice(server: LangSmithServer) -> None:
    assert server.names == {
        "chain payer": 1,
        "chain model": 3,
        "llm Says": 3,
        ASKS: 3,
        "chain tools": 2,
        "chain HumanInTheLoopMiddleware.awrap_tool_call": 2,
        "tool pay": 2,
    }


def has_come_to(server: LangSmithServer, models: int, still_open: dict[str, int]) -> bool:
    return server.names["llm Says"] == models and server.open == still_open


AGENT = """
from tests.python.ext.test_langgraph_tracing import mixed, payer

graph = payer()
mixed = mixed()
"""


@pytest.mark.parametrize("isolation", ["process", "task"])
def test_over_a_pause_and_a_kill_of_the_server_a_turn_is_one_trace(
    smith: LangSmithServer, isolation: str, tmp_path: Path
) -> None:
    (tmp_path / "traced.py").write_text(AGENT)
    environment = {**smith.environment, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    options: dict[str, Any] = {"isolation": isolation, "store": tmp_path / "hitl.db"}
    with Served("traced:graph", environment=environment, **options) as server:
        session_id = server.api.create()
        session = server.api.settled(session_id, "go", 1)
        smith.wait_for(partial(has_come_to, models=1, still_open={"chain payer": 1, ASKS: 1}))
        server.kill()
    with Served("traced:graph", environment=environment, **options) as server:
        for _ in range(2):
            ok(server.api.resume(session_id, session["interrupts"][0]["interrupt_id"], {"type": "approve"}))
            session = server.api.wait(session_id)
        smith.wait_for(partial(has_come_to, models=3, still_open={}))
    assert session["status"] == "idle", session
    assert_one_trace(smith)
    assert_paid_twice(smith)
