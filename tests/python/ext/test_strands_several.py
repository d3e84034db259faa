"""Graphs and swarms of Strands in a turn: nodes are agents like any other, from every prefix of the journal too."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from strands import Agent
from strands.hooks import BeforeNodeCallEvent
from strands.multiagent import GraphBuilder, Swarm

import hitl
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from tests.python.ext.strands_runs import APPROVE, Speaking, payer, proved_text, says
from tests.python.support.prefixes import Effects


def graph(effects: Effects, *hooks: Any) -> Any:
    """Two that pay at once, and one who reads what they say, in agents that are called the same."""
    builder = GraphBuilder()
    for node_id, cents in (("left", 1), ("right", 2)):
        builder.add_node(payer(effects, model=says([("pay", {"cents": cents})], ids=node_id)), node_id)
    builder.add_node(Agent(Speaking(lambda messages: str(len(messages[0]["content"])) + " parts")), "reader")
    builder.add_edge("left", "reader")
    builder.add_edge("right", "reader", condition=lambda state: True)
    builder.set_entry_point("left")
    builder.set_entry_point("right")
    builder.set_execution_timeout(600).set_node_timeout(300)
    if hooks:
        builder.set_hook_providers(list(hooks))
    return builder.build()


async def test_nodes_of_a_graph_are_journaled_and_gated() -> None:
    run, said = await proved_text(graph)
    assert "parts" in said
    assert sorted(run.effects) == [1, 2]
    assert sorted(asked["agent"] for asked in run.requests) == ["payer", "right"]
    models = {entry["step"]["path"] for entry in run.port.journal if entry["entry"] == "step"}
    assert "~model:reader" in models


async def test_each_node_goes_on_when_it_is_answered_and_a_paused_graph_does_not_look_around() -> None:
    paid: list[Any] = []
    first = await hitl.run(graph(paid), "go")
    assert first.status == "interrupted"
    journal = json.loads(first.state.to_string())["journal"]
    assert (journal[-1]["entry"], journal[-1].get("timers", [])) == ("pause", [])
    right = next(each for each in first.interrupts if each.payload["tool_args"] == {"cents": 2})
    second = await hitl.run(graph(paid), first.state.approve(right))
    assert (second.status, paid) == ("interrupted", [2])
    third = await hitl.run(graph(paid), second.state.reject(second.interrupts[0]))
    assert (third.status, paid) == ("idle", [2])


async def test_a_hook_may_ask_before_a_node() -> None:
    class Gate:
        def register_hooks(self, registry: Any, **_: Any) -> None:
            registry.add_callback(BeforeNodeCallEvent, self.ask)

        def ask(self, event: BeforeNodeCallEvent) -> None:
            if event.node_id == "reader" and event.interrupt("read", reason="May it?") != "y":
                event.cancel_node = "not read"

    def answers(asked: Any) -> Any:
        return APPROVE if asked["type"] == "tool_approval" else "y"

    run, _ = await proved_text(lambda effects: graph(effects, Gate()), answers)
    (asked,) = (each for each in run.requests if each["type"] != "tool_approval")
    assert (asked["type"], asked["message"], asked["agent"]) == ("node_interrupt", "May it?", "default_graph")


def swarm(effects: Effects) -> Any:
    def first(messages: list[Any]) -> Any:
        if any("toolResult" in block for block in messages[-1]["content"]):
            return "handed over"
        return [("handoff_to_agent", {"agent_name": "payer", "message": "pay it"})]

    clerk = Agent(Speaking(first), name="clerk", callback_handler=None)
    return Swarm([clerk, payer(effects, callback_handler=None)])


async def test_agents_of_a_swarm_hand_over_in_a_replay_too() -> None:
    run, said = await proved_text(swarm)
    assert (json.loads(said), run.effects) == ([["success", "paid 5"]], [5])
    (asked,) = run.requests
    assert (asked["agent"], asked["payload"]["tool_name"]) == ("payer", "pay")


async def test_turns_of_one_graph_or_swarm_at_the_same_time_do_not_meet() -> None:
    for several in (graph([]), swarm([])):
        results = await asyncio.gather(hitl.run(several, "one"), hitl.run(several, "two"))
        assert [result.status for result in results] == ["interrupted", "interrupted"]
        while any(result.status == "interrupted" for result in results):
            results = await asyncio.gather(*(hitl.run(several, r.state.approve(r.interrupts[0])) for r in results))
        assert [result.error for result in results] == [None, None]


def test_nodes_that_run_elsewhere_are_refused() -> None:
    several = graph([])
    several.nodes["reader"].executor = object()
    served: Any = load(several).target
    with pytest.raises(AgentLoadError, match="the agent 'reader' cannot be served: it is a object"):
        served.prepare()


async def test_a_swarm_that_gives_up_fails_the_turn() -> None:
    result = await hitl.run(Swarm([Agent(says(), name="a")], max_iterations=0), "go")
    assert result.status == "error"
    assert result.error == "RuntimeError: the Swarm 'default_swarm' failed; nodes that ran: none"
