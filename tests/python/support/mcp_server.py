"""A real MCP server, as a process: over stdin and stdout, or with `--http` over streamable HTTP on a free port."""

import os
import socket
import sys
from typing import Any

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:  # of a framework that is not yet at the second release of the library
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError

from mcp.types import BlobResourceContents, EmbeddedResource, ImageContent, TextContent

server = MCPServer("shelf")
_TYPE = "mimeType" if "mimeType" in ImageContent.model_fields else "mime_type"
written: list[str] = []


@server.tool()
def write(line: str, times: int = 1) -> str:
    """Write a line."""
    written.extend([line] * times)
    return f"wrote {len(written)}"


@server.tool(name="read.all")
def read_all() -> str:
    """Read every line."""
    return "\n".join(written)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("the shelf is broken")


@server.tool()
def numbers() -> list[int]:
    """Several results."""
    return [1, 2]


@server.tool()
def draw() -> list[Any]:
    """Words, an image and a file, as a server returns them."""
    file = BlobResourceContents(uri="file:///shelf/sums.pdf", blob="JVBERg==", **{_TYPE: "application/pdf"})
    return [
        TextContent(type="text", text="Drawn."),
        ImageContent(type="image", data="R0lGODlh", **{_TYPE: "image/gif"}),
        EmbeddedResource(type="resource", resource=file),
    ]


@server.tool()
def environment(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "unset")


@server.tool()
def die() -> str:
    """End the process in the middle of a call."""
    os._exit(1)


def serve_http(server: MCPServer, path: str) -> None:
    """Serve on a free port, and write the URL to `path` once it can be reached."""
    import uvicorn
    from starlette.types import Receive, Scope, Send

    app = server.streamable_http_app()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        """With HITL_TEST_TOKEN set, only requests that carry it get in."""
        token = os.environ.get("HITL_TEST_TOKEN")
        headers: dict[bytes, bytes] = dict(scope.get("headers", []))
        if scope["type"] == "http" and token and headers.get(b"authorization") != f"Bearer {token}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            temporary = f"{path}.new"
            with open(temporary, "w") as file:  # noqa: PTH123
                file.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
            os.replace(temporary, path)  # noqa: PTH105

    config = uvicorn.Config(guarded, log_level="error", lifespan="on")
    Announcing(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--http"]:
        serve_http(server, sys.argv[2])
    else:
        server.run()
