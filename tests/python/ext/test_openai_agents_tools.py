"""Tools of agents of the OpenAI Agents SDK that are no functions: of MCP servers, here and at the provider's, shells,
patches and tools that take text."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    CustomTool,
    HostedMCPTool,
    LocalShellTool,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    set_tracing_disabled,
)
from agents.editor import ApplyPatchResult
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai.types.responses import ResponseCustomToolCall, ResponseFunctionShellToolCall
from openai.types.responses.response_apply_patch_tool_call import ResponseApplyPatchToolCall
from openai.types.responses.response_output_item import LocalShellCall, LocalShellCallAction, McpApprovalRequest

import hitl
from hitl.driver.shapes import as_agent as load
from hitl.ext.openai_agents import as_agent, mcp
from hitl.messages import ChatMessage
from hitl.turn.runtime import current_turn
from tests.python.ext.openai_agents_runs import APPROVE, Once, Says, payer, proved
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.mcp_over_http import mcp_over_http
from tests.python.support.prefixes import Effects
from tests.python.support.served import ROOT

SERVER = ROOT / "tests/python/support/mcp_server.py"


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


# -- at the provider's -------------------------------------------------------------------------------------------------


def hosted_call(id: str, title: str) -> McpApprovalRequest:
    return McpApprovalRequest(
        id=id, type="mcp_approval_request", name="search", server_label="library", arguments=f'{{"title":"{title}"}}'
    )


def reader(effects: Effects, **options: Any) -> Agent[Any]:
    """Wants two calls of a hosted server made, and one of a function."""
    config: Any = {
        "type": "mcp",
        "server_label": "library",
        "server_url": "http://127.0.0.1/",
        "require_approval": "always",
    }
    agent = payer(effects)
    agent.tools = [*agent.tools, HostedMCPTool(tool_config=config, **options)]
    agent.model = Says([hosted_call("r1", "one"), hosted_call("r2", "two"), ("pay", {"cents": 5})])
    return agent


def verdicts(agent: Agent[Any]) -> list[tuple[str, bool, str | None]]:
    seen: list[Any] = agent.model.seen  # type: ignore[union-attr]
    found = [item for item in seen[-1] if item.get("type") == "mcp_approval_response"]
    return [(item["approval_request_id"], item["approve"], item.get("reason")) for item in found]


async def test_calls_of_a_hosted_server_are_asked_about_with_all_others() -> None:
    agent = reader([])
    result = await hitl.run(agent, "go")
    asked = {(each.tool_name, str(each.tool_args)): each for each in result.interrupts}
    assert [name for name, _ in asked] == ["search", "search", "pay"]
    one, two, pay = asked.values()
    assert one.allowed_decisions == ["approve", "reject"]
    state = result.state.approve(one).reject(two, message="not that")
    result = await hitl.run(agent, state)
    assert [each.tool_name for each in result.interrupts] == ["pay"]
    result = await hitl.run(agent, result.state.approve(pay.id))
    assert (result.status, result.output) == ("idle", '["paid 5"]')
    assert verdicts(agent) == [("r1", True, None), ("r2", False, "not that")]

    run, _ = await proved(reader, lambda question: APPROVE)
    assert {each["tool_source"] for each in run.requests} == {"mcp:library", None}


async def test_arguments_that_two_readers_read_as_two_are_shown_to_the_letter_or_not_run() -> None:
    twice = '{"title": "one", "more": {"pages": 1, "pages": 900}}'
    effects: Effects = []
    agent = reader([])
    hosted = hosted_call("r1", "one").model_copy(update={"arguments": twice})
    agent.model = Says([hosted])
    (asked,) = (await hitl.run(agent, "go")).interrupts
    assert asked.tool_args == {"arguments": twice}

    agent = payer(effects, [("pay", '{"cents": 5, "cents": 900}')])
    result = await hitl.run(agent, "go")
    assert (result.status, result.interrupts, effects) == ("idle", [], [])


async def test_code_that_decides_about_calls_of_a_hosted_server_is_asked_once() -> None:
    decided: list[str] = []

    def decide(request: Any) -> Any:
        decided.append(request.data.id)
        return {"approve": request.data.id == "r1", "reason": "no"}

    agent = reader([], on_approval_request=decide)
    result = await hitl.run(agent, "go")
    assert [each.tool_name for each in result.interrupts] == ["pay"]
    state = result.state
    for _ in range(2):
        assert (await hitl.run(agent, hitl.RunState.from_string(agent, state.to_string()))).status == "interrupted"
    result = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert (verdicts(agent), decided) == ([("r1", True, None), ("r2", False, "no")], ["r1", "r2"])


# -- servers of MCP here -----------------------------------------------------------------------------------------------


def librarian(**options: Any) -> Agent[Any]:
    """Writes a line, twice."""
    server = MCPServerStdio(
        {"command": sys.executable, "args": [str(SERVER)]},
        name="shelf",
        require_approval={"always": {"tool_names": ["write"]}},
        client_session_timeout_seconds=60,
    )
    rounds = ([("write", {"line": "a"}), ("environment", {"name": "NOWHERE"})], [("write", {"line": "c"})])
    return Agent(name="librarian", model=Says(*rounds), mcp_servers=[server], **options)


async def test_a_server_is_connected_by_whoever_needs_it_and_keeps_no_turn_from_waiting() -> None:
    asked = await hitl.run(librarian(), "go")
    assert asked.status == "interrupted", asked.error
    (question,) = asked.interrupts
    assert (question.tool_name, question.tool_args) == ("write", {"line": "a", "times": 1})

    agent = librarian()
    state = hitl.RunState.from_string(agent, asked.state.to_string())
    result = await hitl.run(agent, state.edit(state.interrupts[0], {"line": "b", "times": 2}))
    assert result.status == "interrupted", result.error
    # The same server object, once more connected.
    result = await hitl.run(agent, result.state.approve(result.interrupts[0]))
    assert result.output is not None, result.error
    texts = [output[0]["text"] for output in json.loads(result.output)]
    assert texts == ["wrote 2", "unset", "wrote 1"]


async def test_turns_at_once_share_the_connection_to_a_server() -> None:
    agent = librarian()
    first, second = await asyncio.gather(hitl.run(agent, "go"), hitl.run(agent, "go"))
    assert [each.status for each in (first, second)] == ["interrupted"] * 2


async def test_a_server_that_the_program_has_connected_stays_connected(mcp_url: str) -> None:
    async with MCPServerStreamableHttp({"url": mcp_url}, name="shelf") as server:
        agent = Agent(name="librarian", model=Says([("write", {"line": "a"})]), mcp_servers=[server])
        for written in ("wrote 1", "wrote 2"):
            result = await hitl.run(agent, "go")
            assert written in (result.output or ""), result.error


async def test_an_address_that_stands_for_a_servers_name_is_recorded_without_its_secrets(mcp_url: str) -> None:
    def agent() -> Agent[Any]:
        """Its server has no name of its own: the SDK calls it by its address."""
        server = MCPServerStreamableHttp(
            {"url": f"{mcp_url}?key=hush"}, require_approval="always", client_session_timeout_seconds=60
        )
        return Agent(name="librarian", model=Says([("write", {"line": "a"})]), mcp_servers=[server])

    asked = await hitl.run(agent(), "go")
    assert asked.status == "interrupted", asked.error
    said = asked.state.to_string()
    assert "hush" not in said
    # As an earlier release has recorded it, the turn goes on.
    before = said
    for written in mcp_url, mcp_url.replace("/", "%2F"):
        before = before.replace(f"streamable_http: {written}", f"streamable_http: {written}?key=hush")
    for number, each in enumerate((said, before), 1):
        waiting = agent()
        state = hitl.RunState.from_string(waiting, each)
        result = await hitl.run(waiting, state.approve(state.interrupts[0]))
        assert f"wrote {number}" in (result.output or ""), result.error


async def test_a_server_that_cannot_be_started_fails_the_turn() -> None:
    server = MCPServerStdio({"command": "/nonexistent/server"}, name="nowhere")
    result = await hitl.run(Agent(name="a", model=Says(), mcp_servers=[server]), "go")
    assert result.status == "error"


class Silent(MCPServerStdio):
    """Takes what it is sent, and answers nothing. `reached`: once a connection waits for it."""

    def __init__(self) -> None:
        params = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
        super().__init__(params, name="silent", client_session_timeout_seconds=None)  # type: ignore[arg-type]
        self.reached = asyncio.Event()
        self.ended: list[str] = []

    def create_streams(self) -> Any:
        self.reached.set()
        return super().create_streams()

    async def cleanup(self) -> None:
        await super().cleanup()  # type: ignore[no-untyped-call]
        self.ended.append("cleaned up")


def connecting() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task.get_name() == "hitl mcp"}


async def test_a_run_that_is_cancelled_while_its_server_does_not_answer_leaves_no_connection_behind() -> None:
    server = Silent()
    running = asyncio.create_task(hitl.run(Agent(name="a", model=Says(), mcp_servers=[server]), "go"))
    await server.reached.wait()
    (task,) = connecting()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait({task})
    assert server.ended == ["cleaned up"]


async def test_one_of_two_turns_that_gives_up_waiting_for_a_server_leaves_it_to_the_other() -> None:
    server = Silent()
    agent = Agent(name="a", model=Says(), mcp_servers=[server])
    first, second = (asyncio.create_task(hitl.run(agent, "go")) for _ in range(2))
    await server.reached.wait()
    (task,) = connecting()
    (connection,) = mcp._connections[server]
    while connection.users < 2:
        await asyncio.sleep(0)
    for running, is_left in ((first, True), (second, False)):
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (connection.users, task in connecting() and not task.cancelling()) == (int(is_left), is_left)
    await asyncio.wait({task})


@pytest.mark.parametrize("is_behind_another", [False, True])
async def test_whoever_waits_for_a_connection_that_is_cancelled_before_it_began_is_told(
    is_behind_another: bool,
) -> None:
    server = Silent()
    before = mcp._Connection(server, None) if is_behind_another else None
    if before is not None:
        await server.reached.wait()
    connection = mcp._Connection(server, before)
    if is_behind_another:
        await asyncio.sleep(0)  # it is at its first line, and waits for the other one
    connection.task.cancel()
    with pytest.raises(ConnectionError, match="silent: connecting was cancelled"):
        await connection.ready
    if before is not None:
        before.task.cancel()
        await asyncio.wait({before.task})


async def test_calls_of_a_turn_that_fail_to_connect_together_count_it_once_and_take_no_later_connection_away() -> None:
    server = MCPServerStdio({"command": "/nonexistent/server"}, name="nowhere")
    turn = LocalTurn()

    async def run_turn(message: ChatMessage, state: list[ChatMessage]) -> Any:
        first, second = (asyncio.ensure_future(mcp._connect(current_turn(), server)) for _ in range(2))
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(each) for each in outcomes] == [FileNotFoundError] * 2
        (connection,) = mcp._connections[server]
        assert connection.users == 0
        return ChatMessage.assistant_message(content="told"), state

    response, _ = await turn.run(run_turn, ChatMessage.user_message(content="go"), [])
    assert response.content == "told"


@pytest.fixture
def mcp_url(tmp_path: Path) -> Iterator[str]:
    with mcp_over_http([str(SERVER)], tmp_path / "url") as url:
        yield url


# -- shells, patches, text ---------------------------------------------------------------------------------------------


def shell(effects: Effects, **options: Any) -> Agent[Any]:
    async def execute(request: Any) -> ShellResult:
        effects.append(request.data.action.commands[0])
        return ShellResult(output=[ShellCommandOutput(stdout="done", command="ls")])

    call: Any = {"commands": ["ls"], "timeout_ms": 1000, "max_output_length": None}
    made = ResponseFunctionShellToolCall(
        id="s", type="shell_call", call_id="s1", status="completed", action=call, environment=None
    )
    tool = ShellTool(executor=execute, **options)
    return Agent(name="operator", model=Once(made), tools=[tool])


def typist(effects: Effects, **options: Any) -> Agent[Any]:
    async def write(context: Any, text: str) -> str:
        effects.append(text)
        return "done"

    made = ResponseCustomToolCall(type="custom_tool_call", call_id="t1", name="type", input="hello")
    tool = CustomTool(name="type", description="types", on_invoke_tool=write, **options)
    return Agent(name="typist", model=Once(made), tools=[tool])


def editor(effects: Effects, **options: Any) -> Agent[Any]:
    class Editor:
        def create_file(self, operation: Any) -> ApplyPatchResult:
            effects.append(operation.path)
            return ApplyPatchResult(status="completed", output="done")

        update_file = delete_file = create_file

    operation: Any = {"type": "create_file", "path": "a.txt", "diff": "+hi"}
    made = ResponseApplyPatchToolCall(
        id="p", type="apply_patch_call", call_id="p1", status="completed", operation=operation
    )
    return Agent(name="editor", model=Once(made), tools=[ApplyPatchTool(editor=Editor(), **options)])


@pytest.mark.parametrize("make", [shell, typist, editor])
async def test_a_call_of_a_tool_of_another_kind_is_a_step_and_asks(make: Any) -> None:
    from tests.python.support.prefixes import run_all_prefixes

    run = await run_all_prefixes(partial(make, needs_approval=True), lambda question: APPROVE)
    assert (len(run.requests), len(run.effects), "done" in (run.response.content or "")) == (1, 1, True)
    run = await run_all_prefixes(
        partial(make, needs_approval=True), lambda question: {"type": "reject", "message": "leave it"}
    )
    assert (run.effects, "leave it" in (run.response.content or "")) == ([], True)
    run = await run_all_prefixes(make, None)
    assert (run.requests, len(run.effects)) == ([], 1)
    decides = partial(make, needs_approval=True, on_approval=lambda context, item: {"approve": True})
    run = await run_all_prefixes(decides, None)
    assert (run.requests, len(run.effects)) == ([], 1)


async def test_a_tool_of_a_class_that_decides_by_parts_of_its_input_asks_once() -> None:
    from tests.python.support.prefixes import run_all_prefixes

    class Patcher(CustomTool):
        """As the SDK's tool for patches in a sandbox: its rule is about operations, and not about text."""

        def __init__(self, effects: Effects, dangerous: str) -> None:
            async def write(context: Any, text: str) -> str:
                effects.append(text)
                return "done"

            super().__init__(name="type", description="types", on_invoke_tool=write)
            self.needs_approval: Any = lambda operation: operation == dangerous

        def runtime_needs_approval(self) -> Any:
            return lambda context, text, call_id: any(map(self.needs_approval, text.split()))

    made = ResponseCustomToolCall(type="custom_tool_call", call_id="t1", name="type", input="look delete")
    for dangerous, asked in (("delete", [{"input": "look delete"}]), ("move", [])):

        def patcher(effects: Effects, dangerous: str = dangerous) -> Agent[Any]:
            return Agent(name="typist", model=Once(made), tools=[Patcher(effects, dangerous)])

        run = await run_all_prefixes(patcher, lambda request: APPROVE)
        assert run.effects == ["look delete"]
        assert [request["payload"]["tool_args"] for request in run.requests] == asked


