"""What of a session's messages is said again when a turn ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hitl.driver.remembered import GivenState
from hitl.messages import ChatMessage

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
GIVEN: list[dict[str, Any]] = [
    {"role": "user", "content": "first", "user_params": {"deep": {"list": [1, None]}}},
    {"role": "assistant", "tool_calls": [CALL], "reasoning_details": [{"type": "summary"}]},
    {"role": "tool", "content": "done", "tool_call_id": "c1", "name": "f"},
    {"role": "user", "content": "a file", "attachments": [{"media_type": "image/png", "data": "aGk="}]},
    {"role": "assistant", "content": "last"},
]
Change = Callable[[list[ChatMessage]], object]


def kept_after(change: Change) -> tuple[int, list[dict[str, Any]]]:
    """How many are kept once an agent has done so with what it was given, and what it returns."""
    given = GivenState(json.loads(json.dumps(GIVEN)))
    messages = given.messages
    change(messages)
    state: list[dict[str, Any]] = [dict(message.to_dict()) for message in messages]
    return given.kept(state), state


def test_what_stays_is_not_said_again_whatever_it_holds() -> None:
    assert kept_after(lambda messages: None) == (5, GIVEN)
    kept, state = kept_after(lambda messages: messages.append(ChatMessage.assistant_message(content="new")))
    assert (kept, state[kept:]) == (5, [{"role": "assistant", "content": "new"}])


def _changed(messages: list[ChatMessage], index: int, **members: Any) -> None:
    for name, value in members.items():
        setattr(messages[index], name, value)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda messages: messages.clear(), 0),
        (lambda messages: messages.pop(0), 0),
        (lambda messages: messages.pop(), 4),
        (lambda messages: messages.insert(2, ChatMessage.user_message(content="between")), 2),
        (lambda messages: _changed(messages, 2, content="[removed]"), 2),
        (lambda messages: _changed(messages, 2, content=None), 2),
        (lambda messages: _changed(messages, 3, attachments=None), 3),
        (lambda messages: messages[0].user_params["deep"]["list"].append(2), 0),
        (lambda messages: messages[0].user_params.update(deep={"list": [True, None]}), 0),
        (lambda messages: messages[1].tool_calls[0]["function"].update(arguments='{"a": 1}'), 1),
        (lambda messages: messages[1].reasoning_details.clear(), 1),
    ],
)
def test_what_an_agent_has_changed_is_said_with_all_that_follows(change: Change, kept: int) -> None:
    found, _ = kept_after(change)
    assert found == kept


def test_what_became_no_json_is_left_to_whoever_sends_it() -> None:
    kept, _ = kept_after(lambda messages: messages[1].tool_calls.append(object()))  # type: ignore[union-attr, arg-type]
    assert kept == 1
