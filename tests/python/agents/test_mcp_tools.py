"""MCP servers as tool sources: real server processes, over stdin and stdout and over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError
from mcp.types import CallToolResult, ListToolsResult, TextContent
from mcp.types import Tool as McpTool

import hitl
from hitl import ApprovalRequest, Attachment, Decision, MCPTools, ReActAgent, tool
from hitl.testing import ScriptedChatClient
from hitl.tools.mcp import MCPServerError, _Connection, _may_pass, _shown_names, read_result
from tests.python.support.local import LocalResult, run_locally
from tests.python.support.mcp_over_http import mcp_over_http

SERVER = Path(__file__).parent.parent / "support" / "mcp_server.py"
COMMAND = [sys.executable, str(SERVER)]
APPROVE = {"type": "approve"}


async def run(
    source: MCPTools, *steps: list[tuple[str, Any]], answers: Any = None, more: list[Any] | None = None
) -> tuple[LocalResult, list[str], ScriptedChatClient]:
    """One turn in which the model calls these tools, step by step; with what it was told of each call."""
    script: list[dict[str, Any]] = [{"tool_calls": [{"name": n, "args": a} for n, a in step]} for step in steps]
    client = ScriptedChatClient([*script, {"content": "done"}])
    agent = ReActAgent(client=client, tools=[source, *(more or [])])
    result = await run_locally(agent, "go", answers=answers)
    return result, [message.content or "" for message in result.state if message.role == "tool"], client


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over HTTP that wants the token `t`."""
    place = tmp_path_factory.mktemp("mcp") / "url"
    with mcp_over_http([str(SERVER)], place, HITL_TEST_TOKEN="t") as url:
        yield url


def over_http(url: str, **options: Any) -> MCPTools:
    return MCPTools(url=url, headers={"Authorization": "Bearer t"}, **options)


async def test_the_model_sees_the_server_s_tools_and_their_schemas(url: str) -> None:
    _, _, client = await run(over_http(url))
    tools = {item["function"]["name"]: item["function"] for item in client.requests[0]["tools"]}
    # `read.all` is no name that every provider takes.
    assert list(tools) == ["write", "read_all", "fail", "numbers", "draw", "environment", "die"]
    assert tools["write"]["description"] == "Write a line."
    assert tools["write"]["parameters"]["properties"]["times"]["type"] == "integer"
    assert tools["write"]["parameters"]["required"] == ["line"]


async def test_calls_of_one_turn_reach_one_server_and_are_steps() -> None:
    result, told, _ = await run(
        MCPTools(COMMAND, name="shelf"),
        [("write", {"line": "a"}), ("write", {"line": "b", "times": 2})],
        [("read_all", {})],
    )
    assert sorted(told[0:2]) in (["wrote 1", "wrote 3"], ["wrote 2", "wrote 3"])
    assert sorted(told[2].split("\n")) == ["a", "b", "b"]
    kinds = [(step["kind"], step["name"]) for step, _ in result.port.steps]
    assert kinds[0] == ("mcp", "shelf.list_tools")
    assert kinds.count(("tool", "write")) == 2
    assert kinds.count(("tool", "read_all")) == 1


async def test_a_turn_gets_a_server_of_its_own_and_leaves_none_behind() -> None:
    source = MCPTools(COMMAND)
    await run(source, [("write", {"line": "a"})])
    _, told, _ = await run(source, [("read_all", {})])
    assert told == [""]
    assert not source._connections


async def test_a_list_of_tools_without_an_end_is_an_error() -> None:
    class Endless:
        async def list_tools(self, cursor: str | None = None) -> ListToolsResult:
            return ListToolsResult(tools=[], next_cursor="more")

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        yield Endless()

    source = MCPTools(COMMAND, name="endless")
    source._open = opened  # type: ignore[method-assign]
    with pytest.raises(MCPServerError, match="the MCP server endless has more than 1000 pages"):
        await run(source)


