"""A node of a graph goes on, or is retried, past calls of tools that it has made by itself: what was decided about them
stands, and rules that come or go meanwhile are for those that are made from then on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from tests.python.ext.test_langgraph_own_calls import FORCED, dropping
from tests.python.support.local import PENDING, Journal, LocalTurn
from tests.python.support.prefixes import Effects

EDITED = {"type": "edit", "args": {"force": False}}


def graph_of(node: Any, **options: Any) -> Any:
    return StateGraph(MessagesState).add_node("work", node, **options).add_edge(START, "work").compile()


def entry(kind: str, policy: bool) -> dict[str, Any]:
    return {"at": 1, "entry": kind, "code": "code-1", "python": "3.11", "policy": policy}


def always_a_person(request: Any) -> Any:
    """A rule that has a person asked about each call."""
    return PENDING


async def run(graph: Any, journal: Journal, answers: Any, decide: Any = always_a_person) -> tuple[str, LocalTurn]:
    """A turn to its end on top of a journal: its reply, and what there is of it."""
    loaded = as_agent(graph)
    local = LocalTurn(answers, agent=loaded.name, journal=json.loads(json.dumps(journal)))
    local.port.decide_at_once = decide
    reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    return reply.content or "", local


def until_asked(journal: Journal, kind: str) -> Journal:
    """What stands in a journal until a question of that type is open, and nobody has answered it."""
    asked = [at for at, each in enumerate(journal) if each["entry"] == "ask" and each["step"]["name"] == kind]
    return journal[: asked[0] + 1]


def says(decision: Any) -> Any:
    """A person who decides so, and answers every question."""
    return lambda request: decision if request["type"] == "tool_approval" else "go on"


@pytest.mark.parametrize(
    ("decision", "told", "effects"),
    [
        ({"type": "approve"}, "dropped True", [True]),
        (EDITED, "dropped False", [False]),
        ({"type": "respond", "message": "it is gone"}, "it is gone", []),
    ],
    ids=["approve", "edit", "respond"],
)
async def test_what_a_person_has_approved_runs_once_though_the_rules_are_gone_when_its_node_goes_on(
    decision: Any, told: str, effects: list[bool]
) -> None:
    done: Effects = []
    drop = dropping(done)

    def work(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"{drop.invoke(FORCED)}; {interrupt('Go on?')}")]}

    said, first = await run(graph_of(work), [entry("start", True)], says(decision))
    assert (said, done) == (f"{told}; go on", effects)

    done.clear()
    parked = until_asked(first.port.journal, "question")
    said, again = await run(graph_of(work), [*parked, entry("taken", False)], says(None))
    assert (said, done) == (f"{told}; go on", [])
    assert [asked.request["type"] for asked in again.port.interrupts] == ["question"]


async def test_a_call_that_a_node_has_made_before_there_were_rules_is_not_asked_about_when_the_node_goes_on() -> None:
    done: Effects = []
    tools = ToolNode([dropping(done)])

    async def work(state: MessagesState) -> Any:
        called = AIMessage("", tool_calls=[{"type": "tool_call", "name": "drop", "args": FORCED, "id": "c1"}])
        made = await tools.ainvoke({"messages": [called]})
        return {"messages": [AIMessage(f"{made['messages'][0].content}; {interrupt('Go on?')}")]}

    said, first = await run(graph_of(work), [entry("start", False)], says(None))
    assert (said, done) == ("dropped True; go on", [True])

    parked = until_asked(first.port.journal, "question")
    said, again = await run(graph_of(work), [*parked, entry("taken", True)], says(None))
    assert (said, done) == ("dropped True; go on", [True])
    assert [asked.request["type"] for asked in again.port.interrupts] == ["question"]
