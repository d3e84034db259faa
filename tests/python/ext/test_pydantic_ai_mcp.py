"""Tools of an MCP server in an agent of pydantic-ai: gated, and connected to anew by whoever goes on."""

from __future__ import annotations

import sys
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import ApprovalRequiredToolset

import hitl
from tests.python.support.served import ROOT


def librarian() -> Agent[Any, Any]:
    """Each has a connection of its own."""
    # Here, for they take seconds, which every process of `pytest -n auto` would spend while it collects.
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    # A server that outlives the run is ended when its transport is collected, perhaps in the middle of another test.
    command = [str(ROOT / "tests/python/support/mcp_server.py")]
    transport = StdioTransport(sys.executable, command, keep_alive=False)
    gated = ApprovalRequiredToolset(
        MCPToolset(transport, init_timeout=100), lambda ctx, tool, args: tool.name == "write"
    )
    return Agent(TestModel(call_tools=["write"]), name="librarian", toolsets=[gated])


async def test_a_gated_tool_of_a_server_runs_in_another_run_than_the_one_that_asked() -> None:
    asked = await hitl.run(librarian(), "go")
    assert asked.status == "interrupted", asked.error
    (question,) = asked.interrupts
    assert (question.tool_name, question.tool_args) == ("write", {"line": "a"})
    agent = librarian()
    state = hitl.RunState.from_string(agent, asked.state.to_string())
    result = await hitl.run(agent, state.edit(state.interrupts[0], {"line": "b", "times": 2}))
    assert result.output == '{"write":"wrote 2"}'
