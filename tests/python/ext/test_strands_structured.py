"""The older way to have an agent of Strands say a value: ``structured_output_async``, and ``structured_output``."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field, PrivateAttr
from strands import Agent, tool
from strands.hooks import BeforeInvocationEvent
from strands.types._events import ModelStopReason

import hitl
from hitl import RunState
from tests.python.ext.strands_runs import Speaking, proved, says
from tests.python.support.prefixes import Effects


class City(BaseModel):
    name: str = Field(validation_alias="called", serialization_alias="title")
    since: date
    _seen: int = PrivateAttr(7)


class Naming(Speaking):
    """A model that knows a city, and notes how often it was asked for it."""

    def __init__(self, asked: list[Any], kind: type[BaseModel] = City) -> None:
        super().__init__(lambda messages: "")
        self.asked = asked
        self.made = kind.model_validate({"called": "Oslo", "since": "1048-01-01"})

    async def structured_output(  # type: ignore[override]
        self, output_model: Any, prompt: Any, system_prompt: str | None = None, **more: Any
    ) -> AsyncIterator[Any]:
        self.asked.append(prompt[-1]["content"][0]["text"])
        usage: Any = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
        yield ModelStopReason("tool_use", {"role": "assistant", "content": []}, usage, {"latencyMs": 1})
        yield {"output": self.made}


@pytest.fixture(autouse=True)
def _is_deprecated() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def guide(asked: list[Any], how: str = "async") -> Agent:
    """An agent with a tool that has another one name a city, and then asks a person."""

    @tool
    async def name_city() -> str:
        """Name a city."""
        city = await Agent(model=Naming(asked), name="namer").structured_output_async(City, "Which?")
        return f"{city!r} {city._seen} {await hitl.interrupt({'type': 'confirm'})}"

    @tool
    def name_city_in_a_thread() -> str:
        """Name a city."""
        city = Agent(model=Naming(asked), name="namer").structured_output(City, "Which?")
        return f"{city!r} {city._seen} {hitl.interrupt.sync({'type': 'confirm'})}"

    named = name_city if how == "async" else name_city_in_a_thread
    return Agent(model=says([(named.tool_name, {})]), name="guide", tools=[named])


@pytest.mark.parametrize("how", ["async", "in a thread"])
async def test_a_model_that_is_asked_for_a_value_is_asked_once(how: str) -> None:
    asked: list[Any] = []
    agent = guide(asked, how)
    first = await hitl.run(agent, "go")
    assert (first.status, asked) == ("interrupted", ["Which?"])
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.answer(state.interrupts[0], "yes"))
    city = "City(name='Oslo', since=datetime.date(1048, 1, 1)) 7 yes"
    assert (result.output, asked) == (f'[["success", "{city}"]]', ["Which?"])


async def test_a_class_of_a_function_comes_back_too() -> None:
    class Local(BaseModel):
        called: str
        since: date

    asked: list[Any] = []

    @tool
    async def name_city() -> str:
        """Name a city."""
        city = await Agent(model=Naming(asked, Local), name="namer").structured_output_async(Local, "Which?")
        return f"{city!r} {await hitl.interrupt({'type': 'confirm'})}"

    agent = Agent(model=says([("name_city", {})]), name="guide", tools=[name_city])
    first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.answer(state.interrupts[0], "yes"))
    assert "Local(called='Oslo', since=datetime.date(1048, 1, 1)) yes" in (result.output or "")
    assert asked == ["Which?"]


async def test_every_prefix_of_a_journal_leads_to_the_same_value_and_its_use_is_counted() -> None:
    def make(effects: Effects) -> Agent:
        return guide(effects)

    run, _ = await proved(make, lambda question: "yes")
    steps = [entry for entry in run.port.journal if entry["entry"] == "step" and entry["step"]["kind"] == "model"]
    (named,) = [each for each in steps if each["step"]["path"].endswith("model:namer")]
    assert named["result"]["value"]["usage"] == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


async def test_hooks_of_an_agent_that_is_asked_for_a_value_run_as_of_any() -> None:
    began: list[str] = []

    def make(effects: Effects) -> Agent:
        async def look(event: BeforeInvocationEvent) -> None:
            began.append(event.agent.name)

        @tool
        async def name_city() -> str:
            """Name a city."""
            namer = Agent(model=Naming([]), name="namer")
            namer.hooks.add_callback(BeforeInvocationEvent, look)
            return (await namer.structured_output_async(City, "Which?")).name

        return Agent(model=says([("name_city", {})]), name="guide", tools=[name_city])

    await proved(make)
    assert set(began) == {"namer"}


async def test_a_turn_of_an_earlier_release_in_which_it_was_no_step_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    agent = guide(asked)
    with monkeypatch.context() as earlier:
        earlier.setattr(Agent, "structured_output_async", inspect.unwrap(Agent.structured_output_async))
        first = await hitl.run(agent, "go")
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.answer(state.interrupts[0], "yes"))
    assert "Oslo" in (result.output or "")
    assert asked == ["Which?", "Which?"]


async def test_outside_of_turns_nothing_changes() -> None:
    asked: list[Any] = []
    city = await Agent(model=Naming(asked), name="namer").structured_output_async(City, "Which?")
    assert (city.name, asked) == ("Oslo", ["Which?"])
