"""Rules hold for an agent of Strands that a tool runs, however it does so: what cannot wait for them is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from strands import Agent, ToolContext, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.hooks import BeforeToolCallEvent
from strands.multiagent import GraphBuilder
from strands.types.exceptions import ContextWindowOverflowException

from tests.python.ext.rules import DENIED, judged
from tests.python.ext.strands_runs import Speaking, says

Runs = Callable[[Agent], Any]
"""How a tool runs an agent."""


def outer(drops: list[str], run: Runs, arguments: dict[str, Any]) -> Agent:
    @tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append("dropped")
        return "dropped"

    @tool
    def ask() -> str:
        """Ask."""
        return str(run(Agent(says([("drop", arguments)]), tools=[drop], name="inner", callback_handler=None)))

    return Agent(says([("ask", {})]), tools=[ask], name="outer", callback_handler=None)


def as_graph(agent: Agent) -> Any:
    builder = GraphBuilder()
    builder.add_node(agent, "inner")
    builder.set_max_node_executions(1)
    return builder.build()("go").results["inner"].result


@pytest.mark.parametrize("run", [lambda agent: agent("go"), as_graph], ids=["agent", "graph"])
async def test_what_an_agent_calls_that_a_plain_tool_runs_is_judged(run: Runs) -> None:
    denied: list[str] = []
    said, _ = await judged(outer(denied, run, {"force": True}))
    assert denied == []
    assert "forced" in said
    allowed: list[str] = []
    said, local = await judged(outer(allowed, run, {"force": False}))
    assert (allowed, "dropped" in said) == (["dropped"], True)
    assert "drop" in [entry["step"]["name"] for entry in local.port.journal if entry["entry"] == "step"]


def run_apart(agent: Agent) -> Any:
    return asyncio.run(agent.invoke_async("go"))


async def test_an_agent_that_runs_where_no_rule_can_be_asked_calls_nothing() -> None:
    drops: list[str] = []
    said, _ = await judged(outer(drops, run_apart, {"force": False}))
    assert drops == []
    assert "runs past the turn's event loop, where alone the rules of the policy can be asked about its tools" in said


async def test_it_runs_as_ever_where_there_are_no_rules() -> None:
    drops: list[str] = []
    said, _ = await judged(outer(drops, run_apart, {"force": False}), None)
    assert (drops, "dropped" in said) == (["dropped"], True)


async def test_what_a_plain_tool_calls_by_name_runs_as_ever() -> None:
    drops: list[str] = []

    @tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append("dropped")
        return "dropped"

    @tool(context=True)
    def ask(tool_context: ToolContext) -> str:
        """Ask."""
        return str(tool_context.agent.tool.drop(force=True, record_direct_tool_call=False))

    said, _ = await judged(Agent(says([("ask", {})]), tools=[ask, drop], name="outer", callback_handler=None))
    assert (drops, "dropped" in said) == (["dropped"], True)


async def test_one_that_calls_nothing_runs_there_as_ever() -> None:
    came: list[str] = []

    def classify(_: Agent) -> str:
        came.append(str(run_apart(Agent(says(), name="classifier", callback_handler=None))))
        return "classified"

    said, _ = await judged(outer([], classify, {}))
    assert len(came) == 1
    assert "classified" in said


async def test_an_agent_that_sums_up_the_conversation_runs_as_ever() -> None:
    """It is called on the loop, and has a tool of Strands' own that does nothing."""
    asked: list[int] = []

    def reply(messages: list[Any]) -> str:
        asked.append(len(messages))
        if len(asked) == 1:
            raise ContextWindowOverflowException("too long")
        return "went on"

    summing = Agent(Speaking(lambda _: "a summary", "s", True), name="summing", callback_handler=None)
    manager = SummarizingConversationManager(summarization_agent=summing, preserve_recent_messages=1, summary_ratio=0.8)
    said: list[Any] = [
        {"role": role, "content": [{"text": "hello"}]} for _ in range(6) for role in ("user", "assistant")
    ]
    agent = Agent(
        Speaking(reply, "c", True), name="outer", callback_handler=None, conversation_manager=manager, messages=said
    )
    came, _ = await judged(agent)
    assert came == "went on"
    assert asked[1] < asked[0]


class Limit(BaseModel):
    """A model that is read by two names of one field, of which its schema has one."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    max_cents: int = 5


@pytest.mark.parametrize(("written", "asked"), [({"max_cents": 900}, 1), ({"maxCents": 900}, 0), ({}, 0)], ids=str)
async def test_a_person_is_asked_where_a_field_is_read_by_a_name_that_its_schema_has_not(
    written: dict[str, int], asked: int
) -> None:
    drops: list[Any] = []

    @tool
    def drop(limit: Limit) -> str:
        """Drop."""
        drops.append(limit)
        return "dropped"

    _, local = await judged(Agent(says([("drop", {"limit": written})]), tools=[drop], callback_handler=None))
    said = [each.request for each in local.port.interrupts if each.request.get("required", True)]
    cents = next(iter(written.values()), 5)
    assert (len(said), drops) == (asked, [{"max_cents": cents}])  # as Strands gives it


async def test_rules_see_the_tool_that_a_hook_puts_in_the_place_of_another() -> None:
    drops: list[bool] = []

    @tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append(force)
        return "dropped"

    @tool
    def look(force: bool) -> str:
        """Look."""
        return "looked"

    def dropping(event: BeforeToolCallEvent) -> None:
        event.selected_tool = drop

    def no_drop(request: Any) -> Any:
        return DENIED if request["payload"]["tool_name"] == "drop" else {"type": "approve", "by": "policy"}

    agent = Agent(says([("look", {"force": True})]), tools=[look], callback_handler=None)
    agent.hooks.add_callback(BeforeToolCallEvent, dropping)
    said, _ = await judged(agent, no_drop)
    assert (drops, "forced" in said) == ([], True)
