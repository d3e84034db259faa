import json
from typing import Any

import pytest

from hitl.attachments import Attachment
from hitl.messages import FIELDS, ChatMessage


def test_it_has_the_ten_fields_of_the_contract() -> None:
    assert FIELDS == (
        "role",
        "content",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "tool_call_id",
        "name",
        "base64_image",
        "attachments",
        "user_params",
    )


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool"])
def test_each_role_has_a_constructor(role: str) -> None:
    message = getattr(ChatMessage, f"{role}_message")(content="hello", name="n")
    assert message == ChatMessage(role=role, content="hello", name="n")


def test_to_dict_leaves_out_what_is_none_and_keeps_what_is_empty() -> None:
    message = ChatMessage.assistant_message(content="", tool_calls=[])
    assert message.to_dict() == {"role": "assistant", "content": "", "tool_calls": []}


def test_from_dict_reads_what_to_dict_wrote() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = ChatMessage(
        role="assistant",
        tool_calls=[call],
        reasoning="because",
        attachments=[Attachment.of_bytes(b"hi", "image/png", name="a.png")],
        user_params={"a": 1},
    )
    assert ChatMessage.from_dict(message.to_dict()) == message
    assert ChatMessage.from_dict(json.loads(json.dumps(message.to_dict()))) == message


def test_a_message_without_a_role_is_the_users() -> None:
    assert ChatMessage.from_dict({}) == ChatMessage(role="user")


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ({"role": "robot"}, ValueError, "ChatMessage.role must be one of"),
        ({"role": None}, ValueError, "ChatMessage.role"),
        ({"content": 3}, TypeError, "ChatMessage.content must be a str or None, got int"),
        ({"tool_calls": {}}, TypeError, "ChatMessage.tool_calls must be a list or None, got dict"),
        ({"user_params": []}, TypeError, "ChatMessage.user_params must be a dict or None, got list"),
        ({"attachments": {}}, TypeError, "ChatMessage.attachments must be a list or None, got dict"),
        ({"attachments": [1]}, TypeError, "ChatMessage.attachments must be a list of Attachment, got one of int"),
        ({"attachments": [{}]}, TypeError, "Attachment.media_type is missing"),
        ({"attachments": [{"media_type": "a/b", "path": "x"}]}, TypeError, "Attachment has no field 'path'"),
        ({"contents": "x"}, TypeError, "ChatMessage has no field 'contents'"),
    ],
)
def test_a_wrong_field_is_named(data: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ChatMessage.from_dict(data)


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (1, TypeError, "[1] must be a dict, got int"),
        ({**CALL, "id": 1}, TypeError, "[1].id must be a str, got int"),
        ({"function": CALL["function"]}, TypeError, "[1].id must be a str, got NoneType"),
        ({**CALL, "type": "custom"}, ValueError, "[1].type must be \"function\", got 'custom'"),
        ({**CALL, "function": "f"}, TypeError, "[1].function must be a dict, got str"),
        ({**CALL, "function": {"arguments": ""}}, TypeError, "[1].function.name must be a str, got NoneType"),
        (
            {**CALL, "function": {"name": "f", "arguments": {"a": 1}}},
            TypeError,
            "[1].function.arguments must be a str of JSON, got dict",
        ),
    ],
)
def test_a_wrong_field_of_a_tool_call_is_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        ChatMessage.assistant_message(tool_calls=[CALL, call])
    assert str(caught.value) == f"ChatMessage.tool_calls{text}"


def test_a_tool_call_without_a_type_calls_a_function() -> None:
    assert ChatMessage.assistant_message(tool_calls=[{**CALL, "function": {"name": "f", "arguments": "no JSON"}}])
    assert ChatMessage.assistant_message(tool_calls=[{"id": "1", "function": CALL["function"]}])


def test_check_sees_what_was_assigned_later() -> None:
    message = ChatMessage.user_message(content="x")
    message.content = b"x"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="content"):
        message.check()
