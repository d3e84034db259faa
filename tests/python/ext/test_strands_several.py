"""Graphs and swarms of Strands in a turn: nodes are agents like any other, from every prefix of the journal too."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import BeforeNodeCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.vended_interventions.hitl import HumanInTheLoop

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from hitl.ext.strands.several import text_of
from tests.python.ext.strands_runs import APPROVE, Speaking, payer, proved_text, says
from tests.python.support.local import PENDING, LocalTurn
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


async def test_the_id_of_a_call_that_was_approved_in_one_node_is_free_in_another() -> None:
    def line(effects: Effects) -> Any:
        builder = GraphBuilder()
        for node_id, cents in (("first", 5), ("second", 6)):
            builder.add_node(payer(effects, model=says([("pay", {"cents": cents})], ids="c")), node_id)
        builder.add_edge("first", "second")
        builder.set_execution_timeout(600)
        return builder.build()

    run, said = await proved_text(line)
    assert [asked["payload"]["tool_args"] for asked in run.requests] == [{"cents": 5}, {"cents": 6}]
    assert len({asked["tool_call_id"] for asked in run.requests}) == 1
    assert (json.loads(said), run.effects) == ([["success", "paid 6"]], [5, 6])


async def test_so_it_is_in_a_node_that_a_swarm_comes_back_to() -> None:
    def round_trip(effects: Effects) -> Any:
        def payer_says(messages: list[Any]) -> Any:
            said = [block["toolResult"]["content"] for block in messages[-1]["content"] if "toolResult" in block]
            if said == [[{"text": "paid 5"}]]:
                return [("handoff_to_agent", {"agent_name": "clerk", "message": "once more"})]
            return "all paid" if said else [("pay", {"cents": 5 + len(effects)})]

        ask = HumanInTheLoop(allowed_tools=["handoff_to_agent"])
        return Swarm([clerk(), payer(effects, model=Speaking(payer_says), interventions=[ask], callback_handler=None)])

    paid: list[Any] = []
    result = await hitl.run(round_trip(paid), "go")
    while result.interrupts:
        result = await hitl.run(round_trip(paid), result.state.approve(result.interrupts[0]))
    assert (result.output, paid) == ("all paid", [5, 6])


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
    assert asked["lets_run"]


def clerk(**options: Any) -> Agent:
    def reply(messages: list[Any]) -> Any:
        if any("toolResult" in block for block in messages[-1]["content"]):
            return "handed over"
        return [("handoff_to_agent", {"agent_name": "payer", "message": "pay it"})]

    return Agent(Speaking(reply), name="clerk", callback_handler=None, **options)


def swarm(effects: Effects, **options: Any) -> Any:
    """A clerk, who hands over to a payer. `options`: of the clerk."""
    model = says([("pay", {"cents": 5})], ids="p")
    return Swarm([clerk(**options), payer(effects, model=model, callback_handler=None)])


async def test_agents_of_a_swarm_hand_over_in_a_replay_too() -> None:
    run, said = await proved_text(swarm)
    assert (json.loads(said), run.effects) == ([["success", "paid 5"]], [5])
    (asked,) = run.requests
    assert (asked["agent"], asked["payload"]["tool_name"]) == ("payer", "pay")


START = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11"}
HAND_OVER = {"agent_name": "payer", "message": "pay it", "context": None}


def handover(request: Any) -> Any:
    """Rules that want somebody to see who hands over, and nothing else."""
    is_seen = request.get("required", True) or request["payload"]["tool_name"] == "handoff_to_agent"
    return PENDING if is_seen else {"type": "approve", "by": "policy"}


def with_rules(local: LocalTurn) -> None:
    local.port.decide_at_once = handover


@pytest.mark.parametrize("decision", ["approve", "reject"])
@pytest.mark.parametrize("how", ["a rule", "the agent"])
async def test_a_handover_is_asked_about_where_a_rule_or_the_agent_says_so(how: str, decision: str) -> None:
    def make(effects: Effects) -> Any:
        return swarm(effects, interventions=[HumanInTheLoop()] if how == "the agent" else [])

    rules = {"setup": with_rules, "journal_start": {"policy": True}} if how == "a rule" else {}
    run, said = await proved_text(make, lambda asked: {"type": decision}, **rules)
    assert run.requests[0]["payload"]["tool_args"] == HAND_OVER
    assert run.requests[0]["agent"] == "clerk"
    if decision == "approve":
        assert (json.loads(said), run.effects) == ([["success", "paid 5"]], [5])
    else:
        assert (said, run.effects, len(run.requests)) == ("handed over", [], 1)


async def run_swarm(journal: Any) -> tuple[Any, str]:
    """A turn to its end on top of a journal; somebody says yes to whatever is asked."""
    loaded = load(swarm([]))
    local = LocalTurn(agent=loaded.name, journal=json.loads(json.dumps(journal)))
    with_rules(local)
    local.port.answers = lambda request: APPROVE if request["type"] == "tool_approval" else {"outcome": "not_done"}
    for asked in local.port.interrupts:
        asked.give(APPROVE)
    reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    return local.port.journal, reply.content or ""


async def test_rules_that_came_leave_a_handover_that_was_made_as_it_was() -> None:
    journal, first = await run_swarm([{**START, "policy": False}])
    at = next(n for n, entry in enumerate(journal) if entry.get("step", {}).get("name") == "handoff_to_agent")
    for cut in range(at + 1, len(journal)):
        taken = {"at": 2, "entry": "taken", "code": "code-1", "python": "3.11", "policy": True}
        again, said = await run_swarm([*journal[:cut], taken])
        assert said == first, f"cut at {cut}"
        asked = [entry["step"] for entry in again if entry["entry"] == "ask"]
        assert [step["path"] for step in asked if step["name"] != "unknown_outcome"] == ["~approval:p00"]


async def test_a_turn_that_handed_over_before_that_was_a_step_goes_on() -> None:
    journal, first = await run_swarm([{**START, "policy": False}])
    older = [entry for entry in journal if entry.get("step", {}).get("name") != "handoff_to_agent"]
    assert len(older) == len(journal) - 1
    asked = next(n for n, entry in enumerate(older) if entry["entry"] == "ask")
    _, said = await run_swarm(older[: asked + 1])
    assert said == first


async def test_a_swarm_in_a_tool_hands_over_in_a_replay_too() -> None:
    def make(effects: Effects) -> Any:
        @tool
        async def ask(task: str) -> str:
            """Ask the swarm."""
            several = swarm(effects)
            several.execution_timeout = several.node_timeout = 1e-9  # a person takes longer
            return text_of(several, await several.invoke_async(task))

        return Agent(says([("ask", {"task": "go"})]), name="outer", tools=[ask], callback_handler=None)

    run, said = await proved_text(make)
    assert (json.loads(said), run.effects) == ([["success", '[["success", "paid 5"]]']], [5])
    assert [asked["agent"] for asked in run.requests] == ["payer"]


async def test_a_tool_of_ones_own_that_is_called_as_that_which_hands_over_is_a_step() -> None:
    def make(effects: Effects) -> Any:
        @tool
        async def handoff_to_agent(name: str) -> str:
            """Hand over, somewhere else."""
            effects.append(name)
            return "done"

        builder = GraphBuilder()
        node = Agent(says([("handoff_to_agent", {"name": "a"})]), name="clerk", tools=[handoff_to_agent])
        builder.add_node(node, "clerk")
        return builder.set_max_node_executions(1).build()

    run, _ = await proved_text(make)
    assert run.effects == ["a"]
    assert "~tool:c00" in run.port.paths()


async def test_a_graph_does_not_run_out_of_time_while_somebody_is_asked() -> None:
    def make(effects: Effects) -> Any:
        several = graph(effects)
        several.execution_timeout = several.node_timeout = 1e-9
        return several

    run, said = await proved_text(make)
    assert "parts" in said
    assert sorted(run.effects) == [1, 2]


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
