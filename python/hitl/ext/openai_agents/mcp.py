"""MCP servers of the SDK in a turn: their lists of tools are steps, and they are connected outside of it.

The SDK wants a server connected before an agent uses it, which no program can do for a worker. So a server that is not
connected is, when a turn needs it, by a task that belongs to no turn: a connection of the turn's own would keep it from
waiting. It ends when the last turn that used it ends or is parked. An object of the SDK's is one connection, of one
event loop: turns on another loop use a copy of it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from typing import Any
from weakref import WeakKeyDictionary

from agents.mcp import MCPServer
from mcp.types import Tool as MCPTool

from hitl.ext.openai_agents import seams
from hitl.ext.turns import is_in_turn
from hitl.turn.runtime import Turn, current_turn

logger = logging.getLogger("hitl.ext.openai_agents")

_connections: WeakKeyDictionary[MCPServer, list[_Connection]] = WeakKeyDictionary()
"""Those of a server, the newest last; of each loop at most one is not over or closing."""

_connecting = threading.Lock()
_of_turns: WeakKeyDictionary[Turn, dict[MCPServer, _Connection]] = WeakKeyDictionary()


async def function_tools(servers: list[MCPServer], *arguments: Any, **more: Any) -> Any:
    """The tools of an agent's servers."""
    if is_in_turn():
        servers = [server if isinstance(server, ServerOfTurn) else ServerOfTurn(server) for server in servers]
    return await seams.mcp_tools(servers, *arguments, **more)


class ServerOfTurn(MCPServer):
    """A server, as the turns that use it see it."""

    def __init__(self, server: MCPServer) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    @property
    def name(self) -> str:
        return self._server.name

    @property
    def cached_tools(self) -> list[MCPTool] | None:
        return self._server.cached_tools

    async def connect(self) -> None:
        await self._connected()

    async def _connected(self) -> MCPServer:
        """The server, as the turn's loop is connected to it."""
        return await _connect(current_turn(), self._server)

    async def cleanup(self) -> None:
        """Nothing: the turn keeps it."""

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[MCPTool]:
        """The server's tools, as they were when the turn asked for them."""
        turn = current_turn()

        async def body() -> list[dict[str, Any]]:
            server = await self._connected()
            listed = await server.list_tools(run_context, agent)
            return [tool.model_dump(mode="json", by_alias=True, exclude_unset=True) for tool in listed]

        name = _name_in(turn, self._server)
        tools = await turn.run_step("mcp", f"{name}.list_tools", body, key=f"tools:{name}")
        return [MCPTool.model_validate(tool) for tool in tools]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        """A call; whoever makes it is in a step."""
        server = await self._connected()
        if meta is None:
            return await server.call_tool(tool_name, arguments)
        return await server.call_tool(tool_name, arguments, meta=meta)

    async def list_prompts(self, *arguments: Any, **more: Any) -> Any:
        return await (await self._connected()).list_prompts(*arguments, **more)

    async def get_prompt(self, *arguments: Any, **more: Any) -> Any:
        return await (await self._connected()).get_prompt(*arguments, **more)


def _name_in(turn: Turn, server: MCPServer) -> str:
    """What a server's list is called in the journal, which many may read; one of an earlier release goes on with the
    name that it has there."""
    known = turn.is_recorded(f"tools:{server.name}")
    return server.name if known else seams.server_name(server.name)


async def leave(turn: Turn, *, wait: bool) -> None:
    """The turn needs its servers no more. ``wait``: until those that nobody else uses are gone."""
    left = _of_turns.pop(turn, {})
    for connection in left.values():
        connection.users -= 1
        if connection.users == 0:
            connection.end()
    if wait:
        gone = {connection.task for connection in left.values() if connection.closing.is_set()}
        if gone:
            await asyncio.wait(gone)


async def _connect(turn: Turn, server: MCPServer) -> MCPServer:
    """Return once the server can be used by the turn: it, or a copy of it."""
    mine = _of_turns.setdefault(turn, {})
    connection = mine.get(server)
    if connection is None:
        with _connecting:
            connection = _connection_on(turn.loop, server)
        if connection is None:
            return server  # the program has connected it
        connection.users += 1
        mine[server] = connection
    try:
        await asyncio.shield(connection.ready)
    except Exception:
        if mine.get(server) is connection:  # the first call to hear of it; the next one tries anew
            del mine[server]
            connection.users -= 1
        raise
    return connection.copy or server


def _connection_on(loop: asyncio.AbstractEventLoop, server: MCPServer) -> _Connection | None:
    """The connection to a server that turns on this loop use, which may have to be begun; None where the program has
    connected it."""
    known = [each for each in _connections.get(server, ()) if not each.task.done()]
    here = next((each for each in reversed(known) if each.loop is loop), None)
    if here is not None and not here.closing.is_set():
        return here
    with_it = next((each for each in known if each.copy is None), None)
    if with_it is None and getattr(server, "session", None) is not None:
        return None
    is_taken = with_it is not None and with_it.loop is not loop
    copy = seams.copy_of(server) if is_taken else None
    if is_taken and copy is None:
        name = seams.server_name(server.name)
        raise RuntimeError(
            f"the MCP server {name} is connected on another event loop, and no copy can be made of a "
            f"{type(server).__name__}; give the agent of each loop a server of its own"
        )
    made = _Connection(server, here, copy)
    _connections[server] = [*known, made]
    return made


class _Connection:
    """What holds one server connected: a task, since the SDK wants it closed by whoever has opened it. ``before``: the
    last one of this loop, where that is not over."""

    def __init__(self, server: MCPServer, before: _Connection | None, copy: MCPServer | None = None) -> None:
        self.copy = copy
        """What is connected, where that is not the server itself, which is not kept alive here."""
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.ready: asyncio.Future[None] = self.loop.create_future()
        self.closing = asyncio.Event()
        # An empty context: whatever turn runs here, this task is not part of it.
        context = contextvars.Context()
        self.task = self.loop.create_task(self._keep_open(copy or server, before), name="hitl mcp", context=context)
        self.task.add_done_callback(self._ended, context=context)
        self._name = seams.server_name(server.name)

    def end(self) -> None:
        """Let go of the server, or of the attempt to connect it: nobody waits for one that never answers."""
        self.closing.set()
        if not self.ready.done():
            self.task.cancel()

    async def _keep_open(self, server: MCPServer, before: _Connection | None) -> None:
        if before is not None:
            await asyncio.wait({before.task})  # it leaves the server as it found it
        await server.connect()  # type: ignore[no-untyped-call]
        self.ready.set_result(None)
        try:
            await self.closing.wait()
        finally:
            try:
                await server.cleanup()  # type: ignore[no-untyped-call]
            except Exception as error:  # noqa: BLE001  (nobody waits for it any more)
                logger.warning("the MCP server %s ended badly: %s", self._name, type(error).__name__)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What kept it from connecting belongs to whoever waits for that. Said here, since a task that is cancelled
        before it began runs no line of its own."""
        error = None if task.cancelled() else task.exception()
        if not self.ready.done():
            if not isinstance(error, Exception):
                error = ConnectionError(f"{self._name}: connecting was cancelled")
            self.ready.set_exception(error)
            self.ready.exception()  # seen: a cancelled caller must not leave a complaint at exit
