"""`MCPTools`: the tools of an MCP server, with approvals like any other tool's.

Built on the official `mcp` package (`pip install hitl-runtime[mcp]`). The list of tools is a journaled step and each
call another, so a resumed turn connects only when it really has something left to call.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import logging
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from hitl.attachments import Attachment, base64_bytes, described
from hitl.errors import HitlError
from hitl.tools.context import ApprovalCallback, ApprovalPolicy
from hitl.tools.definition import Tool
from hitl.tools.mcp_options import check_approval, check_kinds, check_prefix, check_timeout
from hitl.tools.schema import SchemaParameters
from hitl.turn import retrying
from hitl.turn.stopwatch import took_longer

if TYPE_CHECKING:
    from mcp import Client

    from hitl.turn.runtime import Turn

logger = logging.getLogger("hitl.mcp")

Approval = bool | ApprovalPolicy
_CONNECTION_CLOSED = -32000
_REQUEST_TIMED_OUT = -32001
_LONGEST_NAME = 64
_MOST_PAGES = 1000
"""Of a server's list of tools. One that never ends would take all memory, and the turn with it."""


class MCPServerError(HitlError):
    """A server cannot be started, reached or understood, or one of its tools reported an error."""

    code = "mcp_server_error"


class MCPTools:
    """All tools of one MCP server, for `ReActAgent(tools=[MCPTools(...)])`.

    A connection is opened when a turn first needs one and closed when the turn ends. A server given by `command` is
    started with a minimal environment: secrets of this process reach it only through `env`.

    Example:
        files = MCPTools("uvx mcp-server-files /srv", requires_approval={"delete_file": True})
        agent = ReActAgent(tools=[files])
    """

    def __init__(
        self,
        command: str | Sequence[str] | None = None,
        *,
        url: str | None = None,
        name: str | None = None,
        prefix: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        requires_approval: Approval | Mapping[str, Approval] = False,
        on_approval: ApprovalCallback | None = None,
    ):
        """
        Args:
            command: How to start a server that speaks over stdin and stdout: `"uvx some-server --flag"` or a list.
            url: Where a server is that speaks streamable HTTP; exactly one of the two.
            name: What errors and the journal call the server (default: the command or the host).
            prefix: What the names of its tools begin with, for the model, rules and everybody else, so that servers may
                have tools of one name: `"docs_"`.
            env: Environment variables of a started server, beside a safe few such as `PATH` and `HOME`.
            cwd: Its working directory. Both are for a `command`.
            headers: HTTP headers, `Authorization` say. For a `url`.
            timeout: Seconds for each call; after them the model is told that it may still take effect.
            requires_approval: As for `tool`, for all tools; or a dict by the server's names of them, without the
                `prefix`, where a name that it does not have is an error, and tools that are not named need no approval.
            on_approval: As for `tool`, for all tools: decides in code about calls that need approval.

        Raises:
            TypeError: For both of `command` and `url`, or none, and for an option of the other one or of a wrong type.
            ValueError: For an empty command, and for a prefix or a timeout that cannot be.
            MCPServerError: Where the `mcp` package is not installed.
        """
        if (command is None) == (url is None):
            raise TypeError("MCPTools takes a command or a url, one of them")
        check_kinds(command, url, name, env, cwd, headers)
        check_prefix(prefix)
        check_timeout(timeout)
        if on_approval is not None and not callable(on_approval):
            raise TypeError(
                f"MCPTools: on_approval must be a callable (ApprovalRequest) -> Decision | None, got {on_approval!r}"
            )
        self._command = shlex.split(command) if isinstance(command, str) else list(command or ())
        if url is None and not self._command:
            raise ValueError("MCPTools: the command is empty")
        if isinstance(requires_approval, Mapping):
            for key, value in requires_approval.items():
                check_approval(f"requires_approval[{key!r}]", value)
            requires_approval = dict(requires_approval)
        else:
            check_approval("requires_approval", requires_approval)
        if find_spec("mcp") is None:
            raise MCPServerError("MCPTools needs the mcp package\n\nhint: pip install 'hitl-runtime[mcp]'")
        self._url = url
        self.name = name or _default_name(self._command, url)
        self._prefix = prefix
        self._env = dict(env) if env is not None else None
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._approval = requires_approval
        self._on_approval = on_approval
        self._source = _source(self.name, self._command, url)
        self._connections: WeakKeyDictionary[Turn, _Connection] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<MCPTools {self.name}>"

    def prepare(self) -> None:
        """Import the mcp package, so that forked workers have it."""
        import mcp.client.streamable_http  # noqa: F401

    @asynccontextmanager
    async def connected(self, turn: Turn) -> AsyncIterator[None]:
        """While this block runs, the turn may use the server; nothing is opened before that. Blocks nest."""
        connection = self._connections.get(turn)
        if connection is None:
            connection = self._connections[turn] = _Connection(self._open, self.name)
        connection.users += 1
        try:
            yield
        finally:
            connection.users -= 1
            if connection.users == 0:
                self._connections.pop(turn, None)
                await connection.close()

    async def list_tools(self, turn: Turn) -> list[Tool[..., Any]]:
        """The server's tools, as a journaled step; raises `MCPServerError`. A server that is away is asked again as a
        model is, and then the turn is suspended."""
        name = f"{self.name}.list_tools"
        listed = await retrying.run(turn, _RETRIES, "mcp", name, lambda: self._list(turn))
        if isinstance(self._approval, dict):
            unknown = sorted(self._approval.keys() - {item["name"] for item in listed})
            if unknown:
                has = ", ".join(item["name"] for item in listed) or "none"
                raise MCPServerError(
                    f"requires_approval of {self!r} names {', '.join(unknown)}, which the server does not have "
                    f"(it has: {has}); a gate with a typing error guards nothing"
                )
        names = _shown_names(self._prefix, [item["name"] for item in listed])
        return [self._make_tool(turn, item, shown) for item, shown in zip(listed, names, strict=True)]

    async def _list(self, turn: Turn) -> list[dict[str, Any]]:
        async def ask(client: Client) -> list[dict[str, Any]]:
            tools = []
            cursor = None
            for _ in range(_MOST_PAGES):
                page = await client.list_tools(cursor=cursor)
                for item in page.tools:
                    about = {"name": item.name, "description": item.description or "", "schema": item.input_schema}
                    tools.append(about)
                cursor = page.next_cursor
                if cursor is None:
                    return tools
            raise MCPServerError(f"the list of tools of the MCP server {self.name} has more than {_MOST_PAGES} pages")

        listed: list[dict[str, Any]] = await self._connection(turn).use(ask)
        return listed

    def _make_tool(self, turn: Turn, about: Mapping[str, Any], shown: str) -> Tool[..., Any]:
        name = about["name"]

        async def call(**arguments: Any) -> Any:
            async def ask(client: Client) -> Any:
                try:
                    return read_result(await client.call_tool(name, arguments, read_timeout_seconds=self._timeout))
                except MCPError as error:
                    if error.code != _REQUEST_TIMED_OUT or self._timeout is None:
                        raise
                    what = f"{name} of the MCP server {self.name}"
                    raise MCPServerError(took_longer(what, self._timeout, goes_on=True)) from error

            from mcp import MCPError  # late, as everywhere here

            return await self._connection(turn).use(ask)

        approval = self._approval.get(name, False) if isinstance(self._approval, dict) else self._approval
        # The server's schema is not ours to judge: one that does not compile fails its own calls only.
        parameters = SchemaParameters(about["schema"], trusted=True)
        made = Tool.with_parameters(
            call,
            parameters,
            name=shown,
            description=about["description"],
            requires_approval=approval,
            on_approval=self._on_approval,
        )
        made.source = self._source
        return made

    def _connection(self, turn: Turn) -> _Connection:
        connection = self._connections.get(turn)
        if connection is None:
            raise RuntimeError(f"{self!r} was used after its turn had ended")
        return connection

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Client]:
        from mcp import Client, StdioServerParameters

        if self._url is None:
            from mcp.client.stdio import stdio_client

            program, *arguments = self._command
            parameters = StdioServerParameters(command=program, args=arguments, env=self._env, cwd=self._cwd)
            # The descriptor, not sys.stderr: a worker may have put something without one in its place.
            async with Client(stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)) as client:
                yield client
            return
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # A server may hold a response stream open for minutes; `timeout` bounds the call, this the silence.
        patience = httpx2.Timeout(30, read=300)
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=patience) as http,
            Client(streamable_http_client(self._url, http_client=http)) as client,
        ):
            yield client