def local_shell(effects: Effects) -> Agent[Any]:
    """Of a kind that has no approval in the SDK."""

    async def execute(request: Any) -> str:
        effects.append(request.data.action.command[0])
        return "done"

    action = LocalShellCallAction(type="exec", command=["ls"], env={"LANG": "C"}, working_directory="/srv")
    made = LocalShellCall(id="l", type="local_shell_call", call_id="l1", status="completed", action=action)
    return Agent(name="operator", model=Once(made), tools=[LocalShellTool(executor=execute)])


async def under_rules(agent: Agent[Any], decide: Any, journal: list[dict[str, Any]] | None = None) -> Any:
    """The reply of an agent about whose calls `decide` says what the rules say; and the journal. A person says yes."""
    loaded = load(as_agent(agent))
    start = {"at": 1, "entry": "start", "code": "c", "python": "3.11", "policy": True}
    local = LocalTurn(agent=loaded.name, journal=journal or [start])
    local.port.decide_at_once = decide
    local.port.answers = lambda request: APPROVE
    reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    return reply.content or "", local.port


@pytest.mark.parametrize("make", [shell, typist, editor, local_shell])
async def test_rules_are_asked_about_a_tool_of_another_kind_too(make: Any) -> None:
    effects: Effects = []
    denied = {"type": "reject", "reason": "closed", "by": "policy"}
    said, _ = await under_rules(make(effects), lambda request: denied)
    assert (effects, "closed" in said) == ([], True)
    said, port = await under_rules(make(effects), lambda request: PENDING)
    assert (len(effects), "done" in said, len(port.interrupts)) == (1, True, 1)
    said, _ = await under_rules(make(effects), lambda request: {"type": "approve", "by": "policy"})
    assert (len(effects), "done" in said) == (2, True)


async def test_a_person_sees_all_that_a_local_shell_would_run_with() -> None:
    _, port = await under_rules(local_shell([]), lambda request: PENDING)
    (asked,) = [each.request for each in port.interrupts]
    shown = {"command": ["ls"], "env": {"LANG": "C"}, "working_directory": "/srv"}
    assert (asked["payload"]["tool_name"], asked["payload"]["tool_args"]) == ("local_shell", shown)
    assert asked["allowed_decisions"] == ["approve", "reject"]
    intents = [entry["step"]["name"] for entry in port.journal if entry["entry"] == "intent"]
    assert intents == ["local_shell"]


async def test_a_call_of_a_local_shell_that_no_rule_was_asked_about_before_the_update_stays_made() -> None:
    effects: Effects = []
    _, port = await under_rules(local_shell(effects), lambda request: {"type": "approve", "by": "policy"})
    asked = [entry for entry in port.journal if entry["entry"] in ("ask", "answer", "intent")]
    before = [{**entry, "at": 1} for entry in port.journal if entry not in asked]
    said, port = await under_rules(local_shell(effects), lambda request: PENDING, json.loads(json.dumps(before)))
    assert (effects, said, port.interrupts) == (["ls"], "done", [])
