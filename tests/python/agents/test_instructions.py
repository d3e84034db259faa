"""`system_prompt` as a function of the run."""

from __future__ import annotations

from typing import Any

import pytest

import hitl
from hitl import ReActAgent, RunContext, tool
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally


@tool(requires_approval=True)
async def pay(cents: int) -> str:
    return f"paid {cents}"


def prompts(client: ScriptedChatClient) -> list[str]:
    return [request["messages"][0]["content"] for request in client.requests]


PAY = {"tool_calls": [{"name": "pay", "args": {"cents": 5}}]}


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_prompt_may_be_a_function_of_the_context_which_is_called_once_in_a_turn(is_async: bool) -> None:
    seen: list[RunContext[Any]] = []

    def plain(ctx: RunContext[dict[str, str]]) -> str:
        seen.append(ctx)
        return f"You talk to {ctx.context['user']} ({len(seen)})."

    async def later(ctx: RunContext[dict[str, str]]) -> str:
        return plain(ctx)

    client = ScriptedChatClient([PAY, {"content": "done"}])
    agent = ReActAgent(client, system_prompt=later if is_async else plain, tools=[pay], name="clerk")
    waits = await hitl.run(agent, "go", context={"user": "Ada"})
    assert waits.state is not None
    # In another process: the answer of the first one stands.
    state = hitl.RunState.from_string(agent, waits.state.to_string())
    done = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert done.output == "done"
    assert prompts(client) == ["You talk to Ada (1)."] * 2
    assert [(ctx.agent, ctx.session_id, ctx.tool_call_id) for ctx in seen] == [("clerk", done.session_id, None)]


async def test_an_agent_that_is_handed_the_conversation_writes_its_own() -> None:
    def named(ctx: RunContext[Any]) -> str:
        return f"You are {ctx.agent}."

    client = ScriptedChatClient([{"tool_calls": [{"name": "transfer_to_clerk", "args": {}}]}, {"content": "hello"}])
    clerk = ReActAgent(client, system_prompt=named, name="clerk")
    await run_locally(ReActAgent(client, system_prompt=named, name="triage", handoffs=[clerk]), "go")
    assert prompts(client) == ["You are triage.", "You are clerk."]


async def test_a_function_that_fails_or_returns_no_text_fails_the_turn() -> None:
    client = ScriptedChatClient([{"content": "hello"}])
    wrong: Any = lambda ctx: None  # noqa: E731
    with pytest.raises(TypeError, match="system_prompt of clerk must return a str, got NoneType"):
        await run_locally(ReActAgent(client, system_prompt=wrong, name="clerk"), "go")

    def raises(ctx: RunContext[Any]) -> str:
        raise LookupError("no such user")

    with pytest.raises(LookupError, match="no such user"):
        await run_locally(ReActAgent(client, system_prompt=raises), "go")
    with pytest.raises(TypeError, match="system_prompt must be a str or None, got int"):
        ReActAgent(client, system_prompt=5)  # type: ignore[arg-type]
    assert client.requests == []
