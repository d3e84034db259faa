"""The `timeout=` of a function tool counts what the tool does, and not the time of people whom it asks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, ToolTimeoutError, function_tool, set_tracing_disabled

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import as_agent
from tests.python.ext.openai_agents_runs import Says, proved
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def chooser(works: asyncio.Event | None = None, **options: Any) -> Agent[Any]:
    """Has a person choose a colour, in a tool whose time is soon over; then the tool waits for ``works``."""

    @function_tool(timeout=0.01, **options)
    async def choose() -> str:
        colour = await hitl.interrupt({"type": "colour"})
        if works is not None:
            await works.wait()
        return f"chose {colour}"

    return Agent(name="chooser", model=Says([("choose", {})]), tools=[choose])


async def ran(agent: Any, answers: Any, journal: Any = None) -> str:
    loaded = as_agent(agent)
    local = LocalTurn(answers, agent=loaded.name, journal=journal)
    try:
        reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    finally:
        await local.end()
    return reply.content or ""


async def slowly(asked: Any) -> Any:
    """A person, who takes longer than the tool may."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, over.set)
    await over.wait()
    return "blue"


async def test_the_time_that_a_person_takes_does_not_count() -> None:
    assert await ran(chooser(), slowly) == '["chose blue"]'


async def test_what_the_tool_takes_does_and_the_model_is_told_as_the_sdk_tells_it() -> None:
    _, said = await proved(lambda effects: chooser(asyncio.Event()), lambda asked: "blue")
    assert said == ["Tool 'choose' timed out after 0.01 seconds."]


async def test_the_model_is_told_what_the_tool_says_of_it() -> None:
    async def say(context: RunContextWrapper[Any], error: Exception) -> str:
        assert isinstance(error, ToolTimeoutError)
        return f"{error.tool_name} took longer than {error.timeout_seconds} s"

    agent = chooser(asyncio.Event(), timeout_error_function=say)
    assert await ran(agent, lambda asked: "blue") == '["choose took longer than 0.01 s"]'


async def test_where_the_tool_says_so_the_run_ends_with_the_sdk_s_error() -> None:
    agent = chooser(asyncio.Event(), timeout_behavior="raise_exception")
    with pytest.raises(ToolTimeoutError):
        await ran(agent, lambda asked: "blue")


async def test_a_timeout_error_of_the_tool_s_own_is_its_own() -> None:
    def make(effects: Effects) -> Agent[Any]:
        @function_tool(timeout=60, failure_error_function=None)
        async def look() -> str:
            raise TimeoutError("the bank does not answer")

        return Agent(name="looker", model=Says([("look", {})]), tools=[look])

    with pytest.raises(Exception, match="the bank does not answer"):
        await ran(make([]), None)


async def test_a_question_of_the_tool_is_known_by_the_name_that_older_versions_gave_it() -> None:
    asked = await hitl.run(chooser(), "go")
    journal = json.loads(asked.state.to_string())["journal"]
    (question,) = (entry["step"]["path"] for entry in journal if entry["entry"] == "ask")
    assert question == "~tool:choose-0-0-0/0.1#1"