async def test_an_odd_schema_of_one_tool_is_no_matter_of_the_others() -> None:
    schemas: dict[str, Any] = {
        "either": {"type": ["object", "null"], "properties": {"line": {"type": "string"}}},
        "listed": {"type": "array", "items": {"type": "string"}},
        "empty": {"type": "object", "properties": None, "additionalProperties": False},
        "plain": {"type": "object"},
    }

    class Odd:
        async def list_tools(self, cursor: str | None = None) -> ListToolsResult:
            tools = [McpTool.model_construct(name=name, input_schema=schema) for name, schema in schemas.items()]
            return ListToolsResult.model_construct(tools=tools, next_cursor=None)

        async def call_tool(self, name: str, arguments: dict[str, Any], **_: Any) -> CallToolResult:
            return CallToolResult(content=[TextContent(type="text", text=f"{name} {json.dumps(arguments)}")])

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        yield Odd()

    source = MCPTools(COMMAND, name="odd")
    source._open = opened  # type: ignore[method-assign]
    _, told, client = await run(source, *([(name, {"line": "x"} if name == "either" else {})] for name in schemas))
    assert (told[0], told[3]) == ('either {"line": "x"}', "plain {}")
    assert json.loads(told[1])["error"].endswith("named arguments; this one cannot be called")
    assert "error" in json.loads(told[2])
    shown = [item["function"]["parameters"] for item in client.requests[0]["tools"]]
    assert [each["type"] for each in shown] == ["object"] * 4
    assert shown[0]["properties"] == {"line": {"type": "string"}}


async def test_several_blocks_and_errors_come_back_as_they_should() -> None:
    _, told, _ = await run(MCPTools(COMMAND), [("fail", {}), ("write", {"line": 5}), ("numbers", {})])
    assert "the shelf is broken" in json.loads(told[0])["error"]
    assert "line" in json.loads(told[1])["error"]
    assert told[2] in ("1\n2", "[1,2]")


async def test_of_a_call_that_takes_too_long_the_model_is_told_that_it_may_still_take_effect() -> None:
    source = MCPTools(COMMAND, name="shelf", timeout=1e-9)
    _, told, _ = await run(source, [("write", {"line": "a"})])
    said = "write of the MCP server shelf took longer than 1e-09 s and may still take effect"
    assert json.loads(told[0]) == {"error": said}


async def test_images_and_files_of_a_server_are_attachments() -> None:
    result, told, _ = await run(MCPTools(COMMAND), [("draw", {})])
    assert told == ["Drawn.\n[attachment 1: image/gif]\n[attachment 2: sums.pdf, application/pdf]"]
    [message] = [each for each in result.state if each.role == "tool"]
    assert message.attachments == [
        Attachment("image/gif", data="R0lGODlh"),
        Attachment("application/pdf", data="JVBERg==", name="sums.pdf"),
    ]


def _result(*blocks: Any) -> Any:
    return CallToolResult.model_validate({"content": list(blocks), "isError": False})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _file(uri: str, blob: str = "JVBERg==", kind: str | None = "application/pdf") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "blob": blob, "mimeType": kind}}


@pytest.mark.parametrize(
    ("block", "read"),
    [
        ({"type": "image", "data": "R0lGOD", "mimeType": "image/gif"}, Attachment("image/gif", data="R0lGOA==")),
        ({"type": "image", "data": "R0lG\nODlh", "mimeType": "image/gif"}, Attachment("image/gif", data="R0lGODlh")),
        ({"type": "image", "data": "R0lGODlh", "mimeType": "gif"}, Attachment("image/gif", data="R0lGODlh")),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/L16; rate=8000"}, Attachment("audio/L16", data="AAAA")),
        (_file("file:///a/b%20c.pdf?x=1#p"), Attachment("application/pdf", data="JVBERg==", name="b c.pdf")),
        (_file("mem://sums/"), Attachment("application/pdf", data="JVBERg==", name="sums")),
        (_file("mem://a", kind=None), Attachment("application/octet-stream", data="JVBERg==", name="a")),
    ],
)
def test_a_file_of_a_server_is_read_however_it_is_written(block: dict[str, Any], read: Attachment) -> None:
    assert read_result(_result(_text("Drawn."), block)) == ["Drawn.", read]