class _Connection:
    """One connection to a server, held by a task of its own.

    The mcp package must leave a connection in the task that entered it, and calls come from many; that task belongs
    to no turn, so it is not counted, numbered or replayed with one.
    """

    def __init__(self, open_client: Callable[[], AbstractAsyncContextManager[Client]], name: str):
        self.users = 0
        self._open_client = open_client
        self._name = name
        self._holder: _Holder | None = None

    async def use(self, ask: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        """Run `ask` with a connected client; every failure of the server is an `MCPServerError`. What is wrong with one
        answer leaves the connection to the others."""
        from mcp import MCPError

        if self._holder is None or self._holder.task.done():
            self._holder = _Holder(self._open_client)
        holder = self._holder
        try:
            client = await asyncio.shield(holder.client)
        except Exception as error:
            self._forget(holder)
            raise MCPServerError(f"the MCP server {self._name} cannot be reached: {_reason(error)}") from error
        # The connection's end must end the call too, or it would wait for an answer that cannot come.
        work = asyncio.ensure_future(ask(client))
        try:
            await asyncio.wait({work, holder.task}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ConnectionError("it ended in the middle of a call")
            return work.result()
        except HitlError:
            raise
        except MCPError as error:
            if error.code == _CONNECTION_CLOSED:
                self._forget(holder)
            raise MCPServerError(f"the MCP server {self._name} refused: {error.message}") from error
        except Exception as error:
            if _is_of_transport(error):
                self._forget(holder)  # the next call tries a new connection; calls beside it have no answer to wait for
            raise MCPServerError(f"the MCP server {self._name} failed: {_reason(error)}") from error
        finally:
            work.cancel()

    async def close(self) -> None:
        """End the connection, and a started server with it."""
        if self._holder is not None:
            self._holder.end()
            await asyncio.wait({self._holder.task})

    def _forget(self, holder: _Holder) -> None:
        holder.end()
        if self._holder is holder:
            self._holder = None


class _Holder:
    """The task that holds one connection open."""

    def __init__(self, open_client: Callable[[], AbstractAsyncContextManager[Client]]):
        loop = asyncio.get_running_loop()
        self.client: asyncio.Future[Client] = loop.create_future()
        self.closing = asyncio.Event()
        # An empty context: whatever turn runs here, this task is not part of it.
        self.task = loop.create_task(self._keep_open(open_client), name="hitl mcp", context=contextvars.Context())
        self.task.add_done_callback(self._ended, context=contextvars.Context())

    def end(self) -> None:
        """Let go of the connection, or of the attempt to make one: nobody waits for a server that never answers."""
        self.closing.set()
        if not self.client.done():
            self.task.cancel()

    async def _keep_open(self, open_client: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        try:
            async with open_client() as client:
                self.client.set_result(client)
                await self.closing.wait()
        except Exception as error:  # noqa: BLE001  (it belongs to whoever waits for the connection)
            if self.client.done():
                logger.warning("an MCP connection ended badly: %s", _reason(error))
            else:
                self._fail(error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Said here, since a task that is cancelled before it began runs no line of its own."""
        error = None if task.cancelled() else task.exception()
        if not self.client.done():
            said = "it was let go of before it had answered" if error is None else _reason(error)
            self._fail(ConnectionError(said))
        elif error is not None:
            logger.warning("an MCP connection ended badly: %s", _reason(error))

    def _fail(self, error: Exception) -> None:
        self.client.set_exception(error)
        self.client.exception()  # retrieved: a cancelled caller must not leave a complaint at exit


def read_result(result: Any) -> Any:
    """What a tool of a server returns: text, or the server's structured content, or its blocks, where images, sounds
    and files are attachments, or words where one cannot be read; raises `MCPServerError` where the tool reports an
    error."""
    texts = [block.text for block in result.content if block.type == "text"]
    if result.is_error:
        raise MCPServerError("\n".join(texts) or "the tool reported an error without a text")
    if len(texts) == len(result.content) and texts:
        return "\n".join(texts)
    if not result.content:
        return result.structured_content
    if all(_data_of(block) is None for block in result.content):
        return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    blocks = [_read_block(block) for block in result.content]
    texts = [block for block in blocks if isinstance(block, str)]
    return blocks if len(texts) < len(blocks) else "\n".join(texts)


def _data_of(block: Any) -> Any:
    """The base64 of an image, a sound or a file; None of every other block."""
    resource = getattr(block, "resource", None)
    return getattr(block, "data", None) if resource is None else getattr(resource, "blob", None)


def _read_block(block: Any) -> str | Attachment:
    if block.type == "text":
        return str(block.text)
    resource = getattr(block, "resource", None)
    if resource is not None and getattr(resource, "text", None) is not None:
        return f"[{resource.uri}]\n{resource.text}"
    data = _data_of(block)
    if data is None:  # a link, which the model may follow with another tool, or what later versions bring
        return str(block.model_dump_json(by_alias=True, exclude_none=True))
    kind = ((block if resource is None else resource).mime_type or "application/octet-stream").partition(";")[0].strip()
    if "/" not in kind and block.type in ("image", "audio"):
        kind = f"{block.type}/{kind}"
    name = None if resource is None else _name_of(str(resource.uri))
    try:
        return Attachment.of_bytes(base64_bytes(data), kind, name=name)
    except ValueError:  # one block in bad order is no reason to lose what the others say
        return f"[attached, and cannot be read: {described(str(block.type), name)}]"


def _name_of(uri: str) -> str | None:
    """What a file is called: the end of its address."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that are no address of IPv6
        return None
    return unquote((parts.path.rstrip("/") or parts.netloc).rpartition("/")[2]) or None


def _shown_names(prefix: str, names: Sequence[str]) -> list[str]:
    """What the tools of a server are called, in order. Providers take fewer characters in a name than MCP does: where
    two become one that way, those that were changed say by a hash which they are."""
    shown = [re.sub(r"[^A-Za-z0-9_-]", "_", prefix + name)[:_LONGEST_NAME] for name in names]
    return [
        made if shown.count(made) == 1 or made == prefix + name else f"{made[: _LONGEST_NAME - 7]}_{_hash(name)[:6]}"
        for made, name in zip(shown, names, strict=True)
    ]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _source(name: str, command: list[str], url: str | None) -> str:
    """Tells servers apart that share a name; a hash, since commands and URLs carry secrets."""
    where = "\0".join(command) if url is None else url
    return f"mcp:{name}:{_hash(where)[:16]}"


def _default_name(command: list[str], url: str | None) -> str:
    if url is None:
        return command[0].replace("\\", "/").rsplit("/", 1)[-1]
    return urlsplit(url).hostname or "server"


def _is_of_transport(error: BaseException) -> bool:
    """Whether an error is of the connection, and not of what came over it."""
    import anyio  # as `mcp`, which brings both, and which takes longer to import than the rest
    import httpx2

    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_of_transport, error.exceptions))
    if isinstance(error, TimeoutError):  # of this call; it is an OSError
        return False
    broken = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, httpx2.TransportError)
    return isinstance(error, (OSError, EOFError, *broken))


def _may_pass(error: Exception) -> bool | float:
    """Whether a server that could not be asked for its tools may be there later, as a model: not one that cannot be
    started, or that answers with an error. Of one over HTTP the package does not say which status it was."""
    from mcp import MCPError

    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, MCPError):
        return cause.code == _CONNECTION_CLOSED
    return isinstance(cause, Exception) and retrying.is_transient(cause)


_RETRIES = retrying.Retries(2, "suspend", _may_pass)


def _reason(error: BaseException) -> str:
    """The first real cause in the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
