"""Tools of an MCP server in an agent of Strands: gated, and connected to anew by whoever goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from mcp import StdioServerParameters, stdio_client
from strands import Agent
from strands.tools.mcp import MCPClient
from strands.vended_interventions.hitl import HumanInTheLoop

import hitl
from tests.python.ext.strands_runs import says
from tests.python.support.served import ROOT


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def librarian(closing: ExitStack) -> Agent:
    """Each has a connection of its own."""
    server = StdioServerParameters(command=sys.executable, args=[str(ROOT / "tests/python/support/mcp_server.py")])
    client = MCPClient(lambda: stdio_client(server), prefix="shelf")
    agent = Agent(
        says([("shelf_write", {"line": "a"})]),
        name="librarian",
        tools=[client],
        interventions=[HumanInTheLoop()],
    )
    closing.callback(agent.cleanup)
    return agent


async def test_a_gated_tool_of_a_server_runs_in_another_run_than_the_one_that_asked(closing: ExitStack) -> None:
    asked = await hitl.run(lambda: librarian(closing), "go")  # it connects in the turn, which pauses all the same
    assert asked.status == "interrupted", asked.error
    (question,) = asked.interrupts
    assert (question.tool_name, question.tool_args) == ("shelf_write", {"line": "a", "times": 1})
    agent = librarian(closing)
    state = hitl.RunState.from_string(agent, asked.state.to_string())
    result = await hitl.run(agent, state.edit(state.interrupts[0], {"line": "b", "times": 2}))
    assert "wrote 2" in (result.output or ""), result.error
