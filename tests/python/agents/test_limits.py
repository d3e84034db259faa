"""Where a turn stops: replies that are none, tokens, and how many tools run at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import hitl
from hitl import Attachment, ChatMessage, MaxStepsExceeded, ReActAgent, ReplyCutShort, TokenLimitExceeded, tool
from hitl.agents.limits import estimated_tokens
from hitl.models import ModelReply, ModelRequest
from hitl.testing import ScriptedChatClient
from tests.python.support.local import LocalTurn, run_locally

GO = ChatMessage.user_message(content="go")


class Replies:
    """A client that says one reply after another, whatever the conversation holds."""

    default_model = "m"

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return self.replies.pop(0)


def said(content: str, finish: str | None = "stop", **usage: float) -> ModelReply:
    return ModelReply(ChatMessage.assistant_message(content=content), usage, finish)


def calling(*names: str, finish: str = "tool_calls", **usage: float) -> ModelReply:
    calls: list[Any] = [
        {"id": f"{name}_{index}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for index, name in enumerate(names)
    ]
    return ModelReply(ChatMessage.assistant_message(tool_calls=calls), usage, finish)


# -- replies that are none ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "words"),
    [("length", "the reply to clerk was cut off at its greatest length"), ("content_filter", "was held back by")],
)
async def test_a_reply_that_was_cut_off_is_no_answer(finish: str, words: str) -> None:
    result = await hitl.run(ReActAgent(Replies(said("Once upon", finish)), name="clerk"), "go")
    assert (result.status, result.error_code, result.response) == ("error", "reply_cut_short", None)
    assert words in (result.error or "")
    assert isinstance(result.exception, ReplyCutShort)
    assert (result.exception.finish_reason, result.finish_reason) == (finish, finish)


async def test_no_tool_of_a_reply_that_was_cut_off_runs() -> None:
    ran: list[str] = []

    @tool
    async def drop() -> None:
        ran.append("drop")

    with pytest.raises(ReplyCutShort):
        await run_locally(ReActAgent(Replies(calling("drop", finish="length")), tools=[drop]), "go")
    assert ran == []


async def test_a_model_that_paused_is_shown_what_it_said_and_goes_on() -> None:
    client = Replies(said("I'll search for that.", "pause_turn"), said("It rained."))
    response, state = await LocalTurn().run(ReActAgent(client).run_turn, GO, [])
    assert [message.content for message in client.requests[-1].messages] == ["go", "I'll search for that."]
    assert (response.content, [message.role for message in state]) == ("It rained.", ["user", "assistant", "assistant"])


async def test_each_pause_is_one_of_the_steps_that_an_agent_may_take() -> None:
    with pytest.raises(MaxStepsExceeded):
        await run_locally(ReActAgent(Replies(*[said("hm", "pause_turn")] * 3), max_steps=3), "go")


async def test_a_turn_that_is_retried_asks_the_model_again() -> None:
    client = Replies(said("Once upon", "length"), said("Once upon a time."))
    agent = ReActAgent(client)
    first = LocalTurn()
    with pytest.raises(ReplyCutShort) as suspended:
        await first.run(agent.run_turn, GO, [])
    second = LocalTurn(journal=retried(first, suspended.value))
    response, state = await second.run(agent.run_turn, GO, [])
    assert response.content == "Once upon a time."
    assert [message.role for message in state] == ["user", "assistant"]
    assert client.requests[0].messages == client.requests[1].messages


async def test_a_cut_reply_that_an_earlier_release_took_for_an_answer_still_is_one() -> None:
    agent = ReActAgent(Replies(said("Once upon", "length")))
    first = LocalTurn()
    with pytest.raises(ReplyCutShort):
        await first.run(agent.run_turn, GO, [])
    journal = [entry for entry in first.port.journal if entry.get("step", {}).get("kind") != "limit"]
    (model,) = [entry for entry in journal if entry["entry"] == "step"]
    assert model["result"]["value"].pop("cut") is True
    response, _ = await LocalTurn(journal=journal).run(agent.run_turn, GO, [])
    assert response.content == "Once upon"


async def test_the_result_says_why_the_last_reply_ended() -> None:
    inner = ReActAgent(Replies(said("hello", "inner_reason")), name="inner")
    outer = Replies(calling("inner"), said("done", "end_of_turn"))
    calls: list[Any] = outer.replies[0].message.tool_calls
    calls[0]["function"]["arguments"] = '{"input": "go"}'
    assert (await hitl.run(ReActAgent(outer, tools=[inner.as_tool()]), "go")).finish_reason == "end_of_turn"


# -- tokens -------------------------------------------------------------------------------------------------------


@tool
async def look() -> str:
    """Look."""
    return "nothing"


async def test_no_model_is_asked_beyond_the_limit_of_tokens() -> None:
    client = Replies(*[calling("look", total_tokens=60) for _ in range(5)])
    agent = ReActAgent(client, tools=[look], token_limit=100, name="clerk")
    result = await hitl.run(agent, "go")
    assert (result.status, result.error_code) == ("error", "token_limit_exceeded")
    assert isinstance(result.exception, TokenLimitExceeded)
    assert "clerk took 120 tokens without coming to an answer; its limit is 100" in (result.error or "")
    assert len(client.requests) == 2


async def test_an_answer_beyond_the_limit_is_one() -> None:
    agent = ReActAgent(Replies(said("done", input_tokens=80, output_tokens=80)), token_limit=100)
    assert (await hitl.run(agent, "go")).output == "done"


async def test_a_retry_grants_as_many_again() -> None:
    client = Replies(*[calling("look", total_tokens=60) for _ in range(3)], said("done"))
    agent = ReActAgent(client, tools=[look], token_limit=100)
    first = LocalTurn()
    with pytest.raises(TokenLimitExceeded) as suspended:
        await first.run(agent.run_turn, GO, [])
    response, _ = await LocalTurn(journal=retried(first, suspended.value)).run(agent.run_turn, GO, [])
    assert response.content == "done"


async def test_what_a_provider_does_not_count_is_estimated() -> None:
    client = Replies(calling("look"), said("done"))
    agent = ReActAgent(client, tools=[look], token_limit=100)
    with pytest.raises(TokenLimitExceeded):
        await run_locally(agent, "word " * 100)
    assert estimated_tokens([ChatMessage.user_message(content="a" * 40)]) == 14


PNG = Attachment.of_bytes(b"\x89PNG" * 1_000, "image/png", name="a.png")


@pytest.mark.parametrize(
    ("attachment", "tokens"),
    [
        (Attachment.of_bytes("é".encode() * 40_000, "text/plain", name="n.txt"), 10_005),
        (PNG, 1_500),
        (Attachment("image/png", url="https://example.com/a.png"), 1_500),
        (Attachment.of_bytes(b"%PDF", "application/pdf"), 1_500),
        (Attachment.of_bytes(b"%PDF" * 250_000, "application/pdf"), 20_000),
        (Attachment("application/pdf", url="https://example.com/a.pdf"), 1_500),
        (Attachment.of_bytes(b"PK" * 500_000, "application/zip"), 12),
    ],
)
def test_what_is_attached_counts_as_what_a_model_is_shown(attachment: Attachment, tokens: int) -> None:
    for make in (ChatMessage.user_message, ChatMessage.tool_message):
        assert estimated_tokens([make(content="a" * 40, attachments=[attachment])]) == 14 + tokens


def test_an_older_image_counts_and_what_is_told_by_name_counts_as_its_name() -> None:
    assert estimated_tokens([ChatMessage.user_message(base64_image=PNG.data)]) == 1_504
    assert estimated_tokens([ChatMessage.user_message(base64_image="no-base64")]) < 30
    assert estimated_tokens([ChatMessage.assistant_message(attachments=[PNG])]) < 30


# -- going on ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "replies", "options"),
    [
        ("reply_cut_short", [said("Once upon", "length")], {}),
        ("token_limit_exceeded", [calling("look", total_tokens=90)], {"token_limit": 80, "tools": [look]}),
        ("max_steps_exceeded", [calling("look")], {"max_steps": 1, "tools": [look]}),
        ("invalid_output", [said("many")], {"output_type": int, "output_retries": 0}),
    ],
)
async def test_a_run_that_came_to_a_limit_goes_on_from_its_state(
    code: str, replies: list[ModelReply], options: dict[str, Any]
) -> None:
    agent = ReActAgent(Replies(*replies, said('{"result": 3}')), **options)
    stopped = await hitl.run(agent, "go")
    assert (stopped.status, stopped.error_code) == ("error", code)
    assert stopped.state is not None
    result = await hitl.run(agent, stopped.state)
    assert result.status == "idle", result.error
    assert result.output == (3 if code == "invalid_output" else '{"result": 3}')


@pytest.mark.parametrize(
    ("reply", "options", "asked"),
    [
        (calling("look", total_tokens=60), {"token_limit": 100, "tools": [look]}, [2, 2, 2]),
        (calling("look"), {"max_steps": 2, "tools": [look]}, [2, 2, 2]),
        (said("many"), {"output_type": int, "output_retries": 2}, [3, 2, 2]),
    ],
)
async def test_each_retry_grants_as_much_again_and_no_more(
    reply: ModelReply, options: dict[str, Any], asked: list[int]
) -> None:
    client = Replies(*[reply] * 9)
    agent = ReActAgent(client, **options)
    given: Any = "go"
    for requests in asked:
        client.requests.clear()
        given = (await hitl.run(agent, given)).state
        assert len(client.requests) == requests


# -- tools at once ------------------------------------------------------------------------------------------------


async def test_no_more_tools_run_at_once_than_may_and_people_are_asked_about_all() -> None:
    running, most = 0, 0
    together = asyncio.Barrier(2)

    @tool(requires_approval=lambda ctx, args: True)
    async def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await together.wait()
        running -= 1
        return "worked"

    agent = ReActAgent(Replies(calling(*["work"] * 6), said("done")), tools=[work], max_parallel_tools=2)
    waits = await hitl.run(agent, "go")
    assert waits.state is not None
    assert len(waits.interrupts) == 6
    for asked in waits.interrupts:
        waits.state.approve(asked)
    done = await hitl.run(agent, waits.state)
    assert (done.output, most) == ("done", 2)
    assert [message.content for message in done.messages if message.role == "tool"] == ["worked"] * 6


async def test_a_tool_that_asks_while_it_runs_keeps_its_place() -> None:
    @tool
    async def ask() -> str:
        return str(await hitl.interrupt({"type": "question"}))

    agent = ReActAgent(Replies(calling("ask", "ask"), said("done")), tools=[ask], max_parallel_tools=1)
    result = await hitl.run(agent, "go")
    for answer in ("first", "second"):
        assert result.state is not None
        [asked] = result.interrupts
        result = await hitl.run(agent, result.state.answer(asked, answer))
    assert [message.content for message in result.messages if message.role == "tool"] == ["first", "second"]


async def test_the_places_are_the_same_in_a_replay() -> None:
    order: list[int] = []

    @tool
    async def work(number: int) -> int:
        order.append(number)
        await asyncio.sleep(0)
        return number

    script = [{"tool_calls": [{"name": "work", "args": {"number": n}} for n in range(4)]}, {"content": "done"}]
    agent = ReActAgent(ScriptedChatClient(script), tools=[work], max_parallel_tools=1)
    first = LocalTurn()
    await first.run(agent.run_turn, GO, [])
    assert order == [0, 1, 2, 3]
    for cut in range(1, len(first.port.journal)):
        response, _ = await LocalTurn(journal=first.port.journal[:cut]).run(agent.run_turn, GO, [])
        assert response.content == "done"


@pytest.mark.parametrize("option", ["max_steps", "token_limit", "max_parallel_tools"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5"])
def test_a_limit_is_a_whole_number(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"ReActAgent: {option} must be a whole number of 1 or more, got {value!r}"):
        ReActAgent(**{option: value})


def retried(turn: LocalTurn, error: Exception) -> list[dict[str, Any]]:
    """The journal of a turn that was suspended because of `error`, once somebody has retried it."""
    at, limit = turn.port.journal[-1]["at"], turn.turn.limits.reason(error)
    assert limit is not None
    reached = {"at": at, "entry": "step", "step": limit, "result": {"value": None}}
    return [*turn.port.journal, reached, {"at": at, "entry": "taken", "code": "code-1", "python": "3.11"}]
