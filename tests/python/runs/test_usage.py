"""`RunResult.usage`: what all models of a turn cost, whoever asked them, over every pause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ReActAgent, RunResult, RunState
from hitl.journal.account import usage_of
from hitl.models import ModelRequest, OpenAIChatClient
from hitl.testing import ScriptedChatClient
from tests.python.runs.support import Files
from tests.python.support.chat_completions import API_KEY, ChatCompletionsServer, Reply

INNER = {"input_tokens": 5, "cost": 0.5}
OUTER = {"input_tokens": 100}


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args}], "usage": OUTER}


def clerk() -> ReActAgent:
    """An agent that asks its model once."""
    return ReActAgent(client=ScriptedChatClient([{"content": "looked", "usage": INNER}]), name="clerk")


async def resumed(agent: Any, paused: RunResult) -> RunResult:
    """The run gone on with from its text, as another process would."""
    assert paused.state is not None
    state = RunState.from_string(agent, paused.state.to_string())
    for asked in paused.interrupts:
        state.answer(asked, {"type": "approve"})
    return await hitl.run(agent, state)


async def test_an_agent_that_was_a_tool_counts_after_a_pause_as_before_it() -> None:
    files = Files()
    script = [call("clerk", input="look"), call("delete_file", path="/a"), {"content": "done", "usage": OUTER}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[clerk().as_tool(), files.tool])
    paused = await hitl.run(agent, "go")
    assert paused.usage == {"requests": 3, "input_tokens": 205, "cost": 0.5}
    done = await resumed(agent, paused)
    assert (done.status, files.deleted) == ("idle", ["/a"])
    assert done.usage == {"requests": 4, "input_tokens": 305, "cost": 0.5}


async def test_an_agent_that_ran_in_a_step_counts_too() -> None:
    inner = clerk()

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        reply, _ = await hitl.step(inner.run_turn, message, [])
        await hitl.interrupt({"type": "sure"})
        return reply, state

    paused = await hitl.run(agent, "go")
    done = await resumed(agent, paused)
    assert done.output == "looked"
    assert paused.usage == done.usage == {"requests": 1, **INNER}


async def test_a_run_that_was_given_no_decision_cost_what_it_had_cost() -> None:
    agent = Files().agent("/a")
    paused = await hitl.run(agent, "go")
    again = await hitl.run(agent, RunState.from_string(agent, paused.state.to_string() if paused.state else ""))
    assert again.usage == paused.usage == {"requests": 1}


async def test_a_model_that_failed_is_no_request_that_was_answered() -> None:
    class Down:
        async def complete(self, request: ModelRequest) -> Any:
            raise ConnectionError("down")

    failed = await hitl.run(ReActAgent(client=Down(), model_name="m"), "go")
    assert (failed.status, failed.usage) == ("error", {})


@pytest.fixture
def server() -> Iterator[ChatCompletionsServer]:
    with ChatCompletionsServer().serving() as serving:
        yield serving


async def test_what_an_agent_of_your_own_asks_a_client_counts(server: ChatCompletionsServer) -> None:
    server.replies += [Reply("one"), Reply("two")]
    client = OpenAIChatClient(api_key=API_KEY, base_url=server.url)

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        await client.complete(ModelRequest(model="m", messages=[message]))
        await hitl.interrupt({"type": "sure"})
        reply = await client.complete(ModelRequest(model="m", messages=[message]))
        return reply.message, state

    paused = await hitl.run(agent, "go")
    assert (paused.usage["requests"], paused.usage["input_tokens"]) == (1, 11)
    done = await resumed(agent, paused)
    await client.aclose()
    assert done.output == "two"
    assert (done.usage["requests"], done.usage["input_tokens"]) == (2, 22)


@pytest.mark.parametrize("value", ["text", None, {"usage": 3}, {"usage": {"cost": "much", "input_tokens": True}}])
def test_a_journal_that_says_no_numbers_counts_the_request_alone(value: Any) -> None:
    step = {"kind": "model", "name": "m"}
    assert usage_of([{"entry": "step", "step": step, "result": {"value": value}}]) == {"requests": 1}
