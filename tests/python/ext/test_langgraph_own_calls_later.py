"""A node of a graph goes on, or is retried, past calls of tools that it has made by itself: what was decided about them
stands, and rules that come or go meanwhile are for those that are made from then on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, interrupt

import hitl
from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from tests.python.ext.langgraph_runs import proved
from tests.python.ext.test_langgraph_own_calls import FORCED, asks_about, dropping
from tests.python.support.local import PENDING, Journal, LocalTurn
from tests.python.support.prefixes import Effects
from tests.python.unit.conditions import until, until_waiting

DENIED = {"type": "reject", "reason": "closed", "by": "policy"}
APPROVE = {"type": "approve"}
EDITED = {"type": "edit", "args": {"force": False}}


def graph_of(node: Any, **options: Any) -> Any:
    return StateGraph(MessagesState).add_node("work", node, **options).add_edge(START, "work").compile()


def entry(kind: str, policy: bool) -> dict[str, Any]:
    return {"at": 1, "entry": kind, "code": "code-1", "python": "3.11", "policy": policy}


def always_a_person(request: Any) -> Any:
    """A rule that has a person asked about each call."""
    return PENDING


async def run(
    graph: Any, journal: Journal, answers: Any, decide: Any = always_a_person, *, code: str = "code-1"
) -> tuple[str, LocalTurn]:
    """A turn to its end on top of a journal: its reply, and what there is of it."""
    loaded = as_agent(graph)
    local = LocalTurn(answers, agent=loaded.name, journal=json.loads(json.dumps(journal)), code=code)
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
        (APPROVE, "dropped True", [True]),
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


def denies(request: Any) -> Any:
    """A rule that denies what is forced."""
    return DENIED if request["payload"].get("tool_args") == FORCED else PENDING


def in_plain(drop: Any) -> Any:
    def work(state: MessagesState) -> Any:
        try:
            said = drop.invoke(FORCED)
        except hitl.ToolRejected as no:
            said = str(no)
        where = hitl.step.sync(place)
        return {"messages": [AIMessage(f"{said} {where}; {interrupt('Go on?')}")]}

    return work


def awaited(drop: Any) -> Any:
    async def dropped() -> str:
        try:
            return str(await drop.ainvoke(FORCED))
        except hitl.ToolRejected as no:
            return str(no)

    async def work(state: MessagesState) -> Any:
        said, where = await asyncio.gather(dropped(), hitl.step(place))
        return {"messages": [AIMessage(f"{said} {where}; {interrupt('Go on?')}")]}

    return work


def place() -> str:
    return "here"


@pytest.mark.parametrize("node", [in_plain, awaited])
async def test_rules_that_came_while_a_node_waits_are_for_the_calls_that_it_makes_from_then_on(node: Any) -> None:
    done: Effects = []
    graph = graph_of(node(dropping(done)))
    said, first = await run(graph, [entry("start", False)], says(None))
    assert (said, done) == ("dropped True here; go on", [True, True])  # a part of its node, as without rules

    done.clear()
    journal = until_asked(first.port.journal, "question")
    said, later = await run(graph, [*journal, entry("taken", True)], says(None), denies)
    assert (said, done) == ("Policy rejected drop: closed here; go on", [True])

    done.clear()
    again = later.port.journal
    for cut in range(len(journal) + 1, len(again)):
        if again[cut - 1]["entry"] == "ask":
            continue
        assert (await run(graph, again[:cut], says(None), denies))[0] == said, f"cut at {cut}"


async def test_under_other_code_a_call_may_be_a_new_one_which_no_rule_has_seen() -> None:
    done: Effects = []
    graph = graph_of(in_plain(dropping(done)))
    _, first = await run(graph, [entry("start", False)], says(None))

    done.clear()
    taken = {**entry("taken", True), "code": "code-2"}
    with pytest.raises(hitl.ReplayMismatch):
        await run(graph, [*until_asked(first.port.journal, "question"), taken], says(None), denies, code="code-2")
    assert done == []


async def test_what_middleware_had_approved_before_there_were_rules_is_made_once_from_then_on() -> None:
    done: Effects = []
    drop = dropping(done)
    call = {"name": "drop", "args": FORCED, "id": "c1"}

    def work(state: MessagesState) -> Any:
        interrupt({"type": "tool_approval", "tool_call_id": call["id"], **call})
        made = drop.invoke({"type": "tool_call", **call}).content
        return {"messages": [AIMessage(f"{made}; {interrupt('Go on?')}; {interrupt('And on?')}")]}

    graph = graph_of(work)
    _, first = await run(graph, [entry("start", False)], says(APPROVE))
    assert done == [True] * 3

    done.clear()
    journal = until_asked(first.port.journal, "question")
    said, _ = await run(graph, [*journal, entry("taken", True)], says(APPROVE), denies)
    assert (said, done) == ("dropped True; go on; go on", [True, True])


# -- retried by LangGraph ----------------------------------------------------------------------------------------------

AT_ONCE = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=3)


def retried(node: Any) -> Any:
    """A node that LangGraph runs anew where it raises, after a model that wants one call made."""

    def ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage("", tool_calls=[{"name": "drop", "args": FORCED, "id": "c1"}])]}

    builder = StateGraph(MessagesState).add_node("ask", ask).add_node("work", node, retry_policy=AT_ONCE)
    return builder.add_edge(START, "ask").add_edge("ask", "work").compile()


NOES = [
    pytest.param({"type": "reject", "reason": "keep it"}, "User rejected drop: keep it", id="reject"),
    pytest.param(None, "nobody answered in time", id="expiry"),
]


def decides(decision: Any) -> Any:
    """A person who decides so, or never."""

    def answers(request: Any) -> Any:
        if decision is None:
            raise hitl.InterruptExpired
        return decision

    return answers


@pytest.mark.parametrize(("decision", "words"), NOES)
async def test_a_no_ends_a_node_whatever_it_retries(decision: Any, words: str) -> None:
    runs: list[str] = []
    drop = dropping([])

    def work(state: MessagesState) -> Any:
        runs.append("run")
        drop.invoke({"force": True})
        drop.invoke({"force": True})  # the model wanted one: this is the node's own

    local = LocalTurn(journal=[entry("start", True)])
    local.port.decide_at_once = always_a_person
    local.port.answers = lambda request: APPROVE if request["tool_call_id"] == "c1" else decides(decision)(request)
    loaded = as_agent(retried(work))
    with pytest.raises((hitl.ToolRejected, hitl.InterruptExpired), match=words):
        await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    assert runs == ["run"]
    assert [asked.request["tool_call_id"] for asked in local.port.interrupts] == ["c1", "drop:1"]


def fails_once(make: Any, *, is_of_model: bool) -> Any:
    """A node that makes a call, fails in its first try, and says what came of the call in its second."""

    async def work(state: MessagesState, runtime: Runtime) -> Any:
        if not is_of_model:
            await make()  # the one that the model wants; the next is the node's own
        try:
            said = str(await make())
        except (hitl.ToolRejected, hitl.InterruptExpired) as no:
            said = str(no)
        assert runtime.execution_info is not None
        if runtime.execution_info.node_attempt == 1:
            raise ConnectionError
        return {"messages": [AIMessage(json.dumps([said]))]}

    return retried(work)


OF_MODEL = pytest.mark.parametrize("is_of_model", [True, False], ids=["of the model", "of the node"])


@OF_MODEL
@pytest.mark.parametrize(
    ("decision", "words", "effects"),
    [
        (APPROVE, "dropped True", [True]),
        (EDITED, "dropped False", [False]),
        ({"type": "reject", "reason": "keep it"}, "User rejected drop: keep it", []),
        ({"type": "respond", "message": "it is gone"}, "it is gone", []),
    ],
    ids=["approve", "edit", "reject", "respond"],
)
async def test_what_a_person_has_decided_stands_where_a_node_is_tried_again(
    is_of_model: bool, decision: Any, words: str, effects: list[bool]
) -> None:
    def make(effects: Effects) -> Any:
        drop = dropping(effects)
        return fails_once(lambda: drop.ainvoke(FORCED), is_of_model=is_of_model)

    def answers(request: Any) -> Any:
        return decision if is_of_model or request["tool_call_id"] != "c1" else APPROVE

    found, said = await proved(make, answers, setup=asks_about, journal_start={"policy": True})
    assert said[0].startswith(words)
    assert found.effects == [*([] if is_of_model else [True]), *effects]
    assert [asked["tool_call_id"] for asked in found.requests] == ["c1", *([] if is_of_model else ["drop:1"])]


@OF_MODEL
async def test_nobody_is_asked_again_in_the_next_try_where_nobody_answered_in_time(is_of_model: bool) -> None:
    drop = dropping([])
    graph = fails_once(lambda: drop.ainvoke(FORCED), is_of_model=is_of_model)
    said, local = await run(graph, [entry("start", True)], decides(None))
    assert (json.loads(said), len(local.port.interrupts)) == (["nobody answered in time"], 2 - is_of_model)


def failing_first(tries: list[str]) -> Any:
    """A tool whose first call fails."""

    @tool
    def look(where: str) -> str:
        """Look."""
        tries.append(where)
        if len(tries) == 1:
            raise ConnectionError
        return "nothing there"

    return look


async def test_a_call_that_failed_is_asked_about_again_before_the_next_try_makes_it() -> None:
    tries: list[str] = []
    look = failing_first(tries)

    def work(state: MessagesState) -> Any:
        return {"messages": [AIMessage(look.invoke({"where": "here"}))]}

    said, local = await run(retried(work), [entry("start", True)], says(APPROVE))
    assert (said, tries, len(local.port.interrupts)) == ("nothing there", ["here"] * 2, 2)


async def test_nobody_is_asked_again_when_a_node_goes_on_past_what_nobody_answered_in_time() -> None:
    def answers(request: Any) -> Any:
        if request["type"] == "question":
            return "go on"
        raise hitl.InterruptExpired

    drop = dropping([])

    async def work(state: MessagesState) -> Any:
        try:
            said = await drop.ainvoke(FORCED)
        except hitl.InterruptExpired as no:
            said = str(no)
        color = await hitl.interrupt({"type": "color"}, expires_in=60, on_expire="red")
        return {"messages": [AIMessage(f"{said}; {color}; {interrupt('Go on?')}")]}

    said, local = await run(graph_of(work), [entry("start", True)], answers)
    assert said == "nobody answered in time; red; go on"
    assert [asked.request["type"] for asked in local.port.interrupts] == ["tool_approval", "color", "question"]


def about_what_is_forced(request: Any) -> Any:
    """A rule that has a person asked about that alone."""
    return PENDING if request["payload"].get("tool_args") == FORCED else {"type": "approve", "by": "policy"}


def two_calls(done: Effects, tries: list[str], *, is_gated: bool = False) -> Any:
    """A model's two calls in a ToolNode, of which the second fails when it is made first; and what came of both."""
    calls = [{"name": "drop", "args": FORCED, "id": "c1"}, {"name": "look", "args": {"where": "here"}, "id": "c2"}]

    def ask(state: MessagesState) -> Any:
        if is_gated:
            interrupt({"type": "tool_approval", "tool_call_id": "c1", "name": "drop", "args": FORCED})
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def tell(state: MessagesState) -> Any:
        results = [each for each in state["messages"] if isinstance(each, ToolMessage)]
        return {"messages": [AIMessage(json.dumps([[each.status, each.content] for each in results]))]}

    tools = ToolNode([dropping(done), failing_first(tries)], handle_tool_errors=False)
    builder = StateGraph(MessagesState).add_node("ask", ask).add_node("tools", tools, retry_policy=AT_ONCE)
    builder = builder.add_node("tell", tell).add_edge(START, "ask").add_edge("ask", "tools").add_edge("tools", "tell")
    return builder.compile()


