"""The `timeout=` of a function tool counts what the tool does, and not the time of people whom it asks."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, ToolTimeoutError, function_tool, set_tracing_disabled

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import as_agent
from tests.python.ext.openai_agents_runs import Says
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


A_DAY = 86_400


class Clock:
    """The clocks of the loop and of the journal, which a test may put forward: timers that are due then fire."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of_loop, wall, wall_ns = time.monotonic, time.time, time.time_ns
        self.ahead = 0
        monkeypatch.setattr(time, "monotonic", lambda: of_loop() + self.ahead)
        monkeypatch.setattr(time, "time", lambda: wall() + self.ahead)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + self.ahead * 1_000_000_000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def chooser(clock: Clock | None = None, **options: Any) -> Agent[Any]:
    """Has a person choose a colour, in a tool that may take a minute, and with a ``clock`` then takes a day itself."""

    @function_tool(timeout=60, **options)
    async def choose() -> str:
        colour = await hitl.interrupt({"type": "colour"})
        if clock is not None:
            clock.ahead += A_DAY
            await asyncio.Event().wait()
        return f"chose {colour}"

    return Agent(name="chooser", model=Says([("choose", {})]), tools=[choose])


async def ran(agent: Any, answers: Any) -> str:
    loaded = as_agent(agent)
    local = LocalTurn(answers, agent=loaded.name)
    try:
        reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    finally:
        await local.end()
    return reply.content or ""


async def test_the_time_that_a_person_takes_does_not_count(clock: Clock) -> None:
    async def person(asked: Any) -> Any:
        clock.ahead += A_DAY
        for _ in range(20):  # so that timers fire that had not been stopped, and what follows from that
            await asyncio.sleep(0)
        return "blue"

    assert await ran(chooser(), person) == '["chose blue"]'


async def test_what_the_tool_takes_does_and_the_model_is_told_as_the_sdk_tells_it(clock: Clock) -> None:
    said = await ran(chooser(clock), lambda asked: "blue")
    assert said == "[\"Tool 'choose' timed out after 60 seconds.\"]"


async def test_the_model_is_told_what_the_tool_says_of_it(clock: Clock) -> None:
    async def say(context: RunContextWrapper[Any], error: Exception) -> str:
        assert isinstance(error, ToolTimeoutError)
        return f"{error.tool_name} took longer than {error.timeout_seconds:g} s"

    said = await ran(chooser(clock, timeout_error_function=say), lambda asked: "blue")
    assert said == '["choose took longer than 60 s"]'


async def test_where_the_tool_says_so_the_run_ends_with_the_sdk_s_error(clock: Clock) -> None:
    with pytest.raises(ToolTimeoutError):
        await ran(chooser(clock, timeout_behavior="raise_exception"), lambda asked: "blue")


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
