"""The real `openai` package against a local server that speaks its wire format."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest

from hitl.messages import ChatMessage
from hitl.models import (
    Delta,
    InvalidSettings,
    ModelReply,
    ModelSettings,
    OpenAIChatClient,
    OpenRouterChatClient,
    ResponseFormat,
)
from hitl.models.chat_completions import _is_openai
from hitl.models.provider import ModelNotConfigured
from hitl.models.replies import IncompleteReply
from hitl.models.wire import settings_to_wire
from tests.python.models.asking import ask_in_a_child, check_hello, prepare_without_a_thread, request
from tests.python.support.chat_completions import API_KEY, ChatCompletionsServer, Chunks, Failure, Reply
from tests.python.support.local import LocalTurn

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture
def server() -> Iterator[ChatCompletionsServer]:
    with ChatCompletionsServer().serving() as serving:
        yield serving


@pytest.fixture
async def client(server: ChatCompletionsServer) -> AsyncIterator[OpenAIChatClient]:
    made = OpenAIChatClient(api_key=API_KEY, base_url=server.url)
    yield made
    await made.aclose()


@pytest.mark.parametrize("streamed", [True, False])
async def test_text_and_usage_arrive_streamed_or_not(
    server: ChatCompletionsServer, client: OpenAIChatClient, streamed: bool
) -> None:
    server.replies = [Reply("Hello, wörld")]
    deltas: list[Delta] = []
    reply = await client.complete(request(deltas=deltas if streamed else None))
    check_hello(reply, deltas, streamed=streamed)
    assert server.received[0].body.get("stream", False) is streamed


@pytest.mark.parametrize("streamed", [True, False])
async def test_parallel_tool_calls_are_put_together_by_index(
    server: ChatCompletionsServer, client: OpenAIChatClient, streamed: bool
) -> None:
    server.replies = [
        Reply(calls=[("call_a", "weather", '{"city": "Oakland"}'), ("call_b", "delete_file", '{"path": "/tmp/x"}')])
    ]
    reply = await client.complete(request(deltas=[] if streamed else None, tools=[WEATHER]))
    assert reply.message.content is None
    assert reply.message.tool_calls == [
        {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oakland"}'}},
        {"id": "call_b", "type": "function", "function": {"name": "delete_file", "arguments": '{"path": "/tmp/x"}'}},
    ]
    assert reply.finish_reason == "tool_calls"
    assert server.received[0].body["tools"] == [WEATHER]


async def test_a_whole_conversation_is_sent_as_the_api_takes_it(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    server.replies = [Reply("ok")]
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    await client.complete(
        request(
            ChatMessage.system_message(content="Be brief."),
            ChatMessage.user_message(content="look", base64_image="iVBORw0KGgo=", user_params={"secret": 1}),
            ChatMessage.assistant_message(tool_calls=[call], reasoning="hm"),
            ChatMessage.tool_message(content="sunny", tool_call_id="c1", name="weather"),
        )
    )
    assert server.received[0].body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    ]


async def test_outside_of_turns_a_rate_limit_is_tried_again(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    server.replies = [Failure(429, "Rate limit reached", {"retry-after-ms": "1"}), Reply("ok")]
    reply = await client.complete(request(deltas=[]))
    assert reply.message.content == "ok"
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("status", "headers", "verdict"),
    [
        (429, {"retry-after": "7"}, 7.0),
        (503, {"retry-after-ms": "20", "retry-after": "7"}, 0.02),
        (529, {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        (503, {"retry-after": "soon"}, True),
        (429, {"x-should-retry": "false"}, False),
        (418, {"x-should-retry": "true"}, True),
        (400, {}, False),
    ],
)
async def test_the_client_says_what_may_pass_and_when(
    server: ChatCompletionsServer, status: int, headers: dict[str, str], verdict: bool | float
) -> None:
    client = OpenAIChatClient(API_KEY, server.url, retries=0)
    server.replies = [Failure(status, "no", headers)]
    with pytest.raises(openai.APIStatusError) as raised:
        await client.complete(request())
    assert client.is_transient(raised.value) == verdict
    await client.aclose()


async def test_client_options_reach_the_package(server: ChatCompletionsServer) -> None:
    client = OpenAIChatClient(API_KEY, server.url, max_retries=0, default_headers={"x-team": "a"})
    server.replies = [Failure(429, "Rate limit reached")]
    with pytest.raises(openai.RateLimitError, match="Rate limit reached"):
        await client.complete(request())
    assert server.received[0].headers["x-team"] == "a"
    await client.aclose()


async def test_a_wrong_key_is_the_package_s_own_error(server: ChatCompletionsServer) -> None:
    client = OpenAIChatClient("sk-wrong", server.url)
    with pytest.raises(openai.AuthenticationError, match="Incorrect API key"):
        await client.complete(request())
    assert "sk-wrong" not in repr(client)
    await client.aclose()


async def test_parameters_are_members_of_every_request(server: ChatCompletionsServer) -> None:
    client = OpenAIChatClient(API_KEY, server.url, parameters={"temperature": 0, "provider": {"sort": "price"}})
    server.replies = [Reply("ok")]
    await client.complete(request(deltas=[]))
    body = server.received[0].body
    assert (body["temperature"], body["provider"]) == (0, {"sort": "price"})
    await client.aclose()


async def test_stream_false_never_streams(server: ChatCompletionsServer) -> None:
    client = OpenAIChatClient(API_KEY, server.url, stream=False)
    server.replies = [Reply("ok")]
    await client.complete(request(deltas=[]))
    assert "stream" not in server.received[0].body
    await client.aclose()


async def test_a_stream_that_ends_early_is_no_reply_and_is_asked_for_again_unless_somebody_read_it(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    server.replies = [
        Reply(calls=[("call_a", "delete_file", "{}")], cut=True),
        Reply("never mind"),
        Reply("Hel", cut=True),
    ]
    assert (await client.complete(request(deltas=[]))).message.content == "never mind"
    deltas: list[Delta] = []
    with pytest.raises(IncompleteReply, match="ended before the reply was complete"):
        await client.complete(request(deltas=deltas))
    assert deltas == [{"content": "Hel"}]


async def test_a_reply_that_a_gateway_says_broke_off_is_none_and_is_asked_for_again_unless_somebody_read_it(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    broken = Reply("The answer is", finish_reason="error")
    server.replies = [broken, Reply("The answer is 42."), broken]
    assert (await client.complete(request())).message.content == "The answer is 42."
    with pytest.raises(IncompleteReply, match="broke off"):
        await client.complete(request(deltas=[]))


async def test_gateways_that_number_every_call_zero_are_understood(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    def part(**fields: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, **fields}]}

    server.replies = [
        Chunks(
            [
                part(id="a", function={"name": "weather", "arguments": '{"city":'}),
                part(id="a", function={"name": "weather", "arguments": ' "Oakland"}'}),
                part(id="b", function={"name": "weather", "arguments": "{}"}),
            ]
        )
    ]
    reply = await client.complete(request(deltas=[]))
    calls = reply.message.tool_calls or []
    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls] == [
        ("a", "weather", '{"city": "Oakland"}'),
        ("b", "weather", "{}"),
    ]


async def test_a_call_without_an_id_gets_one(server: ChatCompletionsServer, client: OpenAIChatClient) -> None:
    server.replies = [Chunks([{"tool_calls": [{"index": 0, "function": {"name": "weather", "arguments": "{}"}}]}])]
    reply = await client.complete(request(deltas=[]))
    assert reply.message.tool_calls
    assert reply.message.tool_calls[0]["id"].startswith("call_")


async def test_a_structured_reply_is_asked_for_strictly_where_its_schema_allows_it(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    closed = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    optional = {**closed, "required": []}
    pair = {**closed, "properties": {"city": {"type": "array", "prefixItems": [{"type": "string"}]}}}
    server.replies = [Reply("{}")] * 3
    for schema in (closed, optional, pair):
        await client.complete(request(response_format=ResponseFormat("Weather", schema)))
    assert [received.body["response_format"]["json_schema"] for received in server.received] == [
        {"name": "Weather", "strict": True, "schema": {**closed, "additionalProperties": False}},
        {"name": "Weather", "strict": False, "schema": optional},
        {"name": "Weather", "strict": False, "schema": pair},
    ]


async def test_the_settings_of_a_request_are_sent_over_those_of_the_client(server: ChatCompletionsServer) -> None:
    client = OpenAIChatClient(API_KEY, server.url, parameters={"temperature": 1, "max_completion_tokens": 9, "seed": 7})
    settings: ModelSettings = {
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 20,
        "stop": ["END"],
        "tool_choice": "weather",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "extra_body": {"top_p": 0.25, "service_tier": "flex"},
    }
    server.replies = [Reply("sunny")] * 2
    await client.complete(request(tools=[WEATHER], settings=settings))
    await client.complete(request(settings={"tool_choice": "auto", "parallel_tool_calls": True}))
    await client.aclose()
    sent = server.received[0].body
    assert {name: value for name, value in sent.items() if name not in ("model", "messages", "tools")} == {
        "seed": 7,
        "temperature": 0,
        "top_p": 0.25,
        "max_tokens": 20,
        "stop": ["END"],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "service_tier": "flex",
    }
    assert server.received[1].body.keys() == {"model", "messages", "seed", "temperature", "max_completion_tokens"}


async def test_a_tool_that_must_be_called_needs_to_be_there(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    for choice in ("required", "weather"):
        with pytest.raises(InvalidSettings, match=f"tool_choice is '{choice}', and the request has no tools"):
            await client.complete(request(settings={"tool_choice": choice}))
    assert server.received == []


def test_the_limit_of_a_reply_has_the_name_that_the_server_knows() -> None:
    assert [
        settings_to_wire({"max_tokens": 5}, has_tools=False, is_openai=_is_openai(host))
        for host in ("api.openai.com", "eu.api.openai.com", "mine.openai.azure.com", "openrouter.ai", "notopenai.com")
    ] == [{"max_completion_tokens": 5}] * 3 + [{"max_tokens": 5}] * 2


async def test_openrouter_reasoning_is_read_and_handed_back(
    server: ChatCompletionsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", API_KEY)
    client = OpenRouterChatClient(base_url=server.url)
    detail = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    server.replies = [
        Reply(
            "Sunny",
            extra_deltas=[
                {"reasoning": "The user ", "reasoning_details": [{**detail, "text": "The user "}]},
                {"reasoning": "asks.", "reasoning_details": [{**detail, "text": "asks.", "signature": "sig"}]},
            ],
        ),
        Reply("ok"),
    ]
    deltas: list[Delta] = []
    reply = await client.complete(request(deltas=deltas))
    assert reply.message.reasoning == "The user asks."
    assert reply.message.reasoning_details == [{**detail, "text": "The user asks.", "signature": "sig"}]
    assert deltas[:2] == [{"reasoning": "The user "}, {"reasoning": "asks."}]
    await client.complete(request(ChatMessage.user_message(content="hi"), reply.message))
    sent = server.received[1].body["messages"][1]
    assert sent["reasoning_details"] == reply.message.reasoning_details
    await client.aclose()


async def test_key_and_address_come_from_the_environment(
    server: ChatCompletionsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    client = OpenAIChatClient()
    server.replies = [Reply("ok")]
    assert (await client.complete(request())).message.content == "ok"
    await client.aclose()


@pytest.mark.parametrize(
    ("kind", "variable"), [(OpenAIChatClient, "OPENAI_API_KEY"), (OpenRouterChatClient, "OPENROUTER_API_KEY")]
)
async def test_a_missing_key_is_an_error_at_the_first_use_that_names_its_variable(
    kind: type[OpenAIChatClient], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each reads its own: an OpenAI key must not go to OpenRouter, or the other way round.
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "other-key")
    monkeypatch.delenv(variable)
    client = kind()
    client.prepare()
    with pytest.raises(ModelNotConfigured, match=f"(?s)has no API key.*hint: set {variable}"):
        await client.complete(request())


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelNotConfigured, match=r"hitl-runtime\[openai\]"):
        OpenAIChatClient()


def test_one_client_serves_several_event_loops(server: ChatCompletionsServer) -> None:
    client = OpenAIChatClient(API_KEY, server.url)
    client.prepare()
    server.replies = [Reply(str(number)) for number in range(3)]

    async def once() -> str | None:
        reply = await client.complete(request(deltas=[]))
        await client.aclose()
        return reply.message.content

    assert [asyncio.run(once()) for _ in range(3)] == ["0", "1", "2"]


def test_two_loops_that_begin_at_once_do_not_get_the_same_prepared_client() -> None:
    """Both threads look at the spare before either has taken it."""

    class Watched(OpenAIChatClient):
        both_look = threading.Barrier(1)

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name == "_spare":
                self.both_look.wait(100)
            return value

    client = Watched(API_KEY, "http://127.0.0.1:9/v1")
    client.prepare()
    client.both_look = threading.Barrier(2)
    taken: list[openai.AsyncOpenAI] = []

    async def take() -> None:
        taken.append(client._client())

    threads = [threading.Thread(target=asyncio.run, args=(take(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(taken) == 2
    assert taken[0] is not taken[1]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the local server's thread; 3.12 and later warn
def test_a_client_made_and_prepared_before_a_fork_works_in_the_children(server: ChatCompletionsServer) -> None:
    client = OpenAIChatClient(API_KEY, server.url)
    prepare_without_a_thread(client)
    server.replies = [Reply("first"), Reply("second")]
    answers = [ask_in_a_child(client) for _ in range(2)]
    assert [text for _, text in answers] == ["first", "second"]
    assert os.getpid() not in {pid for pid, _ in answers}


async def test_a_call_inside_a_turn_is_a_step_that_a_replay_does_not_repeat(
    server: ChatCompletionsServer, client: OpenAIChatClient
) -> None:
    server.replies = [Reply("once")]

    async def agent() -> ModelReply:
        return await client.complete(request())

    recorded = LocalTurn()
    reply = await recorded.run(agent)
    assert [(step["kind"], step["name"]) for step, _ in recorded.port.steps] == [("model", "test-model")]
    assert await LocalTurn(journal=recorded.port.journal).run(agent) == reply
    assert len(server.received) == 1
