"""Rules hold for an agent that a tool runs, however the tool runs it: what cannot wait for them is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import LocalShellTool, Runner, function_tool, set_tracing_disabled
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from openai.types.responses.response_output_item import LocalShellCall, LocalShellCallAction
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from tests.python.ext import langgraph_runs, openai_agents_runs, pydantic_ai_runs
from tests.python.ext.rules import judged

Drops = list[str]
"""What was dropped."""
Runs = Callable[[Any], Any]
"""How a tool runs an agent."""

PAST_THE_LOOP = "runs past the turn's event loop, where alone the rules of the policy can be asked about its tools"


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def openai_agent(drops: Drops, run: Runs, arguments: dict[str, Any]) -> Any:
    @function_tool(strict_mode=False)
    def drop(force: bool) -> str:
        drops.append("dropped")
        return "dropped"

    inner = OpenAIAgent(name="inner", model=openai_agents_runs.Says([("drop", arguments)]), tools=[drop])

    # What the SDK tells a model of an error by itself does not say what it was.
    @function_tool(failure_error_function=lambda _, error: str(error))
    def ask() -> str:
        return str(run(inner))

    return OpenAIAgent(name="outer", model=openai_agents_runs.Says([("ask", {})]), tools=[ask])


def pydantic_ai_agent(drops: Drops, run: Runs, arguments: dict[str, Any]) -> Any:
    inner = Agent(pydantic_ai_runs.says([("drop", arguments)]), name="inner")

    @inner.tool_plain
    def drop(force: bool) -> str:
        drops.append("dropped")
        return "dropped"

    outer = Agent(pydantic_ai_runs.says([("ask", {})]), name="outer")

    @outer.tool_plain
    def ask() -> str:
        return str(run(inner))

    return outer


def langchain_agent(drops: Drops, run: Runs, arguments: dict[str, Any]) -> Any:
    @langchain_tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append("dropped")
        return "dropped"

    inner = create_agent(langgraph_runs.says([("drop", arguments)]), [drop], name="inner")

    @langchain_tool
    def ask() -> str:
        """Ask."""
        return str(run(inner))

    return create_agent(langgraph_runs.says([("ask", {})]), [ask], name="outer")


def blocking_langchain_agent(drops: Drops, run: Runs, arguments: dict[str, Any]) -> Any:
    """Whose tool is a coroutine, and blocks the loop while the other works."""
    outer = langchain_agent(drops, run, arguments)
    (ask,) = outer.nodes["tools"].bound.tools_by_name.values()

    @langchain_tool("ask")
    async def ask_blocking() -> str:
        """Ask."""
        return str(ask.func())

    return create_agent(langgraph_runs.says([("ask", {})]), [ask_blocking], name="outer")


def go(graph: Any) -> Any:
    return graph.invoke({"messages": [("user", "go")]})["messages"][-1].text


def go_apart(graph: Any) -> Any:
    return asyncio.run(graph.ainvoke({"messages": [("user", "go")]}))["messages"][-1].text


def run_apart(agent: Any) -> Any:
    return asyncio.run(Runner.run(agent, "go")).final_output


WAITING = [
    pytest.param(openai_agent, lambda inner: Runner.run_sync(inner, "go").final_output, id="run_sync"),
    pytest.param(langchain_agent, go, id="invoke"),
]
PAST = [
    pytest.param(openai_agent, run_apart, id="openai_agents"),
    pytest.param(pydantic_ai_agent, lambda inner: asyncio.run(inner.run("go")).output, id="pydantic_ai"),
    pytest.param(langchain_agent, go_apart, id="langgraph"),
    pytest.param(blocking_langchain_agent, go, id="langgraph, blocking"),
]


@pytest.mark.parametrize(("make", "run"), WAITING)
async def test_what_an_agent_calls_that_a_plain_tool_runs_is_judged(make: Any, run: Runs) -> None:
    denied: Drops = []
    said, _ = await judged(make(denied, run, {"force": True}))
    assert (denied, "forced" in said) == ([], True)
    allowed: Drops = []
    said, local = await judged(make(allowed, run, {"force": False}))
    assert (allowed, "dropped" in said) == (["dropped"], True)
    steps = [entry["step"]["name"] for entry in local.port.journal if entry["entry"] == "step"]
    assert "drop" in steps


@pytest.mark.parametrize(("make", "run"), PAST)
async def test_an_agent_that_runs_where_no_rule_can_be_asked_calls_nothing(make: Any, run: Runs) -> None:
    drops: Drops = []
    said = await _said(make(drops, run, {"force": False}))
    assert drops == []
    assert PAST_THE_LOOP in said


@pytest.mark.parametrize(("make", "run"), PAST)
async def test_it_runs_as_ever_where_there_are_no_rules(make: Any, run: Runs) -> None:
    drops: Drops = []
    said, _ = await judged(make(drops, run, {"force": False}), None)
    assert (drops, "dropped" in said) == (["dropped"], True)


def openai_classifier() -> Any:
    return OpenAIAgent(name="inner", model=openai_agents_runs.Says(last="spam"))


def pydantic_ai_classifier() -> Any:
    return Agent(TestModel(custom_output_text="spam"), name="inner")


def langchain_classifier() -> Any:
    return create_agent(langgraph_runs.says(), name="inner")


TOOLLESS = [
    pytest.param(openai_agent, openai_classifier, run_apart, id="openai_agents"),
    pytest.param(
        pydantic_ai_agent, pydantic_ai_classifier, lambda inner: asyncio.run(inner.run("go")).output, id="pydantic_ai"
    ),
    pytest.param(langchain_agent, langchain_classifier, go_apart, id="langgraph"),
]


@pytest.mark.parametrize(("make", "classifier", "run"), TOOLLESS)
async def test_one_that_calls_nothing_runs_there_as_ever(make: Any, classifier: Any, run: Runs) -> None:
    came: list[str] = []

    def classify(_: Any) -> str:
        came.append(run(classifier()))
        return "classified"

    said, _ = await judged(make([], classify, {}))
    assert len(came) == 1
    assert "classified" in said


async def test_an_agent_with_a_shell_does_not_begin_there() -> None:
    commands: list[Any] = []

    def execute(request: Any) -> str:
        commands.append(request)
        return "executed"

    def run(_: Any) -> str:
        action = LocalShellCallAction(type="exec", command=["drop"], env={})
        call = LocalShellCall(id="l", type="local_shell_call", call_id="l1", status="completed", action=action)
        inner = OpenAIAgent(
            name="inner", model=openai_agents_runs.Says([call], last="done"), tools=[LocalShellTool(executor=execute)]
        )
        return str(run_apart(inner))

    said = await _said(openai_agent([], run, {}))
    assert PAST_THE_LOOP in said
    assert commands == []


async def _said(agent: Any) -> str:
    """The reply, or the error that the turn ended with: frameworks differ in which of their errors a model is told."""
    try:
        said, _ = await judged(agent)
    except RuntimeError as error:
        return str(error)
    return said
