"""Replies put together from chunks, whichever way a provider cuts them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.agents.tool_calls import own_ids
from hitl.messages import ChatMessage, ToolCall
from hitl.models.chat_client import ModelReply
from hitl.models.wire import ReplyBuilder, read_usage, to_wire

names = st.text("abcdefgh_", min_size=1, max_size=12)
arguments = st.dictionaries(names, st.none() | st.integers() | st.text(max_size=20), max_size=4).map(json.dumps)


def build(deltas: list[dict[str, Any]], finish: str = "stop") -> ModelReply:
    builder = ReplyBuilder()
    for delta in deltas:
        builder.add_chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    builder.add_chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return builder.finish()


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def replies(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]], list[dict[str, Any]]]:
    """A reply's text and calls, and deltas that say the same in pieces of any size, calls interleaved at will."""
    content = draw(st.text(max_size=40))
    calls = draw(st.lists(st.tuples(names, arguments), max_size=4))
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in cut(draw, content)]
    queues = []
    for index, (name, text) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        deltas.append(
            {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}
        )
        queues.append(
            [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in cut(draw, text)]
        )
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        deltas.append(queue.pop(0))
    return content, calls, deltas


@given(replies())
def test_however_a_stream_is_cut_it_says_the_same(
    reply: tuple[str, list[tuple[str, str]], list[dict[str, Any]]],
) -> None:
    content, calls, deltas = reply
    message = build(deltas).message
    assert message.content == (content or (None if calls else ""))
    assert message.tool_calls == (
        [
            {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": text}}
            for index, (name, text) in enumerate(calls)
        ]
        or None
    )


def call(identity: str) -> ToolCall:
    return {"id": identity, "type": "function", "function": {"name": "f", "arguments": "{}"}}


@given(st.lists(st.sampled_from(["a", "a_0", "a_1", "a_1_", "b"]), max_size=6))
def test_calls_that_share_an_id_get_ids_of_their_own_and_all_others_keep_theirs(ids: list[str]) -> None:
    message, doomed = own_ids(ChatMessage.assistant_message(tool_calls=[call(identity) for identity in ids]))
    now = [call["id"] for call in message.tool_calls or []]
    assert len(set(now)) == len(ids)
    for before, after in zip(ids, now, strict=True):
        assert doomed.get(after, after) == before
        assert (after in doomed) == (ids.count(before) > 1)


def test_a_refusal_is_text() -> None:
    assert build([{"refusal": "I will "}, {"refusal": "not."}]).message.content == "I will not."


def test_arguments_sent_as_an_object_become_text() -> None:
    reply = build([{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]}])
    assert reply.message.tool_calls
    assert reply.message.tool_calls[0]["function"]["arguments"] == '{"a": 1}'


def test_usage_holds_what_was_told_and_nothing_else() -> None:
    assert read_usage({"prompt_tokens": 1, "completion_tokens_details": None, "cost": 0.5}) == {
        "input_tokens": 1,
        "cost": 0.5,
    }
    assert read_usage({}) == {}


@pytest.mark.parametrize("image", [None, "iVBORw0KGgo="])
def test_a_tool_message_without_content_is_still_text(image: str | None) -> None:
    """Chat completions take no image of a tool, and no null either."""
    wire = to_wire(ChatMessage.tool_message(tool_call_id="c", base64_image=image), reasoning=False)
    assert wire == {"role": "tool", "content": "", "tool_call_id": "c"}
