"""Which object is taken as an agent, by which adapter, and what is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import hitl
from hitl import ChatMessage
from hitl.driver import adapters
from hitl.driver.shapes import as_agent
from hitl.errors import AgentLoadError
from hitl.testing import HitlServer


async def echo(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    reply = ChatMessage.assistant_message(content=f"you said {message.content}")
    return reply, [*state, message, reply]


def parrot() -> Agent:
    """What pydantic-ai's users have."""
    return Agent(TestModel(custom_output_text="hello"), name="parrot")


def imported_by(code: str) -> set[str]:
    program = f"import json, sys; {code}; print(json.dumps(list(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return set(json.loads(out))


def test_who_uses_no_framework_imports_none_and_no_adapter() -> None:
    code = (
        "import hitl, hitl.worker.child, hitl.worker.loading, hitl.driver.shapes as s; s.as_agent(lambda m, n: (m, n))"
    )
    loaded = imported_by(code)
    assert not {name for name in loaded if name.startswith(("hitl.ext", "pydantic", "importlib.metadata"))}


def test_an_agent_is_served_as_it_is(hitl_server: HitlServer) -> None:
    assert hitl_server(parrot()).send("hi").content == "hello"


async def test_an_agent_runs_as_it_is() -> None:
    result = await hitl.run(parrot(), "hi")
    assert (result.status, result.output) == ("idle", "hello")


async def test_a_decorated_agent_keeps_its_options() -> None:
    decorated: Any = hitl.agent(name="bird", version="7")(parrot())
    loaded = as_agent(decorated)
    assert (loaded.name, loaded.options.version) == ("bird", "7")
    assert (await hitl.run(decorated, "hi")).output == "hello"


@pytest.mark.parametrize("what", [echo, parrot()], ids=["ours", "theirs"])
async def test_a_factory_makes_the_agent_of_each_turn(what: Any) -> None:
    made = []

    def build() -> Any:
        made.append(what)
        return what

    async def build_later() -> Any:
        return build()

    for factory in (build, build_later):
        assert (await hitl.run(factory, "hi")).status == "idle"
    assert made == [what, what]
    assert as_agent(build).name == "build"


async def test_a_factory_that_makes_no_agent_is_an_error_of_the_turn() -> None:
    result = await hitl.run(lambda: 7, "hi")  # type: ignore[arg-type, return-value]
    assert result.status == "error"
    assert "what agent() returned is of type int, not an agent" in (result.error or "")


def test_what_nobody_takes_says_what_is_taken() -> None:
    with pytest.raises(AgentLoadError, match="app:agent is of type int, not an agent") as caught:
        as_agent(7, "app:agent")
    assert caught.value.hint is not None
    for taken in ("a function (message, state)", "run_turn(message, state)", "pydantic_ai.Agent", "without parameters"):
        assert taken in caught.value.hint


def test_something_else_of_a_framework_is_no_agent() -> None:
    with pytest.raises(AgentLoadError, match="app:agent is of type TestModel, not an agent") as caught:
        as_agent(TestModel(), "app:agent")
    assert caught.value.hint == "of pydantic_ai, pydantic_ai.Agent is taken"


def test_a_framework_that_cannot_be_used_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hitl.ext.pydantic_ai", None)
    with pytest.raises(AgentLoadError, match="app:agent is of pydantic_ai, and hitl cannot use what is") as caught:
        as_agent(parrot(), "app:agent")
    assert "pip install 'hitl-runtime[pydantic-ai]'" in (caught.value.hint or "")


async def test_others_offer_adapters_as_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Robot:
        """Of a package that hitl does not know."""

        __module__ = "robots.arms"

    class Adapted:
        name = "robot"

        run_turn = staticmethod(echo)

    offered = types.ModuleType("robots_for_hitl")
    offered.as_agent = lambda agent: Adapted()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "robots_for_hitl", offered)
    entry = EntryPoint("robots", "robots_for_hitl:as_agent", adapters.GROUP)
    adapters._others.cache_clear()
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry] if group == adapters.GROUP else [])
    try:
        assert (await hitl.run(Robot(), "hi")).output == "you said hi"  # type: ignore[arg-type]
        assert "an agent of robots" in adapters.accepted()
    finally:
        adapters._others.cache_clear()