def test_a_block_that_cannot_be_read_is_told_and_loses_no_other() -> None:
    no_image = {"type": "image", "data": "-", "mimeType": "image/gif"}
    no_type = _file("file:///a/sums.pdf", kind="p d f")
    told = "Drawn.\n[attached, and cannot be read: image]\n[attached, and cannot be read: sums.pdf, resource]"
    assert read_result(_result(_text("Drawn."), no_image, no_type)) == told
    good = {"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}
    assert read_result(_result(no_image, good)) == [
        "[attached, and cannot be read: image]",
        Attachment("image/gif", data="R0lGODlh"),
    ]


async def test_a_server_that_dies_is_a_tool_error_and_the_next_call_starts_another() -> None:
    _, told, _ = await run(MCPTools(COMMAND), [("write", {"line": "a"})], [("die", {})], [("write", {"line": "b"})])
    assert told[0] == "wrote 1"
    assert "the MCP server" in json.loads(told[1])["error"]
    assert told[2] == "wrote 1"


BAD_RESULTS = """
from mcp.server import MCPServer
from mcp.types import CallToolResult, ImageContent

server = MCPServer("scribe")
written = []

@server.tool()
def write() -> str:
    written.append(1)
    return f"wrote {len(written)}"

@server.tool()
def scrawl() -> CallToolResult:
    return CallToolResult.model_construct(content=[ImageContent.model_construct(type="image")])

server.run()
"""


async def test_a_result_that_cannot_be_read_is_the_error_of_its_call_and_the_server_stays(tmp_path: Path) -> None:
    (tmp_path / "scribe.py").write_text(BAD_RESULTS)
    source = MCPTools([sys.executable, str(tmp_path / "scribe.py")], name="scribe")
    _, told, _ = await run(source, [("write", {})], [("scrawl", {})], [("write", {})])
    assert "the MCP server scribe failed: ValidationError: " in json.loads(told[1])["error"]
    assert [told[0], told[2]] == ["wrote 1", "wrote 2"]


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (RuntimeError("Invalid structured content returned by tool scrawl"), True),
        (KeyError("content"), True),
        (TimeoutError(), True),
        (ExceptionGroup("", [ValueError("no JSON")]), True),
        (MCPError(-32602, "no such tool"), True),
        (MCPError(-32000, "Connection closed"), False),
        (anyio.ClosedResourceError(), False),
        (ExceptionGroup("", [anyio.BrokenResourceError()]), False),
        (ConnectionResetError("reset"), False),
        (httpx2.ConnectError("gone"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
async def test_a_call_beside_one_that_fails_goes_on_unless_the_transport_is_broken(
    error: Exception, is_kept: bool
) -> None:
    opened: list[object] = []
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def open_client() -> AsyncIterator[Any]:
        opened.append(object())
        yield opened[-1]

    async def ask_slowly(client: Any) -> str:
        is_asked.set()
        await may_answer.wait()
        return "answered"

    async def fail(client: Any) -> Any:
        raise error

    async def which(client: Any) -> Any:
        return client

    connection = _Connection(open_client, "shelf")
    slow = asyncio.create_task(connection.use(ask_slowly))
    await is_asked.wait()
    with pytest.raises(MCPServerError, match="the MCP server shelf"):
        await connection.use(fail)
    if is_kept:
        may_answer.set()
        assert await slow == "answered"
    else:
        with pytest.raises(MCPServerError, match="it ended in the middle of a call"):
            await slow
    assert await connection.use(which) is opened[0 if is_kept else 1]
    await connection.close()


async def test_a_call_does_not_wait_for_a_connection_that_was_let_go_of_before_it_began() -> None:
    @asynccontextmanager
    async def open_client() -> AsyncIterator[Any]:
        yield object()

    async def which(client: Any) -> Any:
        return client

    connection = _Connection(open_client, "shelf")
    call = asyncio.ensure_future(connection.use(which))
    closing = asyncio.ensure_future(connection.close())  # in the round in which the call begins
    with pytest.raises(MCPServerError, match="it was let go of before it had answered"):
        await asyncio.wait_for(call, 10)
    await closing


async def test_a_server_gets_no_secrets_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    source = MCPTools(COMMAND, env={"SHELF": "top"})
    _, told, _ = await run(source, [("environment", {"name": name}) for name in ("OPENAI_API_KEY", "SHELF")])
    assert told == ["unset", "top"]


async def test_a_server_over_http(url: str) -> None:
    _, told, _ = await run(over_http(url), [("write", {"line": "over http"})], [("read_all", {})])
    assert told[0].startswith("wrote ")
    assert "over http" in told[1].split("\n")


async def test_a_server_that_refuses_or_does_not_exist_fails_the_turn_by_name(url: str) -> None:
    with pytest.raises(MCPServerError, match=r"the MCP server 127\.0\.0\.1 (cannot be reached|refused)"):
        await run(MCPTools(url=url))
    with pytest.raises(MCPServerError, match=r"the MCP server no-such-program cannot be reached: FileNotFoundError"):
        await run(MCPTools("no-such-program --flag"))


async def test_a_server_that_is_away_is_asked_again_and_then_suspends_the_turn() -> None:
    """As a model that is away: a retry goes on where the turn stood."""
    asked: list[str] = []

    class Shelf:
        async def list_tools(self, cursor: str | None = None) -> ListToolsResult:
            return ListToolsResult(tools=[])

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        asked.append("")
        if len(asked) < 6:
            raise ExceptionGroup("", [ConnectionRefusedError("nobody listens")])
        yield Shelf()

    source = MCPTools(COMMAND, name="shelf")
    source._open = opened  # type: ignore[method-assign]
    agent = ReActAgent(client=ScriptedChatClient([{"content": "done"}]), tools=[source])
    away = await hitl.run(agent, "go")
    assert (away.status, away.error_code, len(asked)) == ("error", "model_unavailable", 3)
    assert away.error is not None
    assert away.error.startswith("ModelUnavailable: mcp 'shelf.list_tools' was tried 3 times, last: MCPServerError: ")
    assert away.state is not None
    assert (await hitl.run(agent, away.state)).output == "done"
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("cause", "passes"),
    [
        (ConnectionRefusedError(), True),
        (ExceptionGroup("", [ExceptionGroup("", [httpx2.ConnectError("refused")])]), True),
        (MCPError(-32000, "Connection closed"), True),
        (MCPError(-32601, "Method not found"), False),
        (FileNotFoundError("no-such-program"), False),
        (PermissionError("no program"), False),
        (None, False),
    ],
    ids=repr,
)
def test_what_may_pass_of_a_server(cause: Exception | None, passes: bool) -> None:
    error = MCPServerError("away")
    error.__cause__ = cause
    assert _may_pass(error) is passes


# -- approvals -------------------------------------------------------------------------------------------------------


async def test_all_tools_or_named_ones_need_approval(url: str) -> None:
    result, told, _ = await run(
        over_http(url, requires_approval={"write": True, "numbers": False}),
        [("write", {"line": "never"})],
        [("numbers", {})],
        [("read_all", {})],
        answers=lambda asked: {"type": "reject", "reason": "no"},
    )
    assert [asked["payload"]["tool_name"] for asked in result.requests] == ["write"]
    assert told[0] == json.dumps({"error": "User rejected write: no"})
    assert "never" not in told[2]
    result, told, _ = await run(
        over_http(url, requires_approval=True), [("write", {"line": "a"})], answers=lambda asked: APPROVE
    )
    assert result.requests[0]["payload"]["tool_args"] == {"line": "a"}
    assert told[0].startswith("wrote ")


async def test_a_policy_decides_by_the_arguments(url: str) -> None:
    source = over_http(url, requires_approval=lambda ctx, args: args.get("line") == "danger")
    result, _, _ = await run(
        source, [("write", {"line": "fine"}), ("write", {"line": "danger"})], answers=lambda asked: APPROVE
    )
    assert [asked["payload"]["tool_args"] for asked in result.requests] == [{"line": "danger"}]


async def test_code_decides_about_the_tools_of_a_server(url: str) -> None:
    def decide(request: ApprovalRequest) -> Decision | None:
        line = request.tool_args["line"]
        return {"a": Decision.approve(), "b": Decision.edit({"line": "c"}), "d": Decision.reject("no")}.get(line)

    result, told, _ = await run(
        over_http(url, requires_approval={"write": True}, on_approval=decide),
        [("write", {"line": "a"})],
        [("write", {"line": "b"})],
        [("write", {"line": "d"})],
        [("write", {"line": "e"})],
        [("read_all", {})],
        answers=lambda asked: {"type": "reject"},
    )
    assert [asked["proposed"] for asked in result.requests][3] is None  # a person was asked about `e` alone
    assert told[1].endswith('[The arguments of this call were changed to {"line":"c"}]')
    assert told[2:4] == [json.dumps({"error": f"User rejected write{reason}"}) for reason in (": no", "")]
    assert told[4].splitlines()[-2:] == ["a", "c"]


async def test_an_edit_is_offered_with_the_server_s_schema_and_checked_by_it(url: str) -> None:
    result, told, _ = await run(
        over_http(url, requires_approval=True),
        [("write", {"line": "x"})],
        answers=lambda asked: {"type": "edit", "args": {"line": "edited" if asked["message"] else 5}},
    )
    assert result.requests[0]["args_schema"]["properties"]["line"]["type"] == "string"
    assert result.requests[1]["message"].startswith("The answer was refused: line: ")
    assert told[0].startswith("wrote ")


async def test_decisions_that_hold_for_longer_stay_within_one_server(url: str) -> None:
    """Two servers of one name, each with a tool of one name: what is told apart by is no secret."""
    result, _, _ = await run(
        over_http(url, requires_approval=True), [("write", {"line": "x"})], answers=lambda asked: APPROVE
    )
    source = result.requests[0]["tool_source"]
    assert re.fullmatch(r"mcp:127\.0\.0\.1:[0-9a-f]{16}", source)
    one, other = (MCPTools([*COMMAND, secret], name="files") for secret in ("--token=a", "--token=b"))
    assert one._source != other._source
    assert "token" not in one._source


async def test_a_middleware_gates_a_server_s_tools(url: str) -> None:
    class Gates:
        def wrap_tools(self, tools: Any) -> Any:
            return tuple(tool(each, requires_approval=True) for each in tools)

    script = [{"tool_calls": [{"name": "write", "args": {"line": "x"}}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[over_http(url)], middleware=[Gates()])
    result = await run_locally(agent, "go", answers=lambda asked: {"type": "reject"})
    assert [asked["tool_source"] is not None for asked in result.requests] == [True]
    assert result.state[2].content == '{"error": "User rejected write"}'


async def test_a_gate_for_a_tool_that_does_not_exist_fails_and_guards_nothing_silently(url: str) -> None:
    with pytest.raises(MCPServerError, match=r"names wirte, which the server does not have \(it has: write, "):
        await run(over_http(url, requires_approval={"wirte": True}))


async def test_a_tool_of_the_agent_s_own_with_a_server_s_name_is_an_error(url: str) -> None:
    @tool
    async def write(line: str) -> None: ...

    with pytest.raises(ValueError, match="two tools are called 'write'") as raised:
        await run(over_http(url, name="shelf"), more=[write])
    assert str(raised.value).endswith("MCPTools(..., prefix='docs_') renames those of a server, here mcp:shelf")
    _, told, _ = await run(over_http(url, prefix="docs_"), [("docs_write", {"line": "both"})], more=[write])
    assert told[0].startswith("wrote ")


async def test_a_prefix_is_part_of_the_name_for_the_model_and_for_gates_but_not_for_the_server(url: str) -> None:
    sources = [over_http(url, prefix=prefix, requires_approval={"write": True}) for prefix in ("a_", "b-")]
    calls = [("a_write", {"line": "never"}), ("b-read_all", {})]
    result, told, client = await run(sources[0], calls, more=sources[1:], answers=lambda asked: {"type": "reject"})
    shown = [item["function"]["name"] for item in client.requests[0]["tools"]]
    assert shown[:2] == ["a_write", "a_read_all"]
    assert shown[7:9] == ["b-write", "b-read_all"]
    assert [asked["payload"]["tool_name"] for asked in result.requests] == ["a_write"]
    assert "never" not in told[1].split("\n")


def test_names_of_one_server_that_become_one_are_told_apart_by_what_they_were() -> None:
    names = ["a.b", "a_b", "a/b", "c.d", "x" * 70, "x" * 71]
    shown = _shown_names("", names)
    assert shown == ["a_b_2e7336", "a_b", "a_b_c14cdd", "c_d", "x" * 57 + "_c71bd1", "x" * 57 + "_87a1e4"]
    assert [_shown_names("", names[::-1])[::-1], _shown_names("docs_", ["a.b", "a_b"])[1]] == [shown, "docs_a_b"]


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({}, TypeError, "a command or a url"),
        ({"command": "x", "url": "http://x"}, TypeError, "a command or a url"),
        ({"command": []}, ValueError, "the command is empty"),
        ({"command": "x", "requires_approval": "yes"}, TypeError, "requires_approval must be a bool or a callable"),
        ({"command": "x", "requires_approval": {"w": 1}}, TypeError, r"requires_approval\['w'\]"),
        ({"command": "x", "on_approval": True}, TypeError, "on_approval must be a callable"),
        ({"command": "x", "headers": {"A": "b"}}, TypeError, "headers are for a url"),
        ({"url": "http://x", "env": {"A": "b"}}, TypeError, "env is for a command"),
        ({"url": "http://x", "cwd": "/"}, TypeError, "cwd is for a command"),
        ({"command": "x", "env": ["A=secret"]}, TypeError, "env must be a dict of str, got list$"),
        ({"command": "x", "env": {"A": 1}}, TypeError, "env must be a dict of str, got int for 'A'"),
        ({"url": "http://x", "headers": {"A": b"secret"}}, TypeError, "got bytes for 'A'"),
        ({"command": "x", "cwd": 1}, TypeError, "cwd must be a str or a Path, got 1"),
        ({"command": [1]}, TypeError, r"command must be a str or a list of them, got \[1\]"),
        ({"command": 1}, TypeError, "command must be a str or a list of them, got 1"),
        ({"url": 1}, TypeError, "url must be a str, got 1"),
        ({"command": "x", "name": 1}, TypeError, "name must be a str, got 1"),
        ({"command": "x", "timeout": "30"}, TypeError, "timeout is a number of seconds or None, got '30'"),
        ({"command": "x", "timeout": True}, TypeError, "timeout is a number of seconds or None, got True"),
        ({"command": "x", "timeout": -5}, ValueError, "timeout must be more than 0 seconds, got -5"),
        ({"command": "x", "timeout": float("nan")}, ValueError, "timeout must be more than 0 seconds, got nan"),
        ({"command": "x", "prefix": 1}, TypeError, "prefix must be a str, got 1"),
        ({"command": "x", "prefix": "docs."}, ValueError, "prefix takes letters, digits, _ and -, 32 at most"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        MCPTools(**options)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MCPServerError, match=r"hitl-runtime\[mcp\]"):
        MCPTools("x")


def test_a_command_may_be_one_string() -> None:
    source = MCPTools("uvx 'some server' --flag")
    assert source._command == ["uvx", "some server", "--flag"]
    assert (source.name, MCPTools(url="https://user:pw@tools.example/mcp").name) == ("uvx", "tools.example")


async def test_a_server_that_never_answers_ends_with_the_agent_s_time(tmp_path: Path) -> None:
    begun = tmp_path / "pid"
    program = f"import os, sys; open({str(begun)!r}, 'w').write(str(os.getpid())); sys.stdin.read()"
    silent = [sys.executable, "-c", program]
    client = ScriptedChatClient([{"content": "done"}])
    agent = ReActAgent(client=client, tools=[MCPTools(silent)], timeout=0.5)
    with pytest.raises(TimeoutError):
        await run_locally(agent, "go")
    # Whether it had come so far or not: nothing of it is left.
    assert not (begun.exists() and begun.read_text() and Path("/proc", begun.read_text()).exists())
