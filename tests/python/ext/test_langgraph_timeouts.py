"""The `timeout=` of a node counts the time that its node takes, and not that of people who are asked inside of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.errors import NodeTimeoutError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, TimeoutPolicy, interrupt

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import as_agent
from tests.python.ext.langgraph_runs import APPROVE, Timeless, says
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.prefixes import run_all_prefixes

A_DAY = 86_400


class Clock:
    """The clocks of the loop and of the journal, which a test may put forward: timers that are due then fire."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of_loop, wall, wall_ns = time.monotonic, time.time, time.time_ns
        self.ahead = 0
        monkeypatch.setattr(time, "monotonic", lambda: of_loop() + self.ahead)
        monkeypatch.setattr(time, "time", lambda: wall() + self.ahead)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + self.ahead * 1_000_000_000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def due_timers_fire() -> None:
    """Long enough for a timer that had not been stopped to fire, and for what follows from it."""
    for _ in range(20):
        await asyncio.sleep(0)


Works = Callable[[], Awaitable[None]]
"""What a node does before its question, and after it."""


async def at_once() -> None:
    pass


def of_nodes(timeout: TimeoutPolicy, **nodes: Any) -> Any:
    """A graph of nodes one after the other; the last has a timeout."""
    builder = StateGraph(MessagesState)
    before, *_, last = START, *nodes
    for name, node in nodes.items():
        builder.add_node(name, node, **({"timeout": timeout} if name == last else {}))
        builder.add_edge(before, name)
        before = name
    return builder.compile(name="timed")


async def call(state: MessagesState) -> Any:
    return {"messages": [await says([("pay", {"cents": 5})]).ainvoke(state["messages"])]}


def asked_by_a_tool(timeout: TimeoutPolicy, before: Works, after: Works) -> Any:
    @tool
    async def pay(cents: int) -> str:
        """Pay."""
        await before()
        said = interrupt("Really?")
        await after()
        return f"said {said}"

    return of_nodes(timeout, call=call, tools=ToolNode([pay]))


def asked_by_a_rule(timeout: TimeoutPolicy, before: Works, after: Works) -> Any:
    @tool
    async def pay(cents: int) -> str:
        """Pay."""
        await after()
        return "said yes"

    async def wrap(request: Any, handler: Any) -> Any:
        await before()
        return await handler(request)

    return of_nodes(timeout, call=call, tools=ToolNode([pay], awrap_tool_call=wrap))


def asked_by_a_rule_of_a_call_of_the_node_s_own(timeout: TimeoutPolicy, before: Works, after: Works) -> Any:
    @tool
    async def pay(cents: int) -> str:
        """Pay."""
        await after()
        return "said yes"

    async def work(state: MessagesState) -> Any:
        await before()
        return {"messages": [AIMessage(await pay.ainvoke({"cents": 5}))]}

    return of_nodes(timeout, work=work)


def asked_by_a_graph_inside(timeout: TimeoutPolicy, before: Works, after: Works) -> Any:
    async def ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"said {interrupt('Really?')}")]}

    inner = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile(name="inner")

    async def work(state: MessagesState) -> Any:
        await before()
        done = await inner.ainvoke({"messages": []})
        await after()
        return {"messages": [AIMessage(done["messages"][-1].content)]}

    return of_nodes(timeout, work=work)


def asked_by_the_node(timeout: TimeoutPolicy, before: Works, after: Works) -> Any:
    async def work(state: MessagesState) -> Any:
        await before()
        said = interrupt("Really?")
        await after()
        return {"messages": [AIMessage(f"said {said}")]}

    return of_nodes(timeout, work=work)


MAKES = [
    asked_by_the_node,
    asked_by_a_tool,
    asked_by_a_rule,
    asked_by_a_rule_of_a_call_of_the_node_s_own,
    asked_by_a_graph_inside,
]
wherever = pytest.mark.parametrize("make", MAKES, ids=lambda it: it.__name__)
inside = pytest.mark.parametrize("make", MAKES[1:], ids=lambda it: it.__name__)
each_limit = pytest.mark.parametrize("limit", ["run_timeout", "idle_timeout"])


def answer_to(asked: Any) -> Any:
    return APPROVE if asked["type"] == "tool_approval" else "yes"


