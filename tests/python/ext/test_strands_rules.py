"""Rules hold for an agent of Strands that a tool runs, however it does so: what cannot wait for them is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from strands import Agent, tool
from strands.multiagent import GraphBuilder

from tests.python.ext.rules import judged
from tests.python.ext.strands_runs import says

Runs = Callable[[Agent], Any]
"""How a tool runs an agent."""


def outer(drops: list[str], run: Runs, arguments: dict[str, Any]) -> Agent:
    @tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append("dropped")
        return "dropped"

    @tool
    def ask() -> str:
        """Ask."""
        return str(run(Agent(says([("drop", arguments)]), tools=[drop], name="inner", callback_handler=None)))

    return Agent(says([("ask", {})]), tools=[ask], name="outer", callback_handler=None)


def as_graph(agent: Agent) -> Any:
    builder = GraphBuilder()
    builder.add_node(agent, "inner")
    builder.set_max_node_executions(1)
    return builder.build()("go").results["inner"].result


@pytest.mark.parametrize("run", [lambda agent: agent("go"), as_graph], ids=["agent", "graph"])
async def test_what_an_agent_calls_that_a_plain_tool_runs_is_judged(run: Runs) -> None:
    denied: list[str] = []
    said, _ = await judged(outer(denied, run, {"force": True}))
    assert denied == []
    assert "forced" in said
    allowed: list[str] = []
    said, local = await judged(outer(allowed, run, {"force": False}))
    assert (allowed, "dropped" in said) == (["dropped"], True)
    assert "drop" in [entry["step"]["name"] for entry in local.port.journal if entry["entry"] == "step"]


def run_apart(agent: Agent) -> Any:
    return asyncio.run(agent.invoke_async("go"))


async def test_an_agent_that_runs_where_no_rule_can_be_asked_calls_nothing() -> None:
    drops: list[str] = []
    said, _ = await judged(outer(drops, run_apart, {"force": False}))
    assert drops == []
    assert "runs past the turn's event loop, where alone the rules of the policy can be asked about its tools" in said


async def test_it_runs_as_ever_where_there_are_no_rules() -> None:
    drops: list[str] = []
    said, _ = await judged(outer(drops, run_apart, {"force": False}), None)
    assert (drops, "dropped" in said) == (["dropped"], True)
