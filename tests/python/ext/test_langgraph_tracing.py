"""What LangChain's tracers are told of a graph that waits: which runs they are told of once, and which are not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langchain_core.tracers.base import AsyncBaseTracer
from langchain_core.tracers.schemas import Run

import hitl
from hitl.ext.langgraph import as_agent
from tests.python.ext.langgraph_runs import says


class Told(AsyncBaseTracer):
    """Counts the runs that begin and those that end, by their kind and name."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.ids: dict[str, set[str]] = {}

    async def _persist_run(self, run: Run) -> None:
        """They are counted as they come."""

    async def _start_trace(self, run: Run) -> None:
        await super()._start_trace(run)
        self.begun[name_of(run)] += 1
        self.ids.setdefault(name_of(run), set()).add(str(run.id))

    async def _end_trace(self, run: Run) -> None:
        await super()._end_trace(run)
        self.ended[name_of(run)] += run.error is None


def name_of(run: Run) -> str:
    return f"{run.run_type} {run.name}"


async def test_models_tools_and_finished_nodes_are_told_of_once_and_what_waits_each_time_that_it_runs() -> None:
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    gate = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode="batched")
    model = says([("pay", {"cents": 1})], [("pay", {"cents": 2})])
    told: Any = Told()
    agent = as_agent(create_agent(model, [pay], middleware=[gate], name="payer"), config={"callbacks": [told]})
    result = await hitl.run(agent, "go")
    while result.status == "interrupted":
        state = result.state.approve(result.interrupts[0])
        result = await hitl.run(agent, hitl.RunState.from_string(agent, state.to_string()))
    assert result.status == "idle", result.error
    once = {kind: count for kind, count in told.begun.items() if kind.startswith(("llm", "tool", "chain model"))}
    assert once == {"llm Says": 3, "chain model": 3, "tool pay": 2}
    assert {kind: told.ended[kind] for kind in once} == once
    assert (told.begun["chain payer"], len(told.ids["chain payer"])) == (3, 1)
