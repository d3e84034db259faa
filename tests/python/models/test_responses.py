"""The real `openai` package against a local server that speaks the Responses API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest

from hitl.messages import ChatMessage
from hitl.models import Delta, InvalidSettings, ModelReply, OpenAIResponsesClient, ResponseFormat
from hitl.models.replies import IncompleteReply
from hitl.models.responses_wire import ResponseBuilder
from tests.python.models.asking import check_hello, request
from tests.python.support.local import LocalTurn
from tests.python.support.model_server import API_KEY, Failure, Stream
from tests.python.support.responses_api import Reply, ResponsesServer, call, error_event, refusal, stream, text, thought

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "Tell.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture
def server() -> Iterator[ResponsesServer]:
    with ResponsesServer().serving() as serving:
        yield serving


@pytest.fixture
async def client(server: ResponsesServer) -> AsyncIterator[OpenAIResponsesClient]:
    made = OpenAIResponsesClient(API_KEY, server.url)
    yield made
    await made.aclose()


@pytest.mark.parametrize("streamed", [True, False])
async def test_text_and_usage_arrive_streamed_or_not_and_the_provider_keeps_nothing(
    server: ResponsesServer, client: OpenAIResponsesClient, streamed: bool
) -> None:
    server.replies = [Reply([text("Hello, wörld")])]
    deltas: list[Delta] = []
    reply = await client.complete(request(deltas=deltas if streamed else None))
    check_hello(reply, deltas, streamed=streamed)
    body = server.received[0].body
    assert (body["model"], body.get("stream", False), body["store"]) == ("test-model", streamed, False)
    assert body["include"] == ["reasoning.encrypted_content"]


async def test_models_that_cannot_reason_are_not_asked_for_their_reasoning(
    server: ResponsesServer, client: OpenAIResponsesClient
) -> None:
    server.replies = [Reply([text("ok")])]
    await client.complete(request(model="gpt-4.1-mini"))
    assert "include" not in server.received[0].body


@pytest.mark.parametrize("streamed", [True, False])
async def test_parallel_tool_calls_come_with_their_arguments_whole(
    server: ResponsesServer, client: OpenAIResponsesClient, streamed: bool
) -> None:
    server.replies = [
        Reply([call("a", "weather", '{"city": "Oakland"}'), call("b", "delete_file", '{"path": "/tmp/x"}')])
    ]
    reply = await client.complete(request(deltas=[] if streamed else None, tools=[WEATHER]))
    assert reply.message == ChatMessage.assistant_message(
        tool_calls=[
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oakland"}'}},
            {"id": "b", "type": "function", "function": {"name": "delete_file", "arguments": '{"path": "/tmp/x"}'}},
        ]
    )
    assert reply.finish_reason == "tool_calls"
    # Not strict unless it says so: of this API, other than of chat-completions, that is not the default.
    assert server.received[0].body["tools"] == [{"type": "function", "strict": False, **WEATHER["function"]}]  # type: ignore[dict-item]


async def test_a_whole_conversation_is_sent_as_items(server: ResponsesServer, client: OpenAIResponsesClient) -> None:
    server.replies = [Reply([text("ok")])]
    made = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    await client.complete(
        request(
            ChatMessage.system_message(content="Be brief."),
            ChatMessage.user_message(content="look", base64_image="iVBORw0KGgo=", user_params={"secret": 1}),
            ChatMessage.assistant_message(content="I ask.", tool_calls=[made], reasoning="hm"),
            ChatMessage.tool_message(content="sunny", tool_call_id="c1", name="weather"),
            ChatMessage.tool_message(tool_call_id="c1"),
        )
    )
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    assert server.received[0].body["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, image]},
        {"role": "assistant", "content": "I ask."},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c1", "output": ""},
    ]


@pytest.mark.parametrize("streamed", [True, False])
async def test_what_a_model_thought_goes_back_to_it_in_its_place(
    server: ResponsesServer, client: OpenAIResponsesClient, streamed: bool
) -> None:
    server.replies = [
        Reply(
            [
                thought("rs_1", "First ", "then"),
                text("I look.", phase="commentary"),
                thought("rs_2", encrypted="gBBBB"),
                call("c1", "weather", "{}"),
                call("c2", "weather", "{}"),
            ]
        ),
        Reply([text("Sunny")]),
    ]
    deltas: list[Delta] = []
    reply = await client.complete(request(deltas=deltas if streamed else None, tools=[WEATHER]))
    assert (reply.message.content, reply.message.reasoning) == ("I look.", "First \n\nthen")
    if streamed:
        assert "".join(delta.get("reasoning", "") for delta in deltas) == "First \n\nthen"
    # As the journal and the session's state keep it, in another process.
    kept = ChatMessage.from_dict(dict(reply.message.to_dict()))
    results = [ChatMessage.tool_message(content="sunny", tool_call_id=f"c{number}") for number in (1, 2)]
    await client.complete(request(ChatMessage.user_message(content="hi"), kept, *results))
    summary = [{"type": "summary_text", "text": part} for part in ("First ", "then")]
    assert server.received[1].body["input"][1:6] == [
        {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAAA"},
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBBB"},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{}"},
    ]


async def test_a_thought_that_nobody_keeps_is_not_sent_back_and_one_that_the_provider_keeps_is(
    server: ResponsesServer,
) -> None:
    result = ChatMessage.tool_message(content="sunny", tool_call_id="c1")
    sent = []
    for parameters in ({}, {"store": True}):
        client = OpenAIResponsesClient(API_KEY, server.url, parameters=parameters)
        server.replies = [Reply([thought("rs_1", encrypted=None), call("c1", "weather", "{}")]), Reply([text("ok")])]
        reply = await client.complete(request(tools=[WEATHER]))
        await client.complete(request(ChatMessage.user_message(content="hi"), reply.message, result))
        sent.append([item.get("type") for item in server.received[-1].body["input"]])
        await client.aclose()
    assert sent == [
        [None, "function_call", "function_call_output"],
        [None, "reasoning", "function_call", "function_call_output"],
    ]


async def test_a_refusal_is_text(server: ResponsesServer, client: OpenAIResponsesClient) -> None:
    server.replies = [Reply([refusal("I will not.")])]
    deltas: list[Delta] = []
    reply = await client.complete(request(deltas=deltas))
    assert (reply.message.content, reply.finish_reason) == ("I will not.", "stop")
    assert "".join(delta.get("content", "") for delta in deltas) == "I will not."


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")])
async def test_a_reply_that_was_cut_short_says_why_and_half_a_call_is_none(
    server: ResponsesServer, client: OpenAIResponsesClient, reason: str, finish: str
) -> None:
    output = [text("I del"), call("a", "weather", "{}"), call("b", "delete_all", "", status="incomplete")]
    server.replies = [Reply(output, incomplete=reason)]
    reply = await client.complete(request(deltas=[], tools=[WEATHER]))
    assert (reply.message.content, reply.finish_reason) == ("I del", finish)
    assert [made["id"] for made in reply.message.tool_calls or []] == ["a"]


async def test_several_messages_of_one_reply_are_told_apart_for_the_reader_too(
    server: ResponsesServer, client: OpenAIResponsesClient
) -> None:
    server.replies = [Reply([text("One.", phase="commentary"), text("Two.", phase="final_answer")]), Reply([text("k")])]
    deltas: list[Delta] = []
    reply = await client.complete(request(deltas=deltas))
    assert reply.message.content == "One.\n\nTwo." == "".join(delta.get("content", "") for delta in deltas)
    await client.complete(request(reply.message, ChatMessage.user_message(content="and?")))
    assert server.received[1].body["input"][:2] == [
        {"role": "assistant", "content": "One.", "phase": "commentary"},
        {"role": "assistant", "content": "Two.", "phase": "final_answer"},
    ]


async def test_a_structured_reply_is_asked_for_strictly_where_its_schema_allows_it(
    server: ResponsesServer, client: OpenAIResponsesClient
) -> None:
    closed = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    optional = {**closed, "required": []}
    server.replies = [Reply([text("{}")]), Reply([text("{}")])]
    for schema in (closed, optional):
        await client.complete(request(response_format=ResponseFormat("Weather", schema)))
    common = {"type": "json_schema", "name": "Weather"}
    assert [received.body["text"]["format"] for received in server.received] == [
        {**common, "strict": True, "schema": {**closed, "additionalProperties": False}},
        {**common, "strict": False, "schema": optional},
    ]


async def test_settings_and_parameters_are_members_of_the_body(server: ResponsesServer) -> None:
    hosted = {"type": "function", "name": "searched", "parameters": {}, "strict": False}
    parameters = {"temperature": 1, "reasoning": {"summary": "auto", "effort": "high"}, "tools": [hosted]}
    client = OpenAIResponsesClient(API_KEY, server.url, parameters=parameters)
    server.replies = [Reply([text("ok")])]
    await client.complete(
        request(
            tools=[WEATHER],
            settings={
                "temperature": 0,
                "top_p": 0.5,
                "max_tokens": 9,
                "tool_choice": "weather",
                "parallel_tool_calls": False,
                "reasoning_effort": "low",
                "extra_body": {"truncation": "auto"},
            },
        )
    )
    body = server.received[0].body
    names = ("temperature", "top_p", "max_output_tokens", "tool_choice", "parallel_tool_calls", "truncation")
    chosen = {"type": "function", "name": "weather"}
    assert [body[name] for name in names] == [0, 0.5, 9, chosen, False, "auto"]
    assert body["reasoning"] == {"summary": "auto", "effort": "low"}
    assert [tool["name"] for tool in body["tools"]] == ["weather", "searched"]
    await client.aclose()


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"stop": "END"}, "ends no reply at a text"), ({"tool_choice": "required"}, "the request has no tools")],
)
async def test_settings_that_would_not_hold_are_refused_before_the_model_is_asked(
    server: ResponsesServer, client: OpenAIResponsesClient, settings: Any, words: str
) -> None:
    with pytest.raises(InvalidSettings, match=words):
        await client.complete(request(settings=settings))
    assert server.received == []


async def test_a_reply_that_failed_is_the_package_s_own_error_and_may_pass_where_the_provider_is_the_reason(
    server: ResponsesServer,
) -> None:
    client = OpenAIResponsesClient(API_KEY, server.url, retries=0)
    failures = {"server_error": True, "rate_limit_exceeded": True, "invalid_prompt": False}
    for streamed in (True, False):
        for code, passes in failures.items():
            server.replies = [Reply(failed=code)]
            with pytest.raises(openai.APIError, match="no") as raised:
                await client.complete(request(deltas=[] if streamed else None))
            assert (raised.value.code, client.is_transient(raised.value)) == (code, passes)
    server.replies = [Stream([stream(Reply())[0], error_event("server_error", "The server had an error")])]
    with pytest.raises(openai.APIError, match="had an error") as raised:
        await client.complete(request(deltas=[]))
    assert client.is_transient(raised.value) is True
    await client.aclose()


async def test_a_rate_limit_is_waited_for_and_tried_again(
    server: ResponsesServer, client: OpenAIResponsesClient
) -> None:
    once = OpenAIResponsesClient(API_KEY, server.url, retries=0)
    server.replies = [Failure(429, "slow down", {"retry-after": "7"})]
    with pytest.raises(openai.RateLimitError) as raised:
        await once.complete(request())
    assert once.is_transient(raised.value) == 7.0
    await once.aclose()
    server.replies = [Failure(429, "slow down", {"retry-after-ms": "1"}), Reply([text("ok")])]
    assert (await client.complete(request(deltas=[]))).message.content == "ok"


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_reply_that_is_made_in_the_background_says_how_to_have_it_at_once(status: str) -> None:
    builder = ResponseBuilder()
    builder.add_response({"status": status, "output": []})
    with pytest.raises(InvalidSettings, match=f"(?s)its status is {status}.* leave out background"):
        builder.finish()


@pytest.mark.parametrize("status", ["cancelled", "no such status"])
def test_a_response_that_is_not_over_is_no_reply(status: str) -> None:
    builder = ResponseBuilder()
    builder.add_response({"id": "r", "status": status, "output": []})
    with pytest.raises(IncompleteReply, match=status):
        builder.finish()


def test_a_reason_that_nobody_knows_yet_cuts_a_reply_short_too() -> None:
    builder = ResponseBuilder()
    said = {"type": "message", "content": [{"type": "output_text", "text": "half"}]}
    builder.add_response({"id": "r", "status": "incomplete", "incomplete_details": {"reason": "new"}, "output": [said]})
    assert builder.finish().finish_reason == "length"


BROKEN = {
    "it ends before the response": Stream(stream(Reply([call("a", "delete_all", "{}")]))[:-1]),
    "it ends in an item": Stream(stream(Reply([text("Hello")]))[:4]),
    "it holds what is no JSON": Stream(['event: response.created\ndata: {"type": "resp\n\n']),
    "it is no text": Stream(["data: \ud800\n\n".encode("utf-8", "surrogatepass").decode("latin-1")]),
    "the connection is lost": Stream(stream(Reply([text("Hello")]))[:4], is_lost=True),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_stream_that_breaks_is_no_reply_and_may_pass(server: ResponsesServer, name: str) -> None:
    client = OpenAIResponsesClient(API_KEY, server.url, retries=0)
    server.replies = [BROKEN[name]]
    with pytest.raises((IncompleteReply, openai.APIConnectionError)) as raised:
        await client.complete(request(deltas=[]))
    assert client.is_transient(raised.value) is True
    await client.aclose()


async def test_a_server_that_lists_nothing_at_the_end_has_said_it_before(
    server: ResponsesServer, client: OpenAIResponsesClient
) -> None:
    whole = stream(Reply([text("Hello"), call("a", "weather", "{}")]))
    server.replies = [Stream([*whole[:-1], stream(Reply())[-1]])]
    reply = await client.complete(request(deltas=[]))
    assert (reply.message.content, reply.finish_reason) == ("Hello", "tool_calls")


async def test_a_call_inside_a_turn_is_a_step_that_a_replay_does_not_repeat(
    server: ResponsesServer, client: OpenAIResponsesClient
) -> None:
    server.replies = [Reply([thought("rs_1"), text("once")])]

    async def agent() -> ModelReply:
        return await client.complete(request())

    recorded = LocalTurn()
    reply = await recorded.run(agent)
    assert [(step["kind"], step["name"]) for step, _ in recorded.port.steps] == [("model", "test-model")]
    assert await LocalTurn(journal=recorded.port.journal).run(agent) == reply
    assert reply.message.reasoning_details
    assert len(server.received) == 1
