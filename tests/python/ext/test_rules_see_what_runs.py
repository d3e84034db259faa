"""Rules are judged by the arguments that a tool runs with, whatever its framework makes of those that a model wrote,
and by whichever way a call comes."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from agents import Agent as OpenAIAgent
from agents import ApplyPatchTool, HostedMCPTool, function_tool, set_tracing_disabled
from agents.editor import ApplyPatchResult
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain_core.messages import AIMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from openai.types.responses.response_apply_patch_tool_call import ResponseApplyPatchToolCall
from openai.types.responses.response_output_item import McpApprovalRequest
from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_ai import Agent

from hitl import _core
from hitl.ext import arguments
from hitl.ext.arguments import names_unknown
from tests.python.ext import langgraph_runs, openai_agents_runs, pydantic_ai_runs
from tests.python.ext.rules import DENIED, judged, no_force
from tests.python.support.local import PENDING

Drops = list[Any]
"""What a tool was called with."""


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def pydantic_ai_agent(drops: Drops, arguments: dict[str, Any]) -> Any:
    agent = Agent(pydantic_ai_runs.says([("drop", arguments)]), name="dropper")

    @agent.tool_plain
    def drop(force: bool = True) -> str:
        drops.append(force)
        return "dropped"

    return agent


def langchain_agent(drops: Drops, arguments: dict[str, Any], name: str = "dropper", **options: Any) -> Any:
    @langchain_tool
    def drop(force: bool = True) -> str:
        """Drop."""
        drops.append(force)
        return "dropped"

    return create_agent(langgraph_runs.says([("drop", arguments)]), [drop], name=name, **options)


def reviewed_agent(drops: Drops, arguments: dict[str, Any], name: str = "dropper") -> Any:
    """One whose middleware has a person asked, who says yes."""
    return langchain_agent(drops, arguments, name, middleware=[HumanInTheLoopMiddleware({"drop": True})])


def nested_agent(drops: Drops, arguments: dict[str, Any]) -> Any:
    """The same, asked by a tool of another: what its tools are is not known where a person is asked."""
    inner = reviewed_agent(drops, arguments)

    @langchain_tool
    async def ask() -> str:
        """Ask."""
        return str((await inner.ainvoke({"messages": [("user", "go")]}))["messages"][-1].text)

    return create_agent(langgraph_runs.says([("ask", {})]), [ask], name="outer")


def nested_namesake(drops: Drops, arguments: dict[str, Any]) -> Any:
    """The same without a name, where the outer one has a tool of that name too, with another default."""

    @langchain_tool
    def drop(force: bool = True) -> str:
        """Drop."""
        drops.append(force)
        return "dropped"

    review = HumanInTheLoopMiddleware({"drop": True})
    inner = create_agent(langgraph_runs.says([("drop", arguments)]), [drop], middleware=[review])

    @langchain_tool("drop")
    def gentle(force: bool = False) -> str:
        """Drop nothing."""
        return "kept"

    @langchain_tool
    async def ask() -> str:
        """Ask."""
        return str((await inner.ainvoke({"messages": [("user", "go")]}))["messages"][-1].text)

    return create_agent(langgraph_runs.says([("ask", {})]), [ask, gentle])


def openai_agent(drops: Drops, arguments: dict[str, Any]) -> Any:
    @function_tool(strict_mode=False)
    def drop(force: bool = True) -> str:
        drops.append(force)
        return "dropped"

    return OpenAIAgent(name="dropper", model=openai_agents_runs.Says([("drop", arguments)]), tools=[drop])


AGENTS = [pydantic_ai_agent, langchain_agent, reviewed_agent, nested_agent, nested_namesake, openai_agent]


@pytest.mark.parametrize("make", AGENTS)
@pytest.mark.parametrize("arguments", [{"force": True}, {"force": "true"}, {"force": 1}, {}], ids=str)
async def test_what_a_framework_converts_and_fills_in_is_denied_as_what_it_becomes(
    make: Callable[[Drops, dict[str, Any]], Any], arguments: dict[str, Any]
) -> None:
    drops: Drops = []
    await judged(make(drops, arguments))
    assert drops == []


async def test_a_person_is_shown_nothing_of_another_tool_that_has_the_name_of_a_nested_agents() -> None:
    drops: Drops = []
    _, local = await judged(nested_namesake(drops, {}), rule=None)
    (asked,) = [each.request for each in local.port.interrupts]
    assert (asked["payload"]["tool_args"], drops) == ({}, [True])


@pytest.mark.parametrize("make", AGENTS)
async def test_what_no_rule_forbids_runs(make: Callable[[Drops, dict[str, Any]], Any]) -> None:
    drops: Drops = []
    await judged(make(drops, {"force": False}))
    assert drops == [False]


async def test_a_model_is_told_what_does_not_fit_where_nobody_else_can_tell() -> None:
    said, _ = await judged(openai_agent([], {"force": "true"}))
    assert 'drop did not run, for its arguments do not fit its schema: force: \\"true\\" is not of type' in said


def _cents(euros: Any) -> Any:
    return euros * 100


async def test_a_person_is_asked_where_what_runs_cannot_be_shown() -> None:
    """A rule cannot tell of what is converted once more when a person leaves it as it is."""

    drops: Drops = []
    agent = Agent(pydantic_ai_runs.says([("pay", {"amount": 5})]), name="payer")

    @agent.tool_plain
    def pay(amount: Annotated[int, BeforeValidator(_cents)]) -> str:
        drops.append(amount)
        return "paid"

    _, local = await judged(agent)
    (asked,) = [each.request for each in local.port.interrupts]
    assert (asked["payload"]["tool_args"], asked["required"], drops) == ({"amount": 5}, True, [500])


class Limit(BaseModel):
    """A model that is read by two names of one field, of which its schema has one."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    max_cents: int = 5


