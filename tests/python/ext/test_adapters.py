"""Which object is taken as an agent, by which adapter, and what is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import agents
import pytest
from agents.testing import ScriptedModel, assistant_message
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import hitl
from hitl import ChatMessage
from hitl.driver import adapters
from hitl.driver.shapes import as_agent
from hitl.errors import AgentLoadError
from hitl.testing import HitlServer
from tests.python.support.local import run_locally


async def echo(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    reply = ChatMessage.assistant_message(content=f"you said {message.content}")
    return reply, [*state, message, reply]


def parrot() -> Agent:
    """What pydantic-ai's users have."""
    return Agent(TestModel(custom_output_text="hello"), name="parrot")


def triage() -> Any:
    """What users of the OpenAI Agents SDK have."""
    return agents.Agent(name="triage", model=ScriptedModel([[assistant_message("hello")]]))


def imported_by(code: str) -> set[str]:
    program = f"import json, sys; {code}; print(json.dumps(list(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return set(json.loads(out))


def test_who_uses_no_framework_imports_none_and_no_adapter() -> None:
    code = (
        "import hitl, hitl.worker.child, hitl.worker.loading, hitl.driver.shapes as s; s.as_agent(lambda m, n: (m, n))"
    )
    loaded = imported_by(code)
    assert not {name for name in loaded if name.startswith(("hitl.ext", "pydantic", "agents", "importlib.metadata"))}


def test_what_the_first_turn_of_pydantic_ai_would_make_is_made_before_workers_are_forked() -> None:
    code = """
import sys
import pydantic, hitl
from hitl.ext.pydantic_ai import as_agent
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
agent = Agent(TestModel(), name='first')
agent.tool_plain(lambda: 'seen', name='look')
served = as_agent(agent)
served.prepare()
before, made = set(sys.modules), []
build = pydantic.TypeAdapter._init_core_attrs
pydantic.TypeAdapter._init_core_attrs = lambda self, *args, **more: made.append(self) or build(self, *args, **more)
result = hitl.run_sync(served, 'hi')
assert result.status == 'idle', result.error
print(made, [name for name in sys.modules if name not in before and not name.startswith('hitl.')])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[] []\n"


@pytest.mark.parametrize("make", [parrot, triage])
def test_an_agent_is_served_as_it_is(hitl_server: HitlServer, make: Any) -> None:
    assert hitl_server(make()).send("hi").content == "hello"


@pytest.mark.parametrize("make", [parrot, triage])
async def test_an_agent_runs_as_it_is(make: Any) -> None:
    result = await hitl.run(make(), "hi")
    assert (result.status, result.output) == ("idle", "hello")


async def test_a_package_of_the_programs_own_may_have_the_name_of_a_frameworks(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(
        "class Robot:\n    async def run_turn(self, message, state): ...\nrobot = Robot()\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import agents, hitl.driver.shapes as s; "
    assert "hitl.ext" not in imported_by(code + "assert s.as_agent(agents.robot).name == 'Robot'")


def test_a_release_that_is_made_otherwise_inside_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is parked with another one does not go on by chance."""
    monkeypatch.delattr("agents.run_internal.tool_execution.function_needs_approval")
    for name in [name for name in sys.modules if name.startswith("hitl.ext.openai_agents")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        AgentLoadError, match="openai-agents [0-9.]+ has no agents.run_internal.tool_execution"
    ) as caught:
        as_agent(triage(), "app:agent")
    assert "pip install 'hitl-runtime[openai-agents]'" in (caught.value.hint or "")


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
    shapes = ("a function (message, state)", "run_turn(message, state)", "pydantic_ai.Agent", "agents.Agent")
    for taken in (*shapes, "without parameters"):
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


@pytest.mark.parametrize("make", [parrot, triage])
@pytest.mark.parametrize(
    "native", ["x", {}, {"form": "openai_agents"}, {"form": "pydantic_ai", "messages": None, "stands_for": 1}]
)
async def test_a_session_may_be_created_with_anything_beside_a_reply(make: Any, native: Any) -> None:
    """Only what an adapter has kept there is a conversation in its framework's own form."""
    before = [
        ChatMessage.user_message(content="hi"),
        ChatMessage.assistant_message(content="hello", user_params={"native": native}),
    ]
    assert (await run_locally(make(), "go", before)).response.content == "hello"
