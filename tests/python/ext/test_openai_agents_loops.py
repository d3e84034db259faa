"""MCP servers of agents of the OpenAI Agents SDK that run on several event loops, in several threads."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, set_tracing_disabled
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool

import hitl
from tests.python.ext.openai_agents_runs import Says
from tests.python.support.mcp_over_http import mcp_over_http
from tests.python.support.served import ROOT

SERVER = ROOT / "tests/python/support/mcp_server.py"


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


class Meets(Says):
    """Has a line written, once the turns of both threads have their tools and so are connected."""

    def __init__(self) -> None:
        super().__init__([("write", {"line": "a"})])
        self.both = threading.Barrier(2)

    async def get_response(self, system_instructions: Any, input: Any, *asked: Any, **more: Any) -> Any:
        self.both.wait(60)
        return await super().get_response(system_instructions, input, *asked, **more)


def in_two_threads(server: MCPServer) -> list[Any]:
    """What a turn comes to in each of two threads, of one agent with this server, twice one after another."""
    agent = Agent(name="librarian", model=Meets(), mcp_servers=[server])

    def run_twice() -> list[Any]:
        return [hitl.run_sync(agent, "go") for _ in range(2)]

    with ThreadPoolExecutor(2) as threads:
        return [each for one in [threads.submit(run_twice) for _ in range(2)] for each in one.result()]


def over_stdio() -> MCPServer:
    params: Any = {"command": sys.executable, "args": [str(SERVER)]}
    return MCPServerStdio(params, name="shelf", client_session_timeout_seconds=60, cache_tools_list=True)


def test_turns_on_two_loops_at_once_are_connected_to_one_server_each_by_itself() -> None:
    server = over_stdio()
    for result in in_two_threads(server):
        assert result.output is not None, result.error
        assert "wrote 1" in result.output  # to a process of its own
    assert isinstance(server, MCPServerStdio)
    assert server.session is None


def test_they_are_over_http_too(tmp_path: Path) -> None:
    with mcp_over_http([str(SERVER)], tmp_path / "url") as url:
        results = in_two_threads(MCPServerStreamableHttp({"url": url}, name="shelf", client_session_timeout_seconds=60))
    assert [result.error for result in results if result.output is None] == []
    assert sorted(n for n in range(1, 5) if any(f"wrote {n}" in each.output for each in results)) == [1, 2, 3, 4]


class OfOurOwn(MCPServer):
    """A server of the program's own, of whose state nobody else knows."""

    name = "own"

    async def connect(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[MCPTool]:
        return [MCPTool(name="write", inputSchema={"type": "object", "properties": {"line": {"type": "string"}}})]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="wrote 1")])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        raise NotImplementedError


def test_a_server_of_a_class_of_ones_own_is_connected_on_one_loop_and_the_other_is_told() -> None:
    server = OfOurOwn()
    connected, done = threading.Event(), threading.Event()

    class Waits(Says):
        async def get_response(self, *asked: Any, **more: Any) -> Any:
            connected.set()
            assert done.wait(60)
            return await super().get_response(*asked, **more)

    def run(model: Says) -> Any:
        return hitl.run_sync(Agent(name="librarian", model=model, mcp_servers=[server]), "go")

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(run, Waits([("write", {"line": "a"})]))
        assert connected.wait(60)
        second = run(Says())
        done.set()
        assert "wrote 1" in first.result().output
    assert second.status == "error"
    assert "own is connected on another event loop" in str(second.error)
    assert "wrote 1" in run(Says([("write", {"line": "a"})])).output  # which is over