def limited_by_openai(drops: Drops, arguments: dict[str, Any]) -> Any:
    @function_tool(strict_mode=False)
    def drop(limit: Limit) -> str:
        drops.append(limit.max_cents)
        return "dropped"

    return OpenAIAgent(name="dropper", model=openai_agents_runs.Says([("drop", arguments)]), tools=[drop])


def limited_by_langchain(drops: Drops, arguments: dict[str, Any]) -> Any:
    @langchain_tool
    def drop(limit: Limit) -> str:
        """Drop."""
        drops.append(limit.max_cents)
        return "dropped"

    return create_agent(langgraph_runs.says([("drop", arguments)]), [drop], name="dropper")


def limited_by_pydantic_ai(drops: Drops, arguments: dict[str, Any]) -> Any:
    agent = Agent(pydantic_ai_runs.says([("drop", arguments)]), name="dropper")

    @agent.tool_plain
    def drop(limit: Limit, more: int = 0) -> str:
        drops.append(limit.max_cents)
        return "dropped"

    return agent


@pytest.mark.parametrize("make", [limited_by_openai, limited_by_langchain, limited_by_pydantic_ai])
async def test_a_person_is_asked_where_a_field_is_read_by_a_name_that_its_schema_has_not(
    make: Callable[[Drops, dict[str, Any]], Any],
) -> None:
    for written, asked in ({"max_cents": 900}, 1), ({"maxCents": 900}, 0), ({}, 0):
        drops: Drops = []
        _, local = await judged(make(drops, {"limit": written}))
        said = [each.request for each in local.port.interrupts if each.request.get("required", True)]
        assert (len(said), drops) == (asked, [next(iter(written.values()), 5)])


async def test_rules_see_the_tool_that_middleware_puts_in_the_place_of_another() -> None:
    drops: Drops = []

    @langchain_tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append(force)
        return "dropped"

    @langchain_tool
    def look(force: bool) -> str:
        """Look."""
        return "looked"

    @wrap_tool_call
    async def dropping(request: Any, handler: Callable[[Any], Any]) -> Any:
        return await handler(request.override(tool=drop))

    def no_drop(request: Any) -> Any:
        if request["payload"]["tool_name"] == "drop":
            return DENIED
        return PENDING if request.get("required", True) else {"type": "approve", "by": "policy"}

    for before in [], [HumanInTheLoopMiddleware({"look": True})]:
        model = langgraph_runs.says([("look", {"force": True})])
        agent = create_agent(model, [look], name="dropper", middleware=[*before, dropping])
        said, _ = await judged(agent, no_drop)
        assert (drops, "forced" in said) == ([], True)


class Branch(BaseModel):
    kids: list[Branch | Twig] = []


class Twig(BaseModel):
    kids: list[Branch | Twig] = []
    cents: int = 0


