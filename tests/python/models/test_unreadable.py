"""Servers that send what is no reply of their API: it is none, says so, and may pass."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

import hitl
from hitl import ReActAgent
from hitl.models import AnthropicChatClient, Delta, ModelReply, OpenAIChatClient, OpenAIResponsesClient
from hitl.models.provider import ProviderClient
from hitl.models.replies import IncompleteReply
from tests.python.models.asking import request
from tests.python.support.anthropic_api import AnthropicServer
from tests.python.support.chat_completions import API_KEY, ChatCompletionsServer
from tests.python.support.model_server import Body, ModelServer
from tests.python.support.responses_api import ResponsesServer

CLIENTS: dict[str, tuple[type[ModelServer], type[ProviderClient[Any]]]] = {
    "chat-completions": (ChatCompletionsServer, OpenAIChatClient),
    "responses": (ResponsesServer, OpenAIResponsesClient),
    "messages": (AnthropicServer, AnthropicChatClient),
}

NO_OBJECTS = {
    "a page": Body("<html>It works!</html>", "text/html"),
    "null": Body("null"),
    "a list": Body("[1]"),
    "half of it": Body('{"id":'),
    "nothing": Body(""),
}


def completion(**message: Any) -> Body:
    return Body(json.dumps({"choices": [{"message": {"role": "assistant", **message}, "finish_reason": "stop"}]}))


def response(*output: Any, **members: Any) -> Body:
    return Body(json.dumps({"id": "r", "status": "completed", "output": list(output), **members}))


def message(*content: Any, **members: Any) -> Body:
    return Body(json.dumps({"id": "m", "content": list(content), "stop_reason": "end_turn", **members}))


def events(*given: Any) -> Body:
    text = "".join(f"event: {event.get('type') if event else None}\ndata: {json.dumps(event)}\n\n" for event in given)
    return Body(text, "text/event-stream")


MISSHAPEN: list[tuple[str, Body]] = [
    ("chat-completions", completion(content=5)),
    ("chat-completions", completion(tool_calls=[None])),
    ("chat-completions", Body(json.dumps({"choices": ["hello"]}))),
    ("chat-completions", Body(json.dumps({"choices": [{"message": {"content": "hi"}}], "usage": [1]}))),
    ("responses", response("hello")),
    ("responses", response({"type": "message", "content": "hello"})),
    ("responses", response(usage=[1])),
    ("responses", response(status="failed", error="boom")),
    ("messages", message(None)),
    ("messages", message({"text": "hello"})),
    ("messages", message(stop_reason=["end_turn"])),
]
MISSHAPEN_STREAMS: list[tuple[str, Body]] = [
    ("chat-completions", events(None)),
    ("chat-completions", events({"choices": [{"delta": "hello"}]})),
    ("responses", events({"type": "response.completed"})),
    ("responses", events({"type": "response.output_item.done", "item": {}})),
    ("messages", events({"type": "message_start", "message": None})),
    ("messages", events({"type": "content_block_start", "index": 0, "content_block": None})),
]


class Served(NamedTuple):
    server: ModelServer
    client: ProviderClient[Any]

    async def says(self, reply: Body, deltas: list[Delta] | None) -> ModelReply:
        self.server.replies = [reply]
        return await self.client.complete(request(deltas=deltas))


@pytest.fixture
def api(name: str) -> Iterator[ModelServer]:
    with CLIENTS[name][0]().serving() as serving:
        yield serving


@pytest.fixture
async def served(api: ModelServer, name: str, streamed: bool) -> AsyncIterator[Served]:
    client = CLIENTS[name][1](API_KEY, api.url, stream=streamed, retries=0)
    yield Served(api, client)
    await client.aclose()


@pytest.mark.parametrize("streamed", [False])
@pytest.mark.parametrize("what", NO_OBJECTS)
@pytest.mark.parametrize("name", CLIENTS)
async def test_what_is_no_json_object_is_no_reply(served: Served, what: str) -> None:
    with pytest.raises(IncompleteReply, match=r"no JSON object, but|cannot be read: JSONDecodeError") as raised:
        await served.says(NO_OBJECTS[what], None)
    assert served.client.is_transient(raised.value) is True


@pytest.mark.parametrize("streamed", [False])
@pytest.mark.parametrize(("name", "reply"), MISSHAPEN)
async def test_nor_is_an_object_of_another_form(served: Served, reply: Body) -> None:
    with pytest.raises(IncompleteReply, match="^the model's reply cannot be read: [A-Z][A-Za-z]+Error: "):
        await served.says(reply, None)


@pytest.mark.parametrize("streamed", [True])
@pytest.mark.parametrize(("name", "reply"), MISSHAPEN_STREAMS)
async def test_nor_is_a_stream_of_them(served: Served, reply: Body) -> None:
    with pytest.raises(IncompleteReply, match="^the model's stream (cannot be read|is broken)|sent no JSON object"):
        await served.says(reply, [])


@pytest.mark.parametrize("streamed", [True])
@pytest.mark.parametrize("name", ["chat-completions"])
async def test_what_a_reader_raises_is_its_own(served: Served) -> None:
    def read(delta: Delta) -> None:
        raise KeyError(delta["content"])

    served.server.replies = [events({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})]
    with pytest.raises(KeyError, match="Hi"):
        await served.client.complete(replace(request(), on_delta=read))


@pytest.mark.parametrize("streamed", [False])
@pytest.mark.parametrize("name", ["chat-completions"])
async def test_a_turn_is_suspended_and_says_where_to_look(served: Served) -> None:
    served.server.replies = [NO_OBJECTS["a page"], completion(content="Here I am.")]
    agent = ReActAgent(served.client, "test-model")
    first = await hitl.run(agent, "hi")
    assert first.error_code == "model_unavailable"
    assert "see whether base_url is where its API is" in (first.error or "")
    assert first.state is not None
    assert (await hitl.run(agent, first.state)).output == "Here I am."


THOUGHTS: list[Any] = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Who"}, {"type": "text", "text": "?"}]},
    {"type": "text", "text": "Hello, "},
    {"type": "text", "text": "Ada"},
]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", ["chat-completions"])
async def test_text_that_stands_in_a_list_beside_thoughts_is_read(served: Served, streamed: bool) -> None:
    deltas: list[Delta] = []
    pieces = [{"choices": [{"delta": {"content": [part]}}]} for part in THOUGHTS]
    stream = events(*pieces, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
    reply = await served.says(stream if streamed else completion(content=THOUGHTS), deltas if streamed else None)
    assert (reply.message.content, reply.message.reasoning) == ("Hello, Ada", "Who?")
    assert deltas == ([{"reasoning": "Who?"}, {"content": "Hello, "}, {"content": "Ada"}] if streamed else [])


CALLS: list[tuple[str, Body]] = [
    ("chat-completions", completion(tool_calls=[{"id": 7, "function": {"name": "pay", "arguments": {"cents": 5}}}])),
    ("responses", response({"type": "function_call", "call_id": 7, "name": "pay", "arguments": {"cents": 5}})),
    ("messages", message({"type": "tool_use", "id": 7, "name": "pay", "input": {"cents": 5}})),
]


@pytest.mark.parametrize("streamed", [False])
@pytest.mark.parametrize(("name", "reply"), CALLS)
async def test_a_number_as_the_id_of_a_call_and_arguments_as_an_object_are_text(served: Served, reply: Body) -> None:
    [call] = (await served.says(reply, None)).message.tool_calls or []
    assert call == {"id": "7", "type": "function", "function": {"name": "pay", "arguments": '{"cents": 5}'}}
