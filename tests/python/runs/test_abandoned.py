"""After a turn that came to no answer: the model is told what it did, over the real `openai` package."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ReActAgent, RunResult, RunState, Store, tool
from hitl.models import OpenAIChatClient
from tests.python.support.chat_completions import API_KEY, ChatCompletionsServer, Failure, Reply

AWAY = Failure(529, "Overloaded")
PAY = Reply(calls=[("c1", "pay", '{"cents": 5}')])
PAID = [
    {"role": "user", "content": "pay it"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"cents": 5}'}}],
    },
    {"role": "tool", "content": "paid 5", "tool_call_id": "c1"},
]


@pytest.fixture
def server() -> Iterator[ChatCompletionsServer]:
    with ChatCompletionsServer().serving() as serving:
        yield serving


@pytest.fixture
async def client(server: ChatCompletionsServer) -> AsyncIterator[OpenAIChatClient]:
    made = OpenAIChatClient(API_KEY, server.url, retries=0)
    yield made
    await made.aclose()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store("memory") if request.param == "memory" else Store(tmp_path / "runs.db")


def paying(client: OpenAIChatClient, paid: list[int], **options: Any) -> ReActAgent:
    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return f"paid {cents}"

    return ReActAgent(client=client, model_name="test-model", tools=[pay], **options)


def said(server: ChatCompletionsServer) -> list[dict[str, Any]]:
    """What the model was sent last, without what is empty."""
    sent = server.received[-1].body["messages"]
    kept = ("role", "content", "tool_calls", "tool_call_id")
    return [{name: message[name] for name in kept if message.get(name) is not None} for message in sent]


async def paid_and_away(server: ChatCompletionsServer, agent: ReActAgent, store: Store, **decision: Any) -> RunResult:
    """A run whose payment was decided over before its model was away."""
    server.replies = [PAY, AWAY]
    paused = await hitl.run(agent, "pay it", store=store, session="s")
    assert paused.state is not None
    asked = paused.interrupts[0]
    state = paused.state.answer(asked, decision or {"approved": True})
    away = await hitl.run(agent, state, store=store)
    assert away.error_code == "model_unavailable"
    return away


async def test_the_next_turn_s_model_is_told_and_the_conversation_has_it_from_then_on(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    paid: list[int] = []
    agent = paying(client, paid)
    await paid_and_away(server, agent, store)
    server.replies = [Reply("yes")]
    done = await hitl.run(agent, "did you?", store=store, session="s")
    assert (done.output, paid) == ("yes", [5])
    assert said(server) == [*PAID, {"role": "user", "content": "did you?"}]
    assert [message.content for message in done.messages] == ["pay it", None, "paid 5", "did you?", "yes"]
    server.replies = [Reply("as I said")]
    await hitl.run(agent, "sure?", store=store, session="s")
    more = [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "sure?"}]
    assert said(server) == [*PAID, {"role": "user", "content": "did you?"}, *more]


async def test_what_a_turn_did_that_failed_is_told_too(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    agent = paying(client, paid := [])
    server.replies = [PAY, Failure(400, "no")]
    paused = await hitl.run(agent, "pay it", store=store, session="s")
    assert paused.state is not None
    failed = await hitl.run(agent, paused.state.approve(paused.interrupts[0]), store=store)
    assert (failed.error_code, failed.state, failed.messages) == ("step_error", None, [])
    server.replies = [Reply("yes")]
    done = await hitl.run(agent, "did you?", store=store, session="s")
    assert said(server) == [*PAID, {"role": "user", "content": "did you?"}]
    assert [message.content for message in done.messages] == ["pay it", None, "paid 5", "did you?", "yes"]
    assert paid == [5]


async def test_what_was_rejected_is_told_as_rejected(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    agent = paying(client, [])
    await paid_and_away(server, agent, store, approved=False, reason="too much")
    server.replies = [Reply("no")]
    await hitl.run(agent, "did you?", store=store, session="s")
    assert said(server)[2]["content"] == '{"error": "User rejected pay: too much"}'


async def test_an_edit_is_told_with_the_result(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    agent = paying(client, [])
    await paid_and_away(server, agent, store, type="edit", args={"cents": 3})
    server.replies = [Reply("three")]
    await hitl.run(agent, "did you?", store=store, session="s")
    assert said(server)[2]["content"] == 'paid 3\n\n[The arguments of this call were changed to {"cents":3}]'


@pytest.mark.parametrize("end", ["suspended", "failed"])
async def test_a_turn_that_comes_to_no_end_hands_on_what_it_was_told(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store, end: str
) -> None:
    agent = paying(client, [])
    await paid_and_away(server, agent, store)
    server.replies = [AWAY if end == "suspended" else Failure(400, "no")]
    away = await hitl.run(agent, "did you?", store=store, session="s")
    assert away.status == "error"
    server.replies = [Reply("yes")]
    done = await hitl.run(agent, "well?", store=store, session="s")
    assert said(server) == [*PAID, {"role": "user", "content": "well?"}]
    assert [message.content for message in done.messages] == ["pay it", None, "paid 5", "well?", "yes"]


async def test_two_turns_that_were_given_up_are_both_told(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    agent = paying(client, [])
    await paid_and_away(server, agent, store)
    await paid_and_away(server, agent, store)
    server.replies = [Reply("twice")]
    await hitl.run(agent, "well?", store=store, session="s")
    assert said(server) == [*PAID, *PAID, {"role": "user", "content": "well?"}]


async def test_a_replay_of_the_new_turn_tells_the_same_where_nothing_is_known_of_the_old_one(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    agent = paying(client, paid := [])
    await paid_and_away(server, agent, store)
    server.replies = [Reply(calls=[("c2", "pay", '{"cents": 7}')])]
    paused = await hitl.run(agent, "and seven", store=store, session="s")
    told = said(server)
    assert paused.state is not None
    state = RunState.from_string(agent, paused.state.to_string())
    server.replies = [Reply("both")]
    done = await hitl.run(agent, state.approve(state.interrupts[0]), store="memory")
    assert (done.output, paid) == ("both", [5, 7])
    assert said(server)[:4] == told == [*PAID, {"role": "user", "content": "and seven"}]
    contents = [message.content for message in done.messages]
    assert contents == ["pay it", None, "paid 5", "and seven", None, "paid 7", "both"]


async def test_what_an_agent_that_is_a_tool_did_is_told_where_that_came_to_no_end(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    clerk = paying(client, [], name="clerk")
    boss = ReActAgent(client=client, model_name="test-model", tools=[clerk.as_tool()])
    server.replies = [Reply(calls=[("c1", "clerk", '{"input": "pay five"}')]), PAY, AWAY]
    paused = await hitl.run(boss, "pay it", store=store, session="s")
    assert paused.state is not None
    away = await hitl.run(boss, paused.state.approve(paused.interrupts[0]), store=store)
    assert away.error_code == "model_unavailable"
    server.replies = [Reply("five")]
    await hitl.run(boss, "did you?", store=store, session="s")
    asked, called, came, _ = said(server)
    assert (asked["content"], called["tool_calls"][0]["function"]["name"]) == ("pay it", "clerk")
    inside = '"inside": [{"name": "pay", "arguments": {"cents": 5}, "result": "paid 5"}]}'
    assert came["content"].startswith('{"error": "nothing is recorded')
    assert came["content"].endswith(inside)


async def test_guardrails_see_what_is_told(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    async def hide(message: ChatMessage) -> str | None:
        return (message.content or "").replace("it", "***")

    agent = paying(client, [], input_guardrails=[hide])
    await paid_and_away(server, agent, store)
    server.replies = [Reply("yes")]
    await hitl.run(agent, "did you?", store=store, session="s")
    assert said(server)[0]["content"] == "pay ***"


async def test_a_turn_that_did_nothing_is_not_told(
    server: ChatCompletionsServer, client: OpenAIChatClient, store: Store
) -> None:
    agent = paying(client, [])
    server.replies = [AWAY]
    assert (await hitl.run(agent, "hi", store=store, session="s")).error_code == "model_unavailable"
    server.replies = [Reply("hello")]
    await hitl.run(agent, "hi again", store=store, session="s")
    assert said(server) == [{"role": "user", "content": "hi again"}]
