"""Rules hold for tools that a node of a graph calls by itself, as LangGraph's tutorials do, and not by a ToolNode."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, Tool, tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

import hitl
from tests.python.ext.langgraph_runs import proved, says
from tests.python.ext.rules import judged
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.prefixes import Effects

FORCED = {"force": True}
PAST_THE_LOOP = "runs past the turn's event loop, where alone the rules of the policy can be asked about its tools"


def dropping(effects: Effects, *, is_async: bool = False) -> BaseTool:
    @tool
    def drop(force: bool) -> str:
        """Drop."""
        effects.append(force)
        return f"dropped {force}"

    @tool("drop")
    async def drop_later(force: bool) -> str:
        """Drop."""
        effects.append(force)
        return f"dropped {force}"

    made = drop_later if is_async else drop
    made.metadata = {"hitl": {"allowed_decisions": ["approve", "edit", "reject", "respond"]}}
    return made


def message(call: Any, result: Any) -> Any:
    return result if isinstance(result, ToolMessage) else ToolMessage(result, tool_call_id=call["id"])


def by_invoke(made: BaseTool) -> Any:
    def tools(state: MessagesState) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [message(call, made.invoke(call["args"])) for call in calls]}

    return tools


def by_run(made: BaseTool) -> Any:
    def tools(state: MessagesState) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [message(call, made.run(call["args"])) for call in calls]}

    return tools


def by_ainvoke(made: BaseTool) -> Any:
    async def tools(state: MessagesState) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [message(call, await made.ainvoke(call["args"])) for call in calls]}

    return tools


def by_call(made: BaseTool) -> Any:
    def tools(state: MessagesState) -> Any:
        return {"messages": [made.invoke(call) for call in state["messages"][-1].tool_calls]}

    return tools


def by_awaited_call(made: BaseTool) -> Any:
    async def tools(state: MessagesState) -> Any:
        return {"messages": [await made.ainvoke(call) for call in state["messages"][-1].tool_calls]}

    return tools


def by_batch(made: BaseTool) -> Any:
    def tools(state: MessagesState) -> Any:
        return {"messages": made.batch(state["messages"][-1].tool_calls)}

    return tools


PLAIN = [by_invoke, by_run, by_call]
AWAITED = [by_ainvoke, by_awaited_call, by_batch]
WAYS = [(way, False) for way in PLAIN + AWAITED] + [(way, True) for way in AWAITED]


def graph_of(tools: Any, *rounds: Any) -> Any:
    """A loop between a model and a node that calls tools."""
    model = says(*rounds)

    async def ask(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def on(state: MessagesState) -> str:
        said = state["messages"][-1]
        return "tools" if isinstance(said, AIMessage) and said.tool_calls else "__end__"

    builder = StateGraph(MessagesState).add_node("ask", ask).add_node("tools", tools)
    return builder.add_edge(START, "ask").add_conditional_edges("ask", on).add_edge("tools", "ask").compile()


@pytest.mark.parametrize(("way", "is_async"), WAYS)
async def test_a_call_that_a_rule_denies_does_not_run_and_the_model_is_told(way: Any, is_async: bool) -> None:
    effects: Effects = []
    tools = way(dropping(effects, is_async=is_async))
    said, _ = await judged(graph_of(tools, [("drop", FORCED), ("drop", {"force": False})]))
    assert effects == [False]
    assert [text for _, text in json.loads(said)] == ["Policy rejected drop: forced", "dropped False"]


@pytest.mark.parametrize(("way", "is_async"), WAYS)
async def test_without_rules_it_runs_as_ever(way: Any, is_async: bool) -> None:
    effects: Effects = []
    _, local = await judged(graph_of(way(dropping(effects, is_async=is_async)), [("drop", FORCED)]), None)
    assert effects == [True]
    assert "drop" not in [step["name"] for step, _ in local.port.steps]


def asks_about(setup: LocalTurn) -> None:
    """A rule that has a person asked about what is forced."""

    def decide(request: Any) -> Any:
        forced = request["payload"].get("tool_args", {}).get("force")
        return PENDING if forced or request.get("required", True) else {"type": "approve", "by": "policy"}

    setup.port.decide_at_once = decide


SAID = [
    ({"type": "approve"}, [True], "dropped True"),
    ({"type": "edit", "args": {"force": False}}, [False], "dropped False\n"),
    ({"type": "reject", "reason": "no"}, [], "User rejected drop: no"),
    ({"type": "respond", "message": "it is gone"}, [], "it is gone"),
]


@pytest.mark.parametrize("way", PLAIN + AWAITED[:2])
@pytest.mark.parametrize(("decision", "effects", "told"), SAID, ids=[str(each[0]["type"]) for each in SAID])
async def test_a_person_whom_a_rule_asks_decides_once(way: Any, decision: Any, effects: Any, told: str) -> None:
    def answers(asked: Any) -> Any:
        return decision

    def make(effects: Effects) -> Any:
        return graph_of(way(dropping(effects)), [("drop", FORCED)])

    run, said = await proved(make, answers, setup=asks_about, journal_start={"policy": True})
    assert (run.effects, [asked["tool_call_id"] for asked in run.requests]) == (effects, ["c00"])
    assert said[0][1].startswith(told)


async def test_a_call_of_the_node_s_own_is_judged_too_and_its_no_is_raised() -> None:
    effects: Effects = []
    drop = dropping(effects)

    def work(state: MessagesState) -> Any:
        try:
            drop.invoke(FORCED)
        except hitl.ToolRejected as no:
            return {"messages": [AIMessage(f"{no}; {drop.invoke({'force': False})}")]}
        raise AssertionError("not judged")

    graph = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile()
    said, local = await judged(graph)
    assert said == "Policy rejected drop: forced; dropped False"
    assert [asked.request["tool_call_id"] for asked in local.port.interrupts] == ["drop:1", "drop:2"]


async def test_so_is_that_of_a_task() -> None:
    effects: Effects = []
    drop = dropping(effects)

    @task
    async def make(call: Any) -> Any:
        return (await drop.ainvoke(call)).content

    @entrypoint()
    async def work(said: str) -> str:
        call = {"type": "tool_call", "name": "drop", "args": FORCED, "id": "c1"}
        return str(await make(call))

    said, _ = await judged(work)
    assert (said, effects) == ("Policy rejected drop: forced", [])


async def test_what_people_and_rules_see_leaves_out_what_the_node_adds() -> None:
    kept: list[Any] = []

    @tool
    def drop(force: bool, where: Annotated[Any, InjectedToolArg]) -> str:
        """Drop."""
        kept.append((force, where))
        return "dropped"

    place = object()

    def tools(state: MessagesState) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [message(call, drop.invoke({**call["args"], "where": place})) for call in calls]}

    _, local = await judged(graph_of(tools, [("drop", {"force": False})]))
    assert [asked.request["payload"]["tool_args"] for asked in local.port.interrupts] == [{"force": False}]
    assert kept == [(False, place)]


@tool
def told(day: date, note: str = "") -> str:
    """Tell the day."""
    return f"{day:%d.%m.}{note}"


OWN = [
    (told, {"day": date(2026, 5, 1)}, {"day": "2026-05-01", "note": ""}, "01.05."),
    (Tool("shout", str.upper, "Shout."), "hey", {"__arg1": "hey"}, "HEY"),
    (Tool("shout", str.upper, "Shout."), {"text": "hey"}, {"__arg1": "hey"}, "HEY"),
]


@pytest.mark.parametrize(("made", "given", "shown", "result"), OWN, ids=["value", "text", "only argument"])
async def test_rules_see_the_arguments_of_code_as_a_model_would_have_written_them(
    made: BaseTool, given: Any, shown: Any, result: str
) -> None:
    def work(state: MessagesState) -> Any:
        return {"messages": [AIMessage(made.invoke(given))]}

    graph = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile()
    said, local = await judged(graph)
    asked = [(each.request["payload"]["tool_args"], each.request.get("required")) for each in local.port.interrupts]
    assert (said, asked) == (result, [(shown, False)])


async def test_a_person_is_asked_where_no_json_says_what_code_gives() -> None:
    @tool
    def drop(what: Any) -> str:
        """Drop."""
        return "dropped"

    def work(state: MessagesState) -> Any:
        return {"messages": [AIMessage(drop.invoke({"what": object()}))]}

    graph = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile()
    said, local = await judged(graph)
    assert (said, [each.request.get("required", True) for each in local.port.interrupts]) == ("dropped", [True])


async def test_several_at_once_are_asked_about_and_made_each_for_itself() -> None:
    def make(effects: Effects) -> Any:
        drop = dropping(effects)

        async def one() -> str:
            return str(await drop.ainvoke(FORCED))

        async def work(state: MessagesState) -> Any:
            return {"messages": [AIMessage(json.dumps(await asyncio.gather(one(), one(), hitl.step(one))))]}

        return StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile()

    run, said = await proved(make, lambda asked: {"type": "approve"}, setup=asks_about, journal_start={"policy": True})
    assert (run.effects, said) == ([True] * 3, ["dropped True"] * 3)


async def test_a_coroutine_that_blocks_the_loop_calls_nothing_where_there_are_rules() -> None:
    effects: Effects = []
    drop = dropping(effects)

    async def tools(state: MessagesState) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [message(call, drop.invoke(call["args"])) for call in calls]}

    with pytest.raises(RuntimeError, match=PAST_THE_LOOP):
        await judged(graph_of(tools, [("drop", {"force": False})]))
    assert effects == []


async def test_what_a_tool_does_by_itself_is_its_own_business() -> None:
    effects: Effects = []
    inner = dropping(effects)

    @tool
    def tidy() -> str:
        """Tidy up."""
        return str(inner.invoke(FORCED))

    said, _ = await judged(graph_of(ToolNode([tidy]), [("tidy", {})]))
    assert (json.loads(said), effects) == ([["success", "dropped True"]], [True])
    said, _ = await judged(graph_of(by_invoke(tidy), [("tidy", {})]))
    assert (json.loads(said), effects) == ([["success", "dropped True"]], [True, True])


async def test_a_node_of_a_graph_that_a_tool_runs_is_judged_as_any() -> None:
    effects: Effects = []
    inner = graph_of(by_invoke(dropping(effects)), [("drop", FORCED)])

    @tool
    def tidy() -> str:
        """Tidy up."""
        return str(inner.invoke({"messages": [("user", "go")]})["messages"][-1].text)

    said, _ = await judged(graph_of(ToolNode([tidy]), [("tidy", {})]))
    assert (effects, "forced" in said) == ([], True)


async def test_an_approved_call_that_asks_goes_on_with_the_answer() -> None:
    def make(effects: Effects) -> Any:
        @tool
        def drop(force: bool) -> str:
            """Drop."""
            where = interrupt("Where to?")
            effects.append(where)
            return f"dropped {where}"

        return graph_of(by_invoke(drop), [("drop", FORCED)])

    def answers(asked: Any) -> Any:
        return "there" if asked["type"] == "question" else {"type": "approve"}

    run, said = await proved(make, answers, setup=asks_about, journal_start={"policy": True})
    assert (run.effects, said) == (["there"], [["success", "dropped there"]])
