"""Toolsets that no durable execution of pydantic-ai knows: what a run is given, and what is of a class of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, ModelRetry, RunContext, Tool
from pydantic_ai.capabilities import Toolset
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

import hitl
from tests.python.ext.pydantic_ai_runs import APPROVE, proved, says
from tests.python.support.prefixes import Effects


def _added(agent: Agent[Any, Any], toolsets: list[Any]) -> Any:
    return agent.run("go", toolsets=toolsets)


async def _in_their_place(agent: Agent[Any, Any], toolsets: list[Any]) -> Any:
    with agent.override(toolsets=toolsets):
        return await agent.run("go")


async def _in_place_of_its_tools(agent: Agent[Any, Any], toolsets: list[Any]) -> Any:
    tools = [tool for each in toolsets if isinstance(each, FunctionToolset) for tool in each.tools.values()]
    with agent.override(tools=tools):
        return await agent.run("go", toolsets=[each for each in toolsets if not isinstance(each, FunctionToolset)])


def _of_a_capability(agent: Agent[Any, Any], toolsets: list[Any]) -> Any:
    return agent.run("go", capabilities=[Toolset(each) for each in toolsets])


@pytest.mark.parametrize("run_with", [_added, _in_their_place, _in_place_of_its_tools, _of_a_capability])
async def test_toolsets_that_a_run_is_given_are_steps_and_gated(run_with: Callable[..., Any]) -> None:
    def make(effects: Effects) -> Any:
        def pay(cents: int) -> str:
            effects.append(cents)
            return "paid"

        def look() -> str:
            effects.append("look")
            return "seen"

        def late() -> str:
            effects.append("late")
            return "later"

        inner = Agent(says([("look", {}), ("pay", {"cents": 5}), ("late", {})]), name="inner")
        inner.tool_plain(lambda: "unused", name="own")  # type: ignore[call-overload]
        outer = Agent(says([("delegate", {})], [("delegate", {})]), name="outer")

        @outer.tool_plain
        async def delegate() -> str:
            gated = Tool(pay, requires_approval=True)
            made = DynamicToolset[Any](lambda ctx: FunctionToolset([late]))
            return str((await run_with(inner, [FunctionToolset([look]), FunctionToolset([gated]), made])).output)

        return outer

    run, said = await proved(make, lambda asked: APPROVE)
    told = json.dumps([["success", "seen"], ["success", "paid"], ["success", "later"]])
    assert said == [["success", told]] * 2
    steps = [entry["step"] for entry in run.port.journal if entry["entry"] == "step"]
    names = sorted(step["name"] for step in steps if step["kind"] == "tool")
    assert names == sorted(["look", "pay", "late", "delegate"] * 2)
    assert [asked["payload"]["tool_args"] for asked in run.requests] == [{"cents": 5}] * 2


class Drawers(AbstractToolset[Any]):
    """A class of its own, as whoever brings many tools has it."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    @property
    def id(self) -> str | None:
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        definition = ToolDefinition(name="open", parameters_json_schema={"type": "object"}, kind="unapproved")
        validator = SchemaValidator(core_schema.dict_schema())
        return {"open": ToolsetTool(toolset=self, tool_def=definition, max_retries=1, args_validator=validator)}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        self._effects.append(tool_args["number"])
        if tool_args["number"] == 2:
            raise ModelRetry("stuck")
        return f"opened {tool_args['number']}"


async def test_calls_of_a_toolset_of_a_class_of_its_own_are_steps_and_gated() -> None:
    def make(effects: Effects) -> Any:
        model = says([("open", {"number": 1})], [("open", {"number": 2})], [("open", {"number": 3})])
        return Agent(model, name="porter", toolsets=[Drawers(effects)])

    run, said = await proved(make, lambda asked: APPROVE)
    assert [each[0] for each in said] == ["success", "retried", "success"]
    assert run.effects == [1, 2, 3]
    steps = [entry["step"]["name"] for entry in run.port.journal if entry["entry"] == "step"]
    assert steps.count("open") == 3
    assert [asked["payload"]["tool_args"]["number"] for asked in run.requests] == [1, 2, 3]


async def test_a_toolset_of_two_agents_has_a_place_in_each() -> None:
    shared = FunctionToolset([Tool(lambda: "shared", name="both")])
    first = Agent(says([("both", {})]), name="first", toolsets=[FunctionToolset(), shared])
    second = Agent(says([("both", {})]), name="second", toolsets=[shared, FunctionToolset()])
    for agent in (first, second):
        result = await hitl.run(agent, "go")
        assert result.output == json.dumps([["success", "shared"]])
