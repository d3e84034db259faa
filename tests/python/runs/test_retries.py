"""A model that is away, over the real `openai` package: tried again, suspended, taken up again; nothing runs twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ModelUnavailable, ReActAgent, RunResult, RunState, StepError, Tool, TransientError, tool
from hitl.agents.react import MaxStepsExceeded
from hitl.models import ModelReply, ModelRequest, OpenAIChatClient
from hitl.testing import ScriptedChatClient
from tests.python.support.chat_completions import API_KEY, ChatCompletionsServer, Failure, Reply

OVERLOADED = Failure(529, "Overloaded", {"retry-after-ms": "1"})


@pytest.fixture
def server() -> Iterator[ChatCompletionsServer]:
    with ChatCompletionsServer().serving() as serving:
        yield serving


Connect = Callable[..., OpenAIChatClient]


@pytest.fixture
async def connect(server: ChatCompletionsServer) -> AsyncIterator[Connect]:
    """Make a chat client of the server; its connections end with the test."""
    made: list[OpenAIChatClient] = []

    def make(key: str = API_KEY, url: str = server.url, **options: Any) -> OpenAIChatClient:
        made.append(OpenAIChatClient(key, url, **options))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


class Ledger:
    """A gated tool, and what it did."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(requires_approval=True)
        async def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"paid {cents}"

        self.tool: Tool[..., Any] = pay


def paying(connect: Connect, ledger: Ledger, **options: Any) -> ReActAgent:
    return ReActAgent(client=connect(), model_name="test-model", tools=[ledger.tool], **options)


async def approved(agent: ReActAgent) -> RunResult:
    paused = await hitl.run(agent, "pay it")
    assert paused.state is not None
    return await hitl.run(agent, paused.state.approve(paused.interrupts[0]))


async def test_after_an_approved_tool_a_model_that_is_away_loses_nothing(
    server: ChatCompletionsServer, connect: Connect
) -> None:
    ledger = Ledger()
    agent = paying(connect, ledger, retries=1)
    server.replies = [Reply(calls=[("c1", "pay", '{"cents": 5}')]), OVERLOADED, OVERLOADED]
    away = await approved(agent)
    assert (away.status, away.error_code, ledger.paid) == ("error", "model_unavailable", [5])
    assert away.error is not None
    assert away.error.startswith("ModelUnavailable: model 'test-model' was tried 2 times, last: InternalServerError")
    assert isinstance(away.exception, ModelUnavailable)
    assert away.messages == []  # as before the turn
    assert away.state is not None
    text = away.state.to_string()

    server.replies = [OVERLOADED, OVERLOADED]
    again = await hitl.run(agent, RunState.from_string(agent, text))
    assert (again.error_code, len(server.received)) == ("model_unavailable", 5)

    server.replies = [Reply("all paid")]
    assert again.state is not None
    done = await hitl.run(agent, again.state)
    assert (done.status, done.output, ledger.paid) == ("idle", "all paid", [5])
    assert [message.content for message in done.messages] == ["pay it", None, "paid 5", "all paid"]


async def test_what_passes_in_time_is_not_seen(server: ChatCompletionsServer, connect: Connect) -> None:
    ledger = Ledger()
    server.replies = [
        Failure(429, "slow down", {"retry-after": "0"}),
        Reply(calls=[("c1", "pay", '{"cents": 5}')]),
        OVERLOADED,
        Failure(409, "conflict", {"retry-after-ms": "1"}),
        Reply("all paid"),
    ]
    done = await approved(paying(connect, ledger))
    assert (done.output, ledger.paid, len(server.received)) == ("all paid", [5], 5)


async def test_a_server_that_is_gone_is_away_too(connect: Connect) -> None:
    client = connect(url="http://127.0.0.1:9/v1", retries=0)
    result = await hitl.run(ReActAgent(client=client, model_name="m"), "hi")
    assert (result.status, result.error_code) == ("error", "model_unavailable")
    assert "APIConnectionError" in (result.error or "")


