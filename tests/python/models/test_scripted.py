import json
from typing import Any

import pytest

from hitl.messages import ChatMessage
from hitl.models import Delta, ModelRequest
from hitl.testing import ScriptedChatClient, ScriptExhausted


def request(*contents: str, deltas: list[Delta] | None = None) -> ModelRequest:
    """A conversation in which user and assistant take turns."""
    roles = ("user", "assistant")
    messages = [ChatMessage(role=roles[index % 2], content=text) for index, text in enumerate(contents)]
    return ModelRequest("m", messages, on_delta=None if deltas is None else deltas.append)


async def test_reply_n_answers_the_request_that_holds_n_assistant_messages() -> None:
    client = ScriptedChatClient([{"content": "zero"}, {"content": "one"}])
    # In any order: the conversation decides, so another process goes on at the right place.
    assert (await client.complete(request("a", "zero", "b"))).message.content == "one"
    assert (await client.complete(request("a"))).message.content == "zero"


async def test_tool_calls_get_ids_that_are_the_same_in_every_process() -> None:
    script = [{"tool_calls": [{"name": "f", "args": {"x": 1}}, {"name": "g", "args": "{bad", "id": "mine"}]}]
    replies = [await ScriptedChatClient(script).complete(request("a")) for _ in range(2)]
    assert replies[0] == replies[1]
    assert replies[0].message.tool_calls == [
        {"id": "call_0_0", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "mine", "type": "function", "function": {"name": "g", "arguments": "{bad"}},
    ]
    assert replies[0].finish_reason == "tool_calls"


async def test_requests_are_kept_as_plain_dictionaries() -> None:
    client = ScriptedChatClient([{"content": "ok"}])
    tools = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}]
    await client.complete(ModelRequest("m", [ChatMessage.user_message(content="a")], tools))
    assert client.requests == [{"messages": [{"role": "user", "content": "a"}], "tools": tools}]
    json.dumps(client.requests)


async def test_text_is_streamed_in_pieces_that_add_up() -> None:
    deltas: list[Delta] = []
    client = ScriptedChatClient([{"content": "all is  done", "reasoning": "hm hm"}])
    await client.complete(request("a", deltas=deltas))
    assert "".join(delta.get("content", "") for delta in deltas) == "all is  done"
    assert [delta["reasoning"] for delta in deltas if "reasoning" in delta] == ["hm", " hm"]


async def test_the_end_of_the_script_is_a_clear_error() -> None:
    client = ScriptedChatClient([{"content": "only"}])
    with pytest.raises(ScriptExhausted, match=r"(?s)has 1 replies.*holds 1 assistant.*'and then'.*add reply number 1"):
        await client.complete(request("a", "only", "and then"))


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ("text", "reply 0 .* must be a dict"),
        ({}, "reply 0 .* needs content or tool_calls"),
        ({"contents": "x"}, "unknown members"),
        ({"tool_calls": [{"nome": "f"}]}, "takes name, args and id"),
        ({"tool_calls": [{"name": "f", "args": [1]}]}, "args in reply 0"),
    ],
)
def test_a_mistake_in_the_script_shows_where_it_is_written(reply: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        ScriptedChatClient([reply])
