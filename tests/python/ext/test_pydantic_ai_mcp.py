"""Tools of an MCP server in an agent of pydantic-ai: gated, and connected to anew by whoever goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import ApprovalRequiredToolset

import hitl
from tests.python.support.served import ROOT


def gated() -> ApprovalRequiredToolset[Any]:
    """A connection of its own, each."""
    # Here, for they take seconds, which every process of `pytest -n auto` would spend while it collects.
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    # A server that outlives the run is ended when its transport is collected, perhaps in the middle of another test.
    command = [str(ROOT / "tests/python/support/mcp_server.py")]
    transport = StdioTransport(sys.executable, command, keep_alive=False)
    server = MCPToolset[Any](transport, init_timeout=100)
    return ApprovalRequiredToolset(server, lambda ctx, tool, args: tool.name == "write")


def librarian() -> Agent[Any, Any]:
    return Agent(TestModel(call_tools=["write"]), name="librarian", toolsets=[gated()])


def desk() -> Agent[Any, Any]:
    """Gives its librarian the server for each run."""
    inner = Agent(TestModel(call_tools=["write"]), name="librarian")

    async def ask() -> str:
        return (await inner.run("go", toolsets=[gated()])).output

    return Agent(TestModel(), name="desk", tools=[ask])


@pytest.mark.parametrize(("make", "said"), [(librarian, {"write": "wrote 2"}), (desk, {"ask": '{"write":"wrote 2"}'})])
async def test_a_gated_tool_of_a_server_runs_in_another_run_than_the_one_that_asked(
    make: Callable[[], Agent[Any, Any]], said: dict[str, Any]
) -> None:
    asked = await hitl.run(make(), "go")
    assert asked.status == "interrupted", asked.error
    (question,) = asked.interrupts
    assert (question.tool_name, question.tool_args) == ("write", {"line": "a", "times": 1})
    agent = make()
    state = hitl.RunState.from_string(agent, asked.state.to_string())
    result = await hitl.run(agent, state.edit(state.interrupts[0], {"line": "b", "times": 2}))
    assert json.loads(result.output) == said