@pytest.mark.parametrize(("leaf", "names_one"), [({}, False), ({"cents": 1}, False), ({"sense": 1}, True)], ids=str)
def test_what_a_schema_says_of_a_value_is_found_out_once_however_many_ways_lead_there(
    leaf: dict[str, Any], names_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[Any] = []

    def validate(schema: Any, value: Any) -> Any:
        looked_at.append(value)
        return _core.validate(schema, value)

    monkeypatch.setattr(arguments, "_core", SimpleNamespace(validate=validate, to_json=_core.to_json))
    value = leaf
    for _ in range(14):
        value = {"kids": [value]}
    assert names_unknown(Branch.model_json_schema(), value) is names_one
    assert len(looked_at) < 100  # and not two ways for each of the levels


async def test_a_number_that_json_does_not_have_ends_no_turn_where_kinds_are_told_apart() -> None:
    drops: Drops = []

    @function_tool(strict_mode=False)
    def drop(amount: Branch | Limit) -> str:
        drops.append(amount)
        return "dropped"

    model = openai_agents_runs.Says([("drop", {"amount": {"max_cents": math.nan}})])
    for rule in None, no_force:
        said, _ = await judged(OpenAIAgent(name="dropper", model=model, tools=[drop]), rule)
        assert ("no JSON" in said) is (rule is not None)


# -- ways that a call comes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "async"])
async def test_calls_of_a_tool_node_in_a_node_of_ones_own(is_plain: bool) -> None:
    drops: Drops = []

    @langchain_tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append(force)
        return "dropped"

    tools = ToolNode([drop])
    call = AIMessage("", tool_calls=[{"name": "drop", "args": {"force": True}, "id": "c1"}])

    def plain(state: MessagesState) -> Any:
        return {"messages": [call, *tools.invoke({"messages": [call]})["messages"]]}

    async def asynchronous(state: MessagesState) -> Any:
        return {"messages": [call, *(await tools.ainvoke({"messages": [call]}))["messages"]]}

    node = plain if is_plain else asynchronous
    said, _ = await judged(StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile())
    assert (drops, "forced" in said) == ([], True)


async def test_calls_that_a_plain_function_is_wrapped_around() -> None:
    drops: Drops = []
    seen: list[str] = []

    @langchain_tool
    def drop(force: bool) -> str:
        """Drop."""
        drops.append(force)
        return "dropped"

    def watched(request: Any, execute: Callable[[Any], Any]) -> Any:
        seen.append(request.tool_call["name"])
        return execute(request)

    call = AIMessage("", tool_calls=[{"name": "drop", "args": {"force": True}, "id": "c1"}])
    tools = ToolNode([drop], wrap_tool_call=watched)
    graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [call]}).add_node("tools", tools)
    said, _ = await judged(graph.add_edge(START, "say").add_edge("say", "tools").compile())
    assert (drops, seen, "forced" in said) == ([], ["drop"], True)


async def test_an_approved_call_lets_no_other_agents_call_pass_that_has_its_id() -> None:
    drops: Drops = []

    async def ask(agent: Any) -> Any:
        return {"messages": (await agent.ainvoke({"messages": [("user", "go")]}))["messages"][-1:]}

    def only_one(request: Any) -> Any:
        if request["agent"] == "other":
            return DENIED
        return PENDING if request.get("required", True) else {"type": "approve", "by": "policy"}

    one = reviewed_agent(drops, {"force": False}, name="one")
    other = langchain_agent(drops, {"force": False}, name="other")

    async def ask_one(state: MessagesState) -> Any:
        return await ask(one)

    async def ask_other(state: MessagesState) -> Any:
        return await ask(other)

    graph = StateGraph(MessagesState).add_node("one", ask_one).add_node("other", ask_other)
    said, _ = await judged(graph.add_edge(START, "one").add_edge("one", "other").compile(), only_one)
    assert (drops, "forced" in said) == ([False], True)


async def test_what_a_program_says_of_a_hosted_servers_call_comes_after_the_rules() -> None:
    config: Any = {"type": "mcp", "server_label": "db", "server_url": "http://127.0.0.1/", "require_approval": "always"}
    asked: list[Any] = []

    def approve(request: Any) -> Any:
        asked.append(request)
        return {"approve": True}

    call = McpApprovalRequest(
        id="r1", type="mcp_approval_request", name="drop", server_label="db", arguments='{"force": true}'
    )
    model = openai_agents_runs.Says([call], seen=(seen := []))
    tools: Any = [HostedMCPTool(tool_config=config, on_approval_request=approve)]
    await judged(OpenAIAgent(name="dropper", model=model, tools=tools))
    (verdict,) = [item for item in seen[-1] if item.get("type") == "mcp_approval_response"]
    assert (verdict["approve"], asked) == (False, [])


async def test_a_patch_that_a_person_approved_for_a_rule_is_made_once() -> None:
    class Editor:
        def delete_file(self, operation: Any) -> ApplyPatchResult:
            return ApplyPatchResult(status="completed", output="gone")

        create_file = update_file = delete_file

    operation: Any = {"type": "delete_file", "path": "a.txt"}
    call = ResponseApplyPatchToolCall(
        id="p", type="apply_patch_call", call_id="p1", status="completed", operation=operation
    )
    tools: Any = [ApplyPatchTool(editor=Editor())]
    agent = OpenAIAgent(name="patcher", model=openai_agents_runs.Once(call), tools=tools)
    _, local = await judged(agent, lambda request: PENDING)
    assert [entry["step"]["name"] for entry in local.port.journal if entry["entry"] == "intent"] == ["apply_patch"]
