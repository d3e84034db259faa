"""The real `anthropic` package against a local server that speaks Anthropic's messages."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from hitl.messages import ChatMessage
from hitl.models import AnthropicChatClient, Delta, InvalidSettings, ModelReply, ResponseFormat
from hitl.models.anthropic_messages import MOST_TOKENS
from hitl.models.anthropic_wire import MessageBuilder, conversation_to_wire
from hitl.models.provider import ModelNotConfigured
from hitl.models.replies import IncompleteReply
from tests.python.models.asking import ask_in_a_child, check_hello, prepare_without_a_thread, request
from tests.python.support.anthropic_api import (
    AnthropicServer,
    Reply,
    call,
    error_event,
    redacted,
    stream,
    text,
    thinking,
)
from tests.python.support.local import LocalTurn
from tests.python.support.model_server import API_KEY, Failure, Silence, Stream

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Tell.", "parameters": PARAMETERS}}

Connect = Callable[..., AnthropicChatClient]


@pytest.fixture
def server() -> Iterator[AnthropicServer]:
    with AnthropicServer().serving() as serving:
        yield serving


@pytest.fixture
async def connect(server: AnthropicServer) -> AsyncIterator[Connect]:
    """Make a chat client of the server; its connections end with the test."""
    made: list[AnthropicChatClient] = []

    def make(key: str = API_KEY, **options: Any) -> AnthropicChatClient:
        made.append(AnthropicChatClient(key, server.url, **options))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


@pytest.mark.parametrize("streamed", [True, False])
async def test_text_and_usage_arrive_streamed_or_not(server: AnthropicServer, connect: Connect, streamed: bool) -> None:
    server.replies = [Reply([text("Hello, wörld")])]
    deltas: list[Delta] = []
    reply = await connect(stream=streamed).complete(request(deltas=deltas))
    # What a cache has read or keeps is input too, as with the other providers.
    check_hello(reply, deltas, streamed=streamed)
    body = server.received[0].body
    assert (body["model"], body["max_tokens"], body.get("stream", False)) == ("test-model", MOST_TOKENS, streamed)


async def test_it_streams_also_where_nobody_reads(server: AnthropicServer, connect: Connect) -> None:
    server.replies = [Reply([text("ok")])]
    assert (await connect().complete(request())).message.content == "ok"
    assert server.received[0].body["stream"] is True


@pytest.mark.parametrize("streamed", [True, False])
async def test_parallel_tool_calls_are_put_together_from_their_pieces(
    server: AnthropicServer, connect: Connect, streamed: bool
) -> None:
    server.replies = [
        Reply([text("I ask."), call("a", "weather", {"city": "Oakland, the one in CA"}), call("b", "now", {})])
    ]
    reply = await connect(stream=streamed).complete(request(tools=[WEATHER], deltas=[]))
    calls = [(made["id"], made["function"]) for made in reply.message.tool_calls or []]
    assert calls == [
        ("a", {"name": "weather", "arguments": '{"city": "Oakland, the one in CA"}'}),
        ("b", {"name": "now", "arguments": "{}"}),
    ]
    assert (reply.message.content, reply.finish_reason, reply.message.reasoning_details) == (
        "I ask.",
        "tool_calls",
        None,
    )
    tool = {"name": "weather", "description": "Tell.", "input_schema": PARAMETERS}
    assert server.received[0].body["tools"] == [tool]


async def test_a_whole_conversation_is_sent_in_turns_of_user_and_assistant(
    server: AnthropicServer, connect: Connect
) -> None:
    server.replies = [Reply([text("ok")])]
    calls = [
        {"id": identity, "type": "function", "function": {"name": "weather", "arguments": arguments}}
        for identity, arguments in (("c1", '{"city": "Rome"}'), ("functions.weather:0", '{"city": '))
    ]
    await connect().complete(
        request(
            ChatMessage.system_message(content="Be brief."),
            ChatMessage.user_message(content="look", base64_image="iVBORw0KGgo=", user_params={"secret": 1}),
            ChatMessage.assistant_message(content="I ask.", tool_calls=calls, reasoning="hm"),
            ChatMessage.tool_message(content="sunny", tool_call_id="c1", name="weather"),
            ChatMessage.tool_message(content="no JSON", tool_call_id="functions.weather:0"),
            ChatMessage.assistant_message(content=""),
            ChatMessage.system_message(content="Be nice."),
            ChatMessage.user_message(content="and?"),
        )
    )
    body = server.received[0].body
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert body["system"] == "Be brief.\n\nBe nice."
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": image}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I ask."},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}},
                # Another provider's id is made one that is taken here, and what is no JSON is shown as such.
                {
                    "type": "tool_use",
                    "id": "functions_weather_0",
                    "name": "weather",
                    "input": {"INVALID_JSON": '{"city": '},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "functions_weather_0", "content": "no JSON"},
                {"type": "text", "text": "and?"},
            ],
        },
    ]


THOUGHTS = {
    "before everything": [thinking("Let me see."), redacted("opaque"), text("I look."), call("c1", "weather", {})],
    "between the calls": [
        thinking("First."),
        call("c1", "weather", {}),
        thinking("Then.", "sig-2"),
        text("And:"),
        call("c2", "weather", {"city": "Rome"}),
    ],
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("where", THOUGHTS)
async def test_what_a_model_thought_goes_back_signed_and_in_its_place_before_the_results(
    server: AnthropicServer, connect: Connect, where: str, streamed: bool
) -> None:
    client = connect(parameters={"thinking": {"type": "adaptive"}}, stream=streamed)
    server.replies = [Reply(THOUGHTS[where]), Reply([text("Sunny")])]
    deltas: list[Delta] = []
    reply = await client.complete(request(deltas=deltas, tools=[WEATHER]))
    if streamed:
        said = "".join(delta.get("reasoning", "") for delta in deltas)
        assert said.replace(" ", "") == (reply.message.reasoning or "").replace("\n\n", "").replace(" ", "")
    # As the journal and the session's state keep it, in another process.
    kept = ChatMessage.from_dict(dict(reply.message.to_dict()))
    results = [
        ChatMessage.tool_message(content="sunny", tool_call_id=made["id"]) for made in reply.message.tool_calls or []
    ]
    assert (await client.complete(request(ChatMessage.user_message(content="hi"), kept, *results))).message.content
    sent = server.received[1].body["messages"][1]["content"]
    assert sent == [block.model_dump(exclude_none=True) for block in THOUGHTS[where]]


async def test_thoughts_alone_and_those_of_another_provider_are_not_sent(
    server: AnthropicServer, connect: Connect
) -> None:
    server.replies = [Reply([thinking("Hm.")]), Reply([text("ok")])]
    client = connect()
    silent = await client.complete(request())
    assert (silent.message.content, silent.message.reasoning) == ("", "Hm.")
    others = [{"type": "openai.responses", "parts": [{"own": {"type": "reasoning", "id": "rs_1"}}]}, {"text": "hm"}]
    await client.complete(
        request(
            ChatMessage.user_message(content="hi"),
            silent.message,
            ChatMessage.user_message(content="well?"),
            ChatMessage.assistant_message(content="So.", reasoning_details=others),
            ChatMessage.user_message(content="go on"),
        )
    )
    assert [
        (message["role"], [block["text"] for block in message["content"]])
        for message in server.received[1].body["messages"]
    ] == [("user", ["hi", "well?"]), ("assistant", ["So."]), ("user", ["go on"])]


def test_what_a_tool_of_the_providers_had_begun_is_sent_back_alone() -> None:
    builder = MessageBuilder()
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "rain"}}
    builder.add_message({"content": [search], "stop_reason": "pause_turn", "usage": {}})
    assert conversation_to_wire([builder.finish().message])[1] == [{"role": "assistant", "content": [search]}]


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
async def test_why_a_reply_ended_is_said_in_our_words(
    server: AnthropicServer, connect: Connect, stop: str, finish: str
) -> None:
    server.replies = [Reply([text("so")], stop=stop)]
    assert (await connect().complete(request())).finish_reason == finish


@pytest.mark.parametrize(("given", "cut"), [({"path": "/tmp/old"}, 8), ({}, None)])
async def test_of_a_reply_that_was_cut_short_half_a_call_is_none(
    server: AnthropicServer, connect: Connect, given: dict[str, object], cut: int | None
) -> None:
    content = [call("a", "weather", {"city": "Rome"}), call("b", "delete_all", given)]
    server.replies = [Reply(content, stop="max_tokens", cut_input=cut)]
    reply = await connect().complete(request(deltas=[]))
    assert ([made["id"] for made in reply.message.tool_calls or []], reply.finish_reason) == (["a"], "length")


async def test_a_refusal_says_why_and_calls_nothing(server: AnthropicServer, connect: Connect) -> None:
    server.replies = [Reply([call("a", "delete_all", {})], refused="Against the usage policy.")]
    reply = await connect().complete(request(deltas=[]))
    assert reply.message == ChatMessage.assistant_message(content="Against the usage policy.")
    assert reply.finish_reason == "content_filter"


async def test_a_structured_reply_is_guaranteed_where_the_api_can_and_told_where_it_cannot(
    server: AnthropicServer, connect: Connect
) -> None:
    city = {"type": "string", "minLength": 1}
    closed = {"type": "object", "properties": {"city": city}, "required": ["city"]}
    opened = {"type": "object", "additionalProperties": {"type": "string"}}
    anything = {"type": "object", "properties": {"value": {}}}
    client = connect()
    for schema in (closed, {"type": "object", "properties": {"inner": opened}}, anything):
        server.replies = [Reply([text("{}")])]
        system = ChatMessage.system_message(content="Be brief.")
        await client.complete(
            request(system, ChatMessage.user_message(content="hi"), response_format=ResponseFormat("W", schema))
        )
    first, *others = [received.body for received in server.received]
    wire = first["output_config"]["format"]["schema"]
    assert (wire["additionalProperties"], wire["required"]) == (False, ["city"])
    assert first["system"] == "Be brief."
    for body in others:
        assert "output_config" not in body
        assert body["system"].startswith("Be brief.\n\nYour final reply is a JSON object and nothing else")


async def test_settings_and_parameters_are_members_of_the_body(server: AnthropicServer, connect: Connect) -> None:
    hosted = {"name": "searched", "input_schema": {"type": "object"}}
    client = connect(parameters={"temperature": 1, "max_tokens": 5, "tools": [hosted], "output_config": {"x": 1}})
    server.replies = [Reply([text("ok")])] * 5
    common: Any = {
        "temperature": 0,
        "top_p": 0.5,
        "stop": "END",
        "reasoning_effort": "high",
        "extra_body": {"speed": 1},
    }
    await client.complete(request(settings={**common, "max_tokens": 9, "reasoning_effort": "high"}))
    body = server.received[0].body
    names = ("temperature", "top_p", "max_tokens", "stop_sequences", "output_config", "speed")
    assert [body[name] for name in names] == [0, 0.5, 9, ["END"], {"x": 1, "effort": "high"}, 1]
    choices: list[tuple[Any, Any]] = [
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "weather", "parallel_tool_calls": False}, {"type": "tool", "name": "weather"}),
        ({"parallel_tool_calls": False}, {"type": "auto"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
    ]
    for settings, choice in choices:
        await client.complete(request(tools=[WEATHER], settings=settings))
        is_single = "parallel_tool_calls" in settings and choice["type"] != "none"
        wanted = {**choice, "disable_parallel_tool_use": True} if is_single else choice
        assert server.received[-1].body["tool_choice"] == wanted
    assert [tool["name"] for tool in server.received[-1].body["tools"]] == ["weather", "searched"]


async def test_how_long_a_model_may_think_is_said_in_the_api_s_words(server: AnthropicServer, connect: Connect) -> None:
    client = connect()
    server.replies = [Reply([text("ok")])] * 2
    await client.complete(request(settings={"reasoning_effort": "minimal"}))
    await client.complete(request(settings={"reasoning_effort": "none"}))
    first, second = (received.body for received in server.received)
    assert (first["output_config"], second["thinking"]) == ({"effort": "low"}, {"type": "disabled"})


async def test_a_tool_that_must_be_called_where_there_is_none_is_refused(connect: Connect) -> None:
    with pytest.raises(InvalidSettings, match="the request has no tools"):
        await connect().complete(request(settings={"tool_choice": "weather"}))


@pytest.mark.parametrize(
    ("failure", "verdict"),
    [
        (Failure(429, "slow down", {"retry-after": "7"}, "rate_limit_error"), 7.0),
        (Failure(529, "Overloaded", {}, "overloaded_error"), True),
        (Failure(500, "oops", {}, "api_error"), True),
        (Failure(529, "no", {"x-should-retry": "false"}), False),
        (Failure(400, "no", {}, "invalid_request_error"), False),
        (Failure(413, "no", {}, "request_too_large"), False),
    ],
)
async def test_the_client_says_what_may_pass_and_when(
    server: AnthropicServer, connect: Connect, failure: Failure, verdict: bool | float
) -> None:
    client = connect(retries=0)
    server.replies = [failure]
    with pytest.raises(anthropic.APIStatusError) as raised:
        await client.complete(request())
    assert client.is_transient(raised.value) == verdict
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("kind", "passes"), [("overloaded_error", True), ("api_error", True), ("invalid_request_error", False)]
)
async def test_what_is_said_in_the_middle_of_a_stream_may_pass_too(
    server: AnthropicServer, connect: Connect, kind: str, passes: bool
) -> None:
    client = connect(retries=0)
    server.replies = [Stream([*stream(Reply([text("Hello")]))[:4], error_event(kind, "Overloaded")])]
    with pytest.raises(anthropic.APIStatusError, match="Overloaded") as raised:
        await client.complete(request(deltas=[]))
    assert client.is_transient(raised.value) is passes


async def test_an_overloaded_model_is_asked_again_unless_a_reader_has_a_piece(
    server: AnthropicServer, connect: Connect
) -> None:
    overloaded = error_event("overloaded_error", "Overloaded")
    server.replies = [Failure(529, "Overloaded", {"retry-after-ms": "1"}), Stream([overloaded]), Reply([text("ok")])]
    client = connect()
    assert (await client.complete(request(deltas=[]))).message.content == "ok"
    server.replies = [Stream([*stream(Reply([text("Hello")]))[:4], overloaded]), Reply([text("twice")])]
    deltas: list[Delta] = []
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        await client.complete(request(deltas=deltas))
    assert deltas == [{"content": "Hello"}]


HELLO = stream(Reply([text("Hello")]))
BROKEN = {
    "it ends before the reason": Stream(stream(Reply([call("a", "delete_all", {})]))[:-2]),
    "it ends in a block": Stream(HELLO[:4]),
    "it holds what is no JSON": Stream(['event: message_start\ndata: {"type": "mess\n\n']),
    "a block begins out of turn": Stream([HELLO[0], HELLO[2].replace('"index":0', '"index":3')]),
    "a piece fits nowhere": Stream([HELLO[0], HELLO[3]]),
    "the connection is lost": Stream(HELLO[:4], is_lost=True),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_stream_that_breaks_is_no_reply_and_may_pass(
    server: AnthropicServer, connect: Connect, name: str
) -> None:
    client = connect(retries=0)
    server.replies = [BROKEN[name]]
    with pytest.raises((IncompleteReply, httpx2.TransportError)) as raised:
        await client.complete(request(deltas=[]))
    assert client.is_transient(raised.value) is True


async def test_a_model_that_says_nothing_in_time_may_pass(server: AnthropicServer, connect: Connect) -> None:
    client = connect(retries=0, timeout=0.05)
    silence = Silence()
    server.replies = [silence]
    with pytest.raises(anthropic.APITimeoutError) as raised:
        await client.complete(request())
    silence.over.set()
    assert client.is_transient(raised.value) is True


async def test_a_wrong_key_is_the_package_s_own_error(connect: Connect) -> None:
    client = connect("sk-wrong")
    with pytest.raises(anthropic.AuthenticationError, match="Incorrect API key"):
        await client.complete(request())
    assert "sk-wrong" not in repr(client)


async def test_a_missing_key_is_an_error_at_the_first_use_and_another_proof_is_taken(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    client = AnthropicChatClient(base_url=server.url)
    client.prepare()
    with pytest.raises(ModelNotConfigured, match=r"(?s)has no API key.*hint: set ANTHROPIC_API_KEY"):
        await client.complete(request())
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    with pytest.raises(anthropic.AuthenticationError):
        await client.complete(request())
    assert server.received[0].headers["authorization"] == "Bearer token"
    await client.aclose()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ModelNotConfigured, match=r"hitl-runtime\[anthropic\]"):
        AnthropicChatClient()


def test_one_client_serves_several_event_loops(server: AnthropicServer) -> None:
    client = AnthropicChatClient(API_KEY, server.url)
    client.prepare()
    server.replies = [Reply([text(str(number))]) for number in range(3)]

    async def once() -> str | None:
        reply = await client.complete(request(deltas=[]))
        await client.aclose()
        return reply.message.content

    assert [asyncio.run(once()) for _ in range(3)] == ["0", "1", "2"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the local server's thread; 3.12 and later warn
def test_a_client_made_and_prepared_before_a_fork_works_in_the_child(server: AnthropicServer) -> None:
    client = AnthropicChatClient(API_KEY, server.url)
    prepare_without_a_thread(client)
    server.replies = [Reply([text("from the child")])]
    pid, said = ask_in_a_child(client)
    assert (said, pid == os.getpid()) == ("from the child", False)


async def test_a_call_inside_a_turn_is_a_step_that_a_replay_does_not_repeat(
    server: AnthropicServer, connect: Connect
) -> None:
    client = connect()
    server.replies = [Reply([thinking("hm"), text("once")])]

    async def agent() -> ModelReply:
        return await client.complete(request())

    recorded = LocalTurn()
    reply = await recorded.run(agent)
    assert [(step["kind"], step["name"]) for step, _ in recorded.port.steps] == [("model", "test-model")]
    assert await LocalTurn(journal=recorded.port.journal).run(agent) == reply
    assert reply.message.reasoning_details
    assert len(server.received) == 1
