"""How a model is asked: what settings may say, and what becomes of them in an agent."""

from __future__ import annotations

from typing import Any

import pytest

from hitl import ReActAgent, tool
from hitl.model_settings import check_settings
from hitl.models import InvalidSettings, ModelSettings
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally

EVERY: ModelSettings = {
    "temperature": 0.5,
    "top_p": 1,
    "max_tokens": 100,
    "stop": "END",
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning_effort": "low",
    "extra_body": {"seed": 1},
}

WRONG: list[tuple[object, type[Exception], str]] = [
    ([], TypeError, "settings must be a dict of ModelSettings, got list"),
    ({"temprature": 1}, TypeError, "no member 'temprature'; known: temperature, top_p, max_tokens"),
    ({"temperature": "hot"}, TypeError, r"settings\['temperature'\] must be a number, got str"),
    ({"temperature": True}, TypeError, "must be a number, got bool"),
    ({"temperature": -1}, ValueError, "must be 0 or more, got -1"),
    ({"temperature": float("nan")}, ValueError, "must be 0 or more, got nan"),
    ({"top_p": 1.5}, ValueError, "must be from 0 to 1, got 1.5"),
    ({"max_tokens": 1.0}, TypeError, "must be a whole number, got float"),
    ({"max_tokens": 0}, ValueError, "must be 1 or more, got 0"),
    ({"stop": 1}, TypeError, "must be a str or a list of str"),
    ({"stop": ["END", ""]}, ValueError, "must not be empty"),
    ({"tool_choice": None}, TypeError, "must be a str, got NoneType"),
    ({"tool_choice": ""}, ValueError, "must not be empty"),
    ({"parallel_tool_calls": 1}, TypeError, "must be True or False, got int"),
    ({"reasoning_effort": 3}, TypeError, "must be a str, got int"),
    ({"extra_body": "seed"}, TypeError, "must be a dict, got str"),
    ({"extra_body": {"at": object()}}, TypeError, "must be JSON"),
    ({"extra_body": {"messages": []}}, ValueError, "must not have the member 'messages'"),
]


@pytest.mark.parametrize(("given", "error", "words"), WRONG, ids=lambda value: repr(value)[:40])
def test_settings_that_are_none_are_refused_when_the_agent_is_made(
    given: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as refused:
        ReActAgent(settings=given)
    assert str(refused.value).startswith("ReActAgent: ")


def test_what_was_given_is_copied() -> None:
    given: ModelSettings = {"stop": ["END"], "extra_body": {"seed": [1]}}
    settings = check_settings("test", given)
    given["stop"] = []
    given["extra_body"]["seed"].append(2)
    assert settings == {"stop": ["END"], "extra_body": {"seed": [1]}}


@tool
async def add(a: int, b: int) -> int:
    return a + b


CALL = {"tool_calls": [{"name": "add", "args": {"a": 1, "b": 2}}]}


async def test_every_request_of_an_agent_has_its_settings_and_the_record_their_fingerprint() -> None:
    client = ScriptedChatClient([CALL, {"content": "3"}])
    result = await run_locally(ReActAgent(client, settings=EVERY, tools=[add]), "go")
    assert [request["settings"] for request in client.requests] == [EVERY, EVERY]
    models = [step for step, _ in result.port.steps if step["kind"] == "model"]
    assert all("settings" in step["arguments"] for step in models)


@pytest.mark.parametrize("choice", ["required", "add"])
async def test_a_tool_that_must_be_called_must_be_only_once(choice: str) -> None:
    client = ScriptedChatClient([CALL, {"content": "3"}, CALL, {"content": "3"}])
    agent = ReActAgent(client, settings={"tool_choice": choice}, tools=[add])
    first = await run_locally(agent, "go")
    await run_locally(agent, "again", first.state)
    assert [request["settings"]["tool_choice"] for request in client.requests] == [choice, "auto", choice, "auto"]


async def test_a_tool_choice_that_names_no_tool_of_the_agent_says_so_before_the_model_is_asked() -> None:
    client = ScriptedChatClient([{"content": "3"}])
    agent = ReActAgent(client, settings={"tool_choice": "subtract"}, tools=[add], name="adder")
    with pytest.raises(InvalidSettings, match="of adder names the tool 'subtract', which it has not; its tools: add"):
        await run_locally(agent, "go")
    assert client.requests == []