@pytest.mark.parametrize(
    ("is_gated", "decision", "told", "effects"),
    [
        (False, APPROVE, ["success", "dropped True"], [True]),
        (False, {"type": "reject", "reason": "keep it"}, ["error", "User rejected drop: keep it"], []),
        (False, {"type": "respond", "message": "it is gone"}, ["success", "it is gone"], []),
        (True, APPROVE, ["success", "dropped True"], [True]),
    ],
    ids=["approve", "reject", "respond", "approve by middleware"],
)
async def test_what_a_person_has_decided_stands_where_a_tool_node_is_tried_again_for_another_call(
    is_gated: bool, decision: Any, told: list[str], effects: list[bool]
) -> None:
    done: Effects = []
    tries: list[str] = []
    graph = two_calls(done, tries, is_gated=is_gated)
    said, local = await run(graph, [entry("start", not is_gated)], says(decision), about_what_is_forced)
    assert json.loads(said) == [told, ["success", "nothing there"]]
    asked = [each.request["tool_call_id"] for each in local.port.interrupts]
    assert (done, tries, asked.count("c1")) == (effects, ["here"] * 2, 1)


async def test_a_turn_pauses_while_a_try_waits_for_what_an_earlier_one_has_asked() -> None:
    done: Effects = []
    tries: list[str] = []
    loaded = as_agent(two_calls(done, tries))
    local = LocalTurn(lambda _: PENDING, agent=loaded.name, journal=[entry("start", True)])
    local.port.decide_at_once = about_what_is_forced
    task = local.start(loaded.run, ChatMessage.user_message(content="go"), [])
    await until(lambda: len(tries) == 2)
    await until_waiting(local, local.port.waits + 1)
    assert (done, tries) == ([], ["here"] * 2)
    asked = [each for each in local.port.interrupts if each.request["tool_call_id"] == "c1"]
    assert len(asked) == 1
    asked[0].give(APPROVE)
    reply, _ = await task
    await local.end()
    assert json.loads(reply.content or "") == [["success", "dropped True"], ["success", "nothing there"]]
    assert (done, tries) == ([True], ["here"] * 2)
