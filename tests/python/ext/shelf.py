"""An MCP server for the common proof: `python -m tests.python.ext.shelf NAME [--http PATH]`.

Its tools are named after it, so that an agent can have two of them. Each call is a line of the ledger.
"""

from __future__ import annotations

import sys

from tests.python.ext.proof import note, stay
from tests.python.support.mcp_server import MCPServer, serve_http


def make(name: str) -> MCPServer:
    server = MCPServer(name)

    @server.tool(name=f"{name}_list")
    async def list_(folder: str) -> str:
        """List a folder."""
        note(f"{name} list {folder}")
        return f"{name} has {folder}"

    @server.tool(name=f"{name}_delete")
    async def delete(path: str) -> str:
        """Delete a file."""
        note(f"{name} delete {path}")
        return f"{name} deleted {path}"

    @server.tool(name=f"{name}_hold")
    async def hold(port: int) -> str:
        """Stay at work."""
        note(f"{name} hold")
        await stay(port)
        return f"{name} held"

    return server


if __name__ == "__main__":
    if sys.argv[2:3] == ["--http"]:
        serve_http(make(sys.argv[1]), sys.argv[3])
    else:
        make(sys.argv[1]).run()
