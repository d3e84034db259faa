"""The loop between a model and its tools."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from pydantic import BaseModel

from hitl import ChatMessage, ReActAgent, hooks, interrupt, tool
from hitl.agents.react import MaxStepsExceeded
from hitl.testing import ScriptedChatClient, ScriptExhausted
from tests.python.support.local import LocalTurn, run_locally


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def calls(*items: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(items)}


def errors(state: list[ChatMessage]) -> list[str]:
    """What went wrong in each tool call, in order; "" where nothing did."""
    contents = [json.loads(message.content or "null") for message in state if message.role == "tool"]
    return [content["error"] if isinstance(content, dict) else "" for content in contents]


async def test_state_grows_by_the_whole_turn_and_never_holds_the_system_prompt() -> None:
    client = ScriptedChatClient(
        [calls({"name": "add", "args": {"a": 1, "b": 2}}), {"content": "3"}, {"content": "bye"}]
    )
    agent = ReActAgent(client=client, system_prompt="Be brief.", tools=[add])
    first = await run_locally(agent, "1 + 2?")
    assert [message.role for message in first.state] == ["user", "assistant", "tool", "assistant"]
    assert first.response == first.state[-1] == ChatMessage.assistant_message(content="3")
    second = await run_locally(agent, "thanks", first.state)
    assert second.state[:4] == first.state
    assert second.response.content == "bye"
    assert [message["role"] for message in client.requests[2]["messages"]] == [
        "system",
        *("user", "assistant", "tool", "assistant"),
        "user",
    ]
    assert client.requests[0]["tools"] == [add.definition]


async def test_the_given_state_is_not_changed() -> None:
    state: list[ChatMessage] = []
    await run_locally(ReActAgent(client=ScriptedChatClient([{"content": "hi"}])), "hi", state)
    assert state == []


async def test_parallel_calls_run_together_and_answer_in_order() -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        await both.wait()
        if name == "first":
            await asyncio.sleep(0)
        return name

    client = ScriptedChatClient(
        [
            calls({"name": "meet", "args": {"name": "first"}}, {"name": "meet", "args": {"name": "second"}}),
            {"content": "ok"},
        ]
    )
    result = await run_locally(ReActAgent(client=client, tools=[meet]), "go")
    assert [message.content for message in result.state[2:4]] == ["first", "second"]
    assert [(step["path"], step["kind"]) for step, _ in result.port.steps if step["kind"] == "tool"] in (
        [("0.1#1", "tool"), ("0.2#1", "tool")],
        [("0.2#1", "tool"), ("0.1#1", "tool")],
    )


async def test_a_plain_tool_runs_in_a_thread() -> None:
    @tool
    def where() -> int:
        return threading.get_ident()

    client = ScriptedChatClient([calls({"name": "where"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[where]), "go")
    assert result.state[2].content != str(threading.get_ident())


async def test_every_mistake_of_a_model_is_a_tool_error_that_it_sees() -> None:
    client = ScriptedChatClient(
        [
            calls(
                {"name": "subtract", "args": {}},
                {"name": "add", "args": '{"a": 1,'},
                {"name": "add", "args": "[1, 2]"},
                {"name": "add", "args": {"a": 1}},
                {"name": "add", "args": {"a": 1, "b": 2, "c": 3}},
                {"name": "add", "args": {"a": 1, "b": 2}},
            ),
            {"content": "sorry"},
        ]
    )
    result = await run_locally(ReActAgent(client=client, tools=[add]), "go")
    unknown, broken, array, missing, extra, fine = errors(result.state)
    assert unknown == "unknown tool 'subtract'; known tools: add"
    assert broken.startswith("arguments are not valid JSON")
    assert array == "arguments must be a JSON object, got an array"
    assert missing == "b: Field required"
    assert extra == "c: Extra inputs are not permitted"
    assert fine == ""
    assert result.response.content == "sorry"


async def test_calls_that_share_an_id_do_not_run_and_leave_a_history_that_providers_accept() -> None:
    ran: list[str] = []

    @tool
    async def note(text: str) -> None:
        ran.append(text)

    client = ScriptedChatClient(
        [
            calls(
                {"name": "note", "args": {"text": "a"}, "id": "c"},
                {"name": "note", "args": {"text": "b"}, "id": "d"},
                {"name": "note", "args": {"text": "c"}, "id": "c"},
            ),
            {"content": "ok"},
        ]
    )
    result = await run_locally(ReActAgent(client=client, tools=[note]), "go")
    assert ran == ["b"]
    first, fine, third = errors(result.state)
    assert first == third == "several calls of this message have the id 'c': none of them ran"
    assert fine == ""
    asked = [call["id"] for call in result.state[1].tool_calls or []]
    assert len(set(asked)) == 3
    assert [message.tool_call_id for message in result.state[2:5]] == asked


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (FileNotFoundError(2, "No such file", "/x"), "FileNotFoundError: [Errno 2] No such file: '/x'"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        # As many a command line does: it would fly out of the loop, and end the program that runs the agent.
        (SystemExit(2), "SystemExit: 2"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_tool_raises_is_a_tool_error(raised: BaseException, text: str, is_async: bool) -> None:
    def fail() -> None:
        raise raised

    async def fail_async() -> None:
        fail()

    made = tool(fail_async if is_async else fail, name="fail")
    client = ScriptedChatClient([calls({"name": "fail"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[made]), "go")
    assert errors(result.state) == [text]


async def test_a_tool_that_cancels_itself_is_a_tool_error() -> None:
    @tool
    async def cancel() -> None:
        raise asyncio.CancelledError

    client = ScriptedChatClient([calls({"name": "cancel"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[cancel]), "go")
    assert errors(result.state) == ["RuntimeError: the tool cancelled itself"]


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def test_an_error_that_cannot_say_what_it_is_is_told_by_its_class_and_ends_no_turn() -> None:
    @tool
    def fails() -> None:
        raise Speechless

    client = ScriptedChatClient([calls({"name": "fails"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[fails]), "go")
    assert errors(result.state) == ["Speechless: <RuntimeError in Speechless.__str__>"]


async def test_a_result_that_cannot_be_stored_is_told_as_json() -> None:
    class Socket:
        def __str__(self) -> str:
            return "socket 7"

    @tool
    async def connect() -> Any:
        return {"socket": [Socket()]}

    client = ScriptedChatClient([calls({"name": "connect"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[connect]), "go")
    [content] = [message.content for message in result.state if message.role == "tool"]
    assert json.loads(content or "") == {"socket": ["socket 7"]}


class Point(BaseModel):
    x: int
    tags: set[str] = set()


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("plain text", "plain text"),
        ("", ""),
        (None, "null"),
        (0, "0"),
        ({"a": [1, None], "ü": "ö"}, '{"a":[1,null],"ü":"ö"}'),
        (Point(x=1), '{"x":1,"tags":[]}'),
        (b"bytes", '"bytes"'),
    ],
)
async def test_results_reach_the_model_as_text_or_json(value: Any, content: str) -> None:
    @tool
    async def give() -> Any:
        return value

    client = ScriptedChatClient([calls({"name": "give"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[give]), "go")
    assert result.state[2].content == content


class Clock:
    """The running loop's clock, which a test may put forward: timers that are due then fire."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real = loop.time
        self.ahead = 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self.ahead)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def test_a_tool_that_works_too_long_is_a_tool_error(clock: Clock) -> None:
    @tool(timeout=60)
    async def hang() -> None:
        clock.ahead += 61
        await asyncio.Event().wait()

    client = ScriptedChatClient([calls({"name": "hang"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[hang]), "go")
    assert errors(result.state) == ["TimeoutError: hang took longer than 60 s"]


async def test_of_a_plain_function_that_goes_on_after_its_time_the_model_is_told_so(clock: Clock) -> None:
    over, paid = threading.Event(), threading.Event()

    @tool(timeout=60)
    def pay() -> None:
        clock.ahead += 61
        over.wait()
        paid.set()

    client = ScriptedChatClient([calls({"name": "pay"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[pay]), "go")
    assert errors(result.state) == ["TimeoutError: pay took longer than 60 s and may still take effect"]
    over.set()
    assert paid.wait(100)


async def test_of_an_agent_with_such_a_function_the_agent_that_called_it_is_told_so(clock: Clock) -> None:
    over = threading.Event()

    @tool
    def pay() -> None:
        clock.ahead += 61
        over.wait()

    inner = ReActAgent(
        client=ScriptedChatClient([calls({"name": "pay"})]), tools=[pay], name="payer", timeout=60
    ).as_tool()
    client = ScriptedChatClient([calls({"name": "payer", "args": {"input": "pay"}}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[inner]), "go")
    assert errors(result.state) == ["TimeoutError: payer took longer than 60 s and may still take effect"]
    over.set()


async def test_a_tool_that_only_seems_to_be_async_says_so_too(clock: Clock) -> None:
    """Agents as tools, and functions with a `ToolContext`, have an async function around what they do."""
    over = threading.Event()

    @tool
    def pay() -> None:
        clock.ahead += 61
        over.wait()

    @hooks.tool(timeout=60)
    def ask(context: hooks.ToolContext) -> None:
        clock.ahead += 61
        over.wait()

    inner = ReActAgent(client=ScriptedChatClient([calls({"name": "pay"})]), tools=[pay], name="payer").as_tool()
    tools = [tool(inner, timeout=60), ask]
    script = [calls({"name": "payer", "args": {"input": "pay"}}), calls({"name": "ask"}), {"content": "ok"}]
    result = await run_locally(ReActAgent(client=ScriptedChatClient(script), tools=tools), "go")
    assert errors(result.state) == [
        f"TimeoutError: {name} took longer than 60 s and may still take effect" for name in ("payer", "ask")
    ]
    over.set()


async def test_an_agent_that_works_too_long_fails(clock: Clock) -> None:
    @tool
    async def hang() -> None:
        clock.ahead += 61
        await asyncio.Event().wait()

    client = ScriptedChatClient([calls({"name": "hang"}), {"content": "ok"}])
    with pytest.raises(TimeoutError, match="slow took longer than 60 s"):
        await run_locally(ReActAgent(client=client, tools=[hang], name="slow", timeout=60), "go")


async def test_the_time_a_person_takes_does_not_count(clock: Clock) -> None:
    @tool(requires_approval=True, timeout=60)
    async def gated() -> str:
        clock.ahead += 30
        return "ran"

    async def person(asked: Any) -> Any:
        clock.ahead += 86_400
        # Long enough for a timer that had not been stopped to fire.
        for _ in range(10):
            await asyncio.sleep(0)
        return {"type": "approve"}

    client = ScriptedChatClient([calls({"name": "gated"}), calls({"name": "gated"}), {"content": "ok"}])
    result = await run_locally(ReActAgent(client=client, tools=[gated], timeout=80), "go", answers=person)
    assert [message.content for message in result.state if message.role == "tool"] == ["ran", "ran"]


async def test_the_step_limit_is_an_error_that_says_so() -> None:
    client = ScriptedChatClient([calls({"name": "add", "args": {"a": 1, "b": 1}})] * 5)
    agent = ReActAgent(client=client, tools=[add], max_steps=3, name="adder")
    with pytest.raises(MaxStepsExceeded, match="adder asked its model 3 times"):
        await run_locally(agent, "go")
    assert len(client.requests) == 3


async def test_a_failing_model_fails_the_turn_with_its_own_error() -> None:
    with pytest.raises(ScriptExhausted):
        await run_locally(ReActAgent(client=ScriptedChatClient([])), "go")


async def test_each_model_call_is_a_step_and_its_text_is_streamed_under_it() -> None:
    client = ScriptedChatClient([calls({"name": "add", "args": {"a": 1, "b": 2}}), {"content": "it is three"}])
    result = await run_locally(ReActAgent(client=client, tools=[add], model_name="m"), "go")
    models = [step for step, _ in result.port.steps if step["kind"] == "model"]
    assert [(step["path"], step["name"]) for step in models] == [("0#1", "m"), ("0#2", "m")]
    assert set(models[0]["arguments"]) == {"messages", "tools", "response_format"}
    assert [(path, delta["content"]) for path, _, delta in result.port.deltas] == [
        ("0#2", "it"),
        ("0#2", " is"),
        ("0#2", " three"),
    ]


async def test_usage_is_added_up_over_the_turn() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    script = [{**calls({"name": "add", "args": {"a": 1, "b": 2}}), "usage": usage}, {"content": "3", "usage": usage}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[add])
    local = LocalTurn()
    await local.run(agent.run_turn, ChatMessage.user_message(content="go"), [])
    assert local.turn.usage == {"requests": 2, "input_tokens": 20, "output_tokens": 4, "total_tokens": 24}


async def test_a_failure_that_ends_the_turn_withdraws_what_its_siblings_asked() -> None:
    from hitl import ReplayMismatch

    @tool
    async def diverge() -> None:
        raise ReplayMismatch("the journal says otherwise")

    @tool
    async def ask() -> Any:
        return await interrupt({"type": "x"})

    client = ScriptedChatClient([calls({"name": "ask"}, {"name": "diverge"})])
    agent = ReActAgent(client=client, tools=[ask, diverge])
    local = LocalTurn()
    with pytest.raises(ReplayMismatch):
        await local.run(agent.run_turn, ChatMessage.user_message(content="go"), [])
    assert all(asked.withdrawn for asked in local.port.interrupts)


# -- agents as tools -------------------------------------------------------------------------------------------------


async def test_an_agent_as_a_tool_runs_inside_the_outer_turn_and_asks_under_its_own_name() -> None:
    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    inner_client = ScriptedChatClient([calls({"name": "pay", "args": {"cents": 5}}), {"content": "all paid"}])
    inner = ReActAgent(client=inner_client, tools=[pay], name="treasurer")
    outer_client = ScriptedChatClient(
        [calls({"name": "treasurer", "args": {"input": "pay it"}, "id": "outer_call"}), {"content": "done"}]
    )
    outer = ReActAgent(client=outer_client, tools=[inner.as_tool(requires_approval=True)], name="boss")
    result = await run_locally(outer, "go", answers=lambda asked: {"type": "approve"})
    assert [(asked["agent"], asked["payload"]["tool_name"]) for asked in result.requests] == [
        ("boss", "treasurer"),
        ("treasurer", "pay"),
    ]
    assert result.state[2].content == "all paid"
    assert inner_client.requests[0]["messages"] == [{"role": "user", "content": "pay it"}]
    # The inner agent's journal is the outer one's, under the step of the tool.
    assert [step["path"] for step, _ in result.port.steps if "/" in step["path"]] == [
        "0.1#2/0#1",
        "0.1#2/0.1#2",
        "0.1#2/0#2",
    ]
    # Only the outermost agent speaks to the reader.
    assert {path for path, _, _ in result.port.deltas} == {"0#2"}


async def test_an_agent_without_a_name_is_told_apart_from_the_one_that_calls_it() -> None:
    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    def payer(then: dict[str, Any], **options: Any) -> ReActAgent:
        paying = calls({"name": "pay", "args": {"cents": 1}})
        return ReActAgent(client=ScriptedChatClient([paying, then, {"content": "done"}]), **options)

    inner = payer({"content": "paid"}, tools=[pay])
    middle = payer(calls({"name": "inner", "args": {"input": "x"}}), tools=[pay, inner.as_tool("inner")])
    outer = payer(
        calls({"name": "middle", "args": {"input": "x"}}), tools=[pay, middle.as_tool("middle")], name="outer"
    )
    result = await run_locally(outer, "go", answers=lambda asked: {"type": "approve"})
    # A decision for always is for a tool of an agent: these are three.
    assert [asked["agent"] for asked in result.requests] == ["outer", "outer/middle", "outer/middle/inner"]


def test_an_agent_as_a_tool_needs_a_name_and_takes_one_argument() -> None:
    with pytest.raises(ValueError, match=r"as_tool\(name=\.\.\.\)"):
        ReActAgent().as_tool()
    made = ReActAgent().as_tool("helper", "Helps.")
    assert made.definition["function"]["description"] == "Helps."
    assert made.definition["function"]["parameters"]["properties"] == {"input": {"type": "string"}}
    with pytest.raises(TypeError, match=r"agent\.as_tool\(\)"):
        ReActAgent(tools=[ReActAgent()])  # type: ignore[list-item]