async def ran(graph: Any, answers: Callable[[Any], Any]) -> str:
    """The reply of a graph, of which a rule has every call of a tool asked about."""
    agent = as_agent(graph)
    start = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", "policy": True}
    local = LocalTurn(answers, agent=agent.name, journal=[start])
    if "rule" in graph.name:
        local.port.decide_at_once = lambda request: PENDING
    try:
        reply, _ = await local.run(agent.run, ChatMessage.user_message(content="go"), [])
    finally:
        await local.end()
    return reply.content or ""


def named(make: Any, timeout: TimeoutPolicy, before: Works = at_once, after: Works = at_once) -> Any:
    graph = make(timeout, before, after)
    graph.name = make.__name__
    return graph


@wherever
@each_limit
async def test_the_time_that_a_person_takes_does_not_count(clock: Clock, make: Any, limit: str) -> None:
    async def person(asked: Any) -> Any:
        clock.ahead += A_DAY
        await due_timers_fire()
        return answer_to(asked)

    assert "said yes" in await ran(named(make, TimeoutPolicy(**{limit: 60})), person)


@inside
async def test_what_the_node_takes_before_and_after_does(clock: Clock, make: Any) -> None:
    async def person(asked: Any) -> Any:
        clock.ahead += A_DAY
        await due_timers_fire()
        return answer_to(asked)

    async def works() -> None:
        clock.ahead += 40

    async def works_on() -> None:
        clock.ahead += 40
        await asyncio.sleep(10)  # which it does not come to: its time is over already

    graph = named(make, TimeoutPolicy(run_timeout=60), works, works_on)
    with pytest.raises(NodeTimeoutError, match="exceeded its run timeout of 60"):
        await ran(graph, person)


@each_limit
async def test_a_node_that_hangs_is_ended_and_tried_again_and_so_it_is_in_a_replay(clock: Clock, limit: str) -> None:
    seconds = [61]
    """By which the clock is put forward while the first try hangs; not in the replay."""

    def make() -> Any:
        tries: list[int] = []

        async def work(state: MessagesState) -> Any:
            tries.append(1)
            await hitl.step(at_once)  # from here on what happens is in the journal
            if len(tries) == 1:
                clock.ahead += seconds.pop() if seconds else 0
                await asyncio.Event().wait()
            return {"messages": [AIMessage(f"said {interrupt('Really?')} in {len(tries)}")]}

        policy = RetryPolicy(max_attempts=2, initial_interval=0.0, jitter=False, retry_on=NodeTimeoutError)
        builder = StateGraph(MessagesState)
        builder.add_node("work", work, timeout=TimeoutPolicy(**{limit: 60}), retry_policy=policy)
        return as_agent(builder.add_edge(START, "work").compile(name="timed"))

    replies, journal = [], None
    for _ in range(2):
        agent, message = make(), ChatMessage.user_message(content="go")
        local = LocalTurn(answer_to, agent=agent.name, journal=journal)
        reply, _state = await local.run(agent.run, message, [])
        await local.end()
        replies.append(reply.content)
        entries = [entry["entry"] for entry in local.port.journal]
        assert entries.count("timer") == 1
        journal = local.port.journal[: entries.index("answer") + 1]
    assert replies == ["said yes in 3"] * 2  # the third is that which LangGraph makes once it is answered


@inside
async def test_a_turn_that_was_stopped_anywhere_goes_on(make: Any) -> None:
    def ruled(local: LocalTurn) -> None:
        if "rule" in make.__name__:
            local.port.decide_at_once = lambda request: PENDING

    run = await run_all_prefixes(
        lambda effects: Timeless(named(make, TimeoutPolicy(run_timeout=60, idle_timeout=60))),
        answer_to,
        setup=ruled,
        journal_start={"policy": True},
    )
    assert "said yes" in str(run.response.content)


async def test_a_turn_pauses_in_such_a_node_and_goes_on() -> None:
    def make() -> Any:
        return named(asked_by_a_graph_inside, TimeoutPolicy(run_timeout=60, idle_timeout=60))

    asked = await hitl.run(make(), "go")
    assert asked.status == "interrupted"
    done = await hitl.run(make(), asked.state.answer(asked.interrupts[0], "yes"))
    assert (done.status, done.output) == ("idle", "said yes")
