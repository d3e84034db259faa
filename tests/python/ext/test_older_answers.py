"""Answers to questions of other frameworks' agents that were given under another schema than the agent has by now.

What a tool asks in its body is no such question: with the step that the tool is, its schema is in the journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import hitl
from hitl import RunState

Make = Callable[[dict[str, Any]], Any]
"""Makes an agent that asks twice, and answers with both answers."""

OLD, NEW = {"enum": ["a", "b"]}, {"enum": ["a", "c"]}
NOT_OF_NEW = 'The answer was refused: answer: "b" is not one of "a" or "c" Which?'


def of_pydantic_ai(options: dict[str, Any]) -> Any:
    runs = pytest.importorskip("tests.python.ext.pydantic_ai_runs")
    from pydantic_ai import Agent, ExternalToolset, ToolDefinition

    pick = ToolDefinition(name="pick", metadata={"hitl": {"description": "Which?", **options}})
    return Agent(runs.says([("pick", {})], [("pick", {})]), name="picker", toolsets=[ExternalToolset([pick])])


def of_langgraph(options: dict[str, Any]) -> Any:
    pytest.importorskip("langgraph")
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.types import interrupt

    def ask(state: MessagesState) -> dict[str, Any]:
        value, schema = {"type": options["type"], "prompt": "Which?"}, options["response_schema"]
        said = [["success", interrupt(value, response_schema=schema)] for _ in range(2)]
        return {"messages": [AIMessage(json.dumps(said))]}

    builder: Any = StateGraph(MessagesState)
    return builder.add_node(ask).add_edge(START, "ask").compile(name="picker")


def of_strands(options: dict[str, Any]) -> Any:
    runs = pytest.importorskip("tests.python.ext.strands_runs")
    from strands import Agent, tool
    from strands.hooks import BeforeToolCallEvent

    @tool
    def pick() -> str:
        """Have a person pick."""
        return "nothing"

    def ask(event: Any) -> None:
        event.cancel_tool = event.interrupt("which", reason={"hitl": {"description": "Which?", **options}})

    agent = Agent(runs.says([("pick", {})], [("pick", {})]), name="picker", tools=[pick])
    agent.hooks.add_callback(BeforeToolCallEvent, ask)
    return agent


FRAMEWORKS = pytest.mark.parametrize("of", [of_pydantic_ai, of_langgraph, of_strands], ids=lambda it: it.__name__[3:])


def picking(of: Make, schema: dict[str, Any]) -> Any:
    return of({"type": "pick", "response_schema": schema})


def said_by(done: Any) -> list[Any]:
    assert done.status == "idle", done.error
    return [answer for _, answer in json.loads(done.output)]


@FRAMEWORKS
async def test_one_that_nothing_has_come_of_is_asked_for_again(of: Make) -> None:
    """As that to a question of `hitl.interrupt` is: what the agent gets is what it has asked for."""
    asked = await hitl.run(picking(of, OLD), "go")
    text = asked.state.answer(asked.interrupts[0], "b").to_string()

    agent = picking(of, NEW)
    again = await hitl.run(agent, RunState.from_string(agent, text))
    assert [each.message for each in again.interrupts] == [NOT_OF_NEW]
    second = await hitl.run(agent, again.state.answer(again.interrupts[0], "c"))
    assert said_by(await hitl.run(agent, second.state.answer(second.interrupts[0], "a"))) == ["c", "a"]


@FRAMEWORKS
async def test_one_that_was_taken_stays_whatever_the_schema_is_now(of: Make) -> None:
    agent = picking(of, OLD)
    asked = await hitl.run(agent, "go")
    second = await hitl.run(agent, asked.state.answer(asked.interrupts[0], "b"))
    text = second.state.answer(second.interrupts[0], "a").to_string()

    agent = picking(of, NEW)
    assert said_by(await hitl.run(agent, RunState.from_string(agent, text))) == ["b", "a"]


@FRAMEWORKS
async def test_a_type_that_brings_its_answer_is_answered_so_whatever_schema_is_beside_it(of: Make) -> None:
    """The server goes by the type: the agent would ask again and again for what nobody may answer."""
    agent = of({"type": "tool_approval", "response_schema": {"type": "string"}})
    asked = await hitl.run(agent, "go")
    second = await hitl.run(agent, asked.state.answer(asked.interrupts[0], {"type": "approve"}))
    assert [each.message for each in second.interrupts] == ["Which?"]
    done = await hitl.run(agent, second.state.answer(second.interrupts[0], {"type": "approve"}))
    assert done.status == "idle", done.error