async def test_with_raise_the_agent_is_told_and_may_fall_back(server: ChatCompletionsServer, connect: Connect) -> None:
    server.replies = [OVERLOADED]
    first = ReActAgent(client=connect(retries=0, transient="raise"), model_name="test-model")
    second = ReActAgent(client=ScriptedChatClient([{"content": "from the other one"}]))

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        try:
            return await first.run_turn(message, state)
        except StepError:
            return await second.run_turn(message, state)

    assert (await hitl.run(agent, "hi")).output == "from the other one"


async def test_a_wrong_request_is_not_tried_again(server: ChatCompletionsServer, connect: Connect) -> None:
    client = connect("sk-wrong")
    result = await hitl.run(ReActAgent(client=client, model_name="m"), "hi")
    assert (result.error_code, result.state, len(server.received)) == ("step_error", None, 1)


async def test_the_package_s_word_for_retries_is_taken_and_its_own_retries_are_off(
    server: ChatCompletionsServer, connect: Connect
) -> None:
    server.replies = [OVERLOADED] * 2
    client = connect(max_retries=1)
    result = await hitl.run(ReActAgent(client=client, model_name="m"), "hi")
    assert (result.error_code, len(server.received)) == ("model_unavailable", 2)


async def test_in_a_store_a_message_instead_of_a_retry_gives_the_turn_up(
    server: ChatCompletionsServer, connect: Connect, tmp_path: Path
) -> None:
    server.replies = [OVERLOADED, Reply("hello")]
    agent = ReActAgent(client=connect(retries=0), model_name="m")
    away = await hitl.run(agent, "hi", store=tmp_path / "runs.db", session="s")
    assert away.error_code == "model_unavailable"
    done = await hitl.run(agent, "hi again", store=tmp_path / "runs.db", session="s")
    assert done.output == "hello"
    assert away.state is not None
    with pytest.raises(hitl.AlreadyResumed):
        await hitl.run(agent, away.state, store=tmp_path / "runs.db")


class Flaky:
    """A chat client that says nothing of retries."""

    default_model = "flaky"

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return ModelReply(ChatMessage.assistant_message(content="ok"))


async def test_a_client_of_one_s_own_says_what_passes() -> None:
    client = Flaky(TransientError("busy", 0.001))
    assert (await hitl.run(ReActAgent(client=client), "hi")).output == "ok"
    assert (await hitl.run(ReActAgent(client=Flaky(ConnectionError("no"))), "hi")).error_code == "agent_error"

    class Judged(Flaky):
        def is_transient(self, error: Exception) -> bool | float:
            return 0.001 if isinstance(error, ConnectionError) else False

    judged = Judged(ConnectionError("no"))
    assert (await hitl.run(ReActAgent(client=judged), "hi")).output == "ok"
    assert judged.calls == 2


def counting(limit: int, most: int) -> ReActAgent:
    """An agent whose model calls a tool ``most`` times, and may be asked ``limit`` times."""

    @tool
    async def count() -> int:
        """Count."""
        return 1

    replies: list[dict[str, Any]] = [{"tool_calls": [{"name": "count"}]}] * most
    return ReActAgent(client=ScriptedChatClient([*replies, {"content": "done"}]), tools=[count], max_steps=limit)


async def test_each_retry_after_the_limit_of_steps_grants_as_many_again() -> None:
    agent = counting(2, 5)
    result = await hitl.run(agent, "count")
    for asked in (2, 4):
        assert (result.status, result.error_code) == ("error", "max_steps_exceeded")
        assert f"asked its model {asked} times" in (result.error or "")
        assert result.state is not None
        result = await hitl.run(agent, RunState.from_string(agent, result.state.to_string()))
    assert (result.status, result.output) == ("idle", "done")
    assert len(result.messages) == 12


async def test_a_limit_that_the_agent_caught_stays_caught_in_a_retry() -> None:
    short, flaky = counting(1, 3), Flaky(*[TransientError("busy", 0.001)] * 3)
    last = ReActAgent(client=flaky)

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        try:
            return await short.run_turn(message, state)
        except MaxStepsExceeded:
            return await last.run_turn(message, state)

    away = await hitl.run(agent, "count")
    assert (away.error_code, flaky.calls) == ("model_unavailable", 3)
    assert away.state is not None
    assert (await hitl.run(agent, away.state)).output == "ok"
