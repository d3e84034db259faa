"""How an agent is made, what it cannot be made with, and what its client must be."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hitl import ChatMessage, ReActAgent, hooks, tool
from hitl.agents.compaction import Compaction
from hitl.messages import ToolCall
from hitl.middleware import AgentMiddleware, ToolCallAgent
from hitl.models import ModelReply, ModelRequest
from hitl.models.provider import ModelNotConfigured
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"client": object()}, TypeError, "must have `async complete"),
        ({"client": ScriptedChatClient}, TypeError, r"the class ScriptedChatClient\n\nhint: make an instance"),
        ({"tools": [5]}, TypeError, "tools takes @tool functions"),
        ({"hooks": print}, TypeError, r"hooks takes a list, got .*print.*\n\nhint: hooks=\[...\], also for one"),
        ({"middleware": AgentMiddleware()}, TypeError, r"middleware takes a list, got .*\n\nhint: middleware=\[...\]"),
        (
            {"handoffs": ReActAgent(name="b")},
            TypeError,
            r"handoffs takes a list, got <ReActAgent b>\n\nhint: ",
        ),
        (
            {"history_processors": Compaction()},
            TypeError,
            "history_processors takes a list, got ",
        ),
        (
            {"tools": add},
            TypeError,
            r"ReActAgent: tools takes a list, got .*add.*\n\nhint: tools=\[...\], also",
        ),
        ({"tools": [add, add]}, ValueError, "two tools are called 'add'"),
        ({"max_steps": 0}, ValueError, "max_steps"),
        ({"max_steps": True}, ValueError, "max_steps"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"timeout": "5"}, TypeError, "ReActAgent: timeout is a number of seconds or None, got '5'"),
        ({"name": 5}, TypeError, "name must be a str"),
    ],
)
def test_a_wrong_option_is_refused_when_the_agent_is_made(
    options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        ReActAgent(**options)


@pytest.mark.parametrize(
    ("make", "option"), [(ToolCallAgent, "middleware"), (hooks.Agent, "hooks"), (hooks.Agent, "tools")]
)
def test_so_do_agents_in_the_words_of_others(make: Any, option: str) -> None:
    with pytest.raises(
        TypeError, match=rf"{option} takes a list, got <built-in .*\n\nhint: {option}=\[...\], also for one"
    ):
        make(**{option: print})


def test_a_plain_function_becomes_a_tool() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    (made,) = ReActAgent(tools=[shout]).tools
    assert (made.name, made.description) == ("shout", "Shout.")


async def test_without_a_client_or_a_model_the_first_use_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "HITL_MODEL"):
        monkeypatch.delenv(name, raising=False)
    agent = ReActAgent()
    agent.prepare()
    with pytest.raises(ModelNotConfigured, match="hint: set HITL_MODEL"):
        await run_locally(agent, "hi")
    monkeypatch.setenv("HITL_MODEL", "some-model")
    with pytest.raises(ModelNotConfigured, match="hint: set OPENAI_API_KEY"):
        await run_locally(agent, "hi")


async def test_outside_a_run_an_agent_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"run_turn\(\) called outside a hitl run"):
        await ReActAgent(client=ScriptedChatClient([])).run_turn(ChatMessage.user_message(content="hi"), [])


class Wrong:
    """A client that breaks its contract."""

    default_model = "wrong"

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def complete(self, request: ModelRequest) -> Any:
        return self.reply


CALL: ToolCall = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}


@pytest.mark.parametrize("reply", ["text", ModelReply(ChatMessage.user_message(content="hi", tool_calls=[CALL]))])
async def test_a_client_that_returns_no_reply_is_named(reply: Any) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.complete\(\) must return a ModelReply"):
        await run_locally(ReActAgent(client=Wrong(reply)), "hi")


def called(**members: Any) -> ModelReply:
    message = ChatMessage.assistant_message(tool_calls=[CALL])
    message.tool_calls = [cast(ToolCall, {**CALL, **members})]  # made with it, it would be refused there
    return ModelReply(message)


@pytest.mark.parametrize(
    "reply",
    [
        called(id=None),
        called(function=None),
        called(function={"name": "add"}),
        called(function={"name": "add", "arguments": {"a": 1}}),
    ],
)
async def test_and_so_is_one_whose_calls_are_none_before_they_are_recorded(reply: ModelReply) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.complete\(\) returned a tool call that is not {'id': str, "):
        await run_locally(ReActAgent(client=Wrong(reply)), "hi")


@pytest.mark.parametrize("usage", [None, {"total_tokens": "7"}, {"input_tokens": None}])
async def test_and_whose_usage_cannot_be_counted(usage: Any) -> None:
    reply = ModelReply(ChatMessage.assistant_message(content="hi"), usage)
    with pytest.raises(TypeError, match=r"Wrong\.complete\(\) returned a usage that is no dict of numbers: "):
        await run_locally(ReActAgent(client=Wrong(reply)), "hi")


class Away:
    """Is away, and says of that what it was told to."""

    retries = 0

    def __init__(self, verdict: Any) -> None:
        self.verdict = verdict

    async def complete(self, request: ModelRequest) -> Any:
        raise OSError("no route to the model")

    def is_transient(self, error: Exception) -> Any:
        return self.verdict


@pytest.mark.parametrize(
    ("verdict", "complaint"),
    [
        (None, "^no route to the model$"),  # as a function says that says nothing
        ("soon", "^is_transient must return a bool or a number of seconds, got 'soon'$"),
    ],
)
async def test_a_client_that_says_nothing_of_an_error_says_that_it_does_not_pass(verdict: Any, complaint: str) -> None:
    with pytest.raises((OSError, TypeError), match=complaint):
        await run_locally(ReActAgent(Away(verdict), "away"), "hi")
