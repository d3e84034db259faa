"""A call whose arguments are too large to be shown to anybody does not run, and the model is told; the turn goes on."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool, set_tracing_disabled
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy
from pydantic_ai import Agent, ApprovalRequired, CallDeferred, ExternalToolset, RunContext, ToolDefinition

import hitl
from tests.python.ext import langgraph_runs, openai_agents_runs, pydantic_ai_runs
from tests.python.ext.pydantic_ai_runs import APPROVE
from tests.python.ext.rules import judged
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.prefixes import Effects

TOO_LARGE = r"20\d\d\d bytes.*the limit is 16384"
CALLS: Any = [("write", {"text": "x" * 20_000}), ("write", {"text": "short"})]


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def approve_short(asked: Any) -> Any:
    assert asked["payload"]["tool_args"] == {"text": "short"}
    return APPROVE


# -- pydantic-ai -------------------------------------------------------------------------------------------------------


def gated(effects: Effects) -> Any:
    agent = Agent(pydantic_ai_runs.says(CALLS), name="writer")

    @agent.tool_plain(requires_approval=True)
    def write(text: str) -> str:
        effects.append(text)
        return "written"

    return agent


def asked_by_a_validator(effects: Effects) -> Any:
    def check(ctx: RunContext[None], text: str) -> None:
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    agent = Agent(pydantic_ai_runs.says(CALLS), name="writer")

    @agent.tool_plain(args_validator=check)
    def write(text: str) -> str:
        effects.append(text)
        return "written"

    return agent


@pytest.mark.parametrize("make", [gated, asked_by_a_validator], ids=lambda it: it.__name__)
async def test_a_model_of_pydantic_ai_is_told(make: Any) -> None:
    run, said = await pydantic_ai_runs.proved(make, approve_short)
    assert run.effects == ["short"]
    (outcome, told), written = said
    assert (outcome, written) == ("denied", ["success", "written"])
    assert_too_large(told)


def external(effects: Effects) -> Any:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    outside = ExternalToolset([ToolDefinition(name="write", parameters_json_schema=schema)])
    return Agent(pydantic_ai_runs.says(CALLS), name="writer", toolsets=[outside])


def put_off_in_its_body(effects: Effects) -> Any:
    agent = Agent(pydantic_ai_runs.says(CALLS), name="writer")

    @agent.tool_plain
    def write(text: str) -> str:
        raise CallDeferred

    return agent


def put_off_by_a_validator(effects: Effects) -> Any:
    def check(ctx: RunContext[None], text: str) -> None:
        raise CallDeferred

    agent = Agent(pydantic_ai_runs.says(CALLS), name="writer")

    @agent.tool_plain(args_validator=check)
    def write(text: str) -> str:
        return "never"

    return agent


async def test_where_the_schema_is_too_large_an_edit_is_not_offered() -> None:
    def make(effects: Effects) -> Any:
        agent = Agent(pydantic_ai_runs.says(CALLS[1:]), name="writer")

        @agent.tool_plain(requires_approval=True)
        def write(text: Literal["short", *(f"text {at}" for at in range(9_000))]) -> str:  # type: ignore[valid-type]
            effects.append(text)
            return "written"

        return agent

    run, said = await pydantic_ai_runs.proved(make, approve_short)
    [asked] = run.requests
    assert (asked["allowed_decisions"], asked["args_schema"]) == (["approve", "reject", "respond"], None)
    assert (run.effects, said) == (["short"], [["success", "written"]])


@pytest.mark.parametrize("make", [external, put_off_in_its_body, put_off_by_a_validator], ids=lambda it: it.__name__)
async def test_so_it_is_of_what_others_are_to_do(make: Any) -> None:
    _, said = await pydantic_ai_runs.proved(make, lambda asked: "written")
    (outcome, told), written = said
    assert (outcome, written) == ("failed", ["success", "written"])
    assert_too_large(told)


# -- LangChain ---------------------------------------------------------------------------------------------------------


def writing(effects: Effects) -> Any:
    @tool
    def write(text: str) -> str:
        """Write."""
        effects.append(text)
        return "written"

    return write


def writer(effects: Effects, mode: Any, *allowed: Any, calls: Any = CALLS) -> Any:
    gate = HumanInTheLoopMiddleware[Any, Any]({"write": {"allowed_decisions": list(allowed)}}, interrupt_mode=mode)
    return create_agent(langgraph_runs.says(calls), [writing(effects)], middleware=[gate], name="writer")


@pytest.mark.parametrize("mode", ["per_call", "batched"])
async def test_a_model_of_langchain_is_told(mode: Any) -> None:
    run, said = await langgraph_runs.proved(lambda made: writer(made, mode, "approve", "reject"), approve_short)
    assert run.effects == ["short"]
    (status, told), written = said
    assert (status, written) == ("error", ["success", "written"])
    assert_too_large(told)


@pytest.mark.parametrize("mode", ["per_call", "batched"])
async def test_where_the_middleware_allows_no_reject_the_turn_says_it(mode: Any) -> None:
    effects: Effects = []
    with pytest.raises(hitl.PayloadTooLarge, match=TOO_LARGE):
        await langgraph_runs.proved(lambda made: writer(effects, mode, "approve", "respond", calls=CALLS[:1]))
    assert effects == []


@pytest.mark.parametrize("retry", [True, False], ids=["retried", "not retried"])
async def test_a_node_is_not_tried_again_for_a_call_of_its_own(retry: bool) -> None:
    tries: Effects = []
    write = writing([])

    async def act(state: MessagesState) -> Any:
        tries.append("try")
        await write.ainvoke({"text": "x" * 20_000})

    policy = RetryPolicy(max_attempts=3, initial_interval=0.0, retry_on=Exception) if retry else None
    graph = StateGraph(MessagesState).add_node("act", act, retry_policy=policy).add_edge(START, "act").compile()
    with pytest.raises(hitl.PayloadTooLarge):
        await judged(graph, too_large)
    assert tries == ["try"]


# -- OpenAI Agents SDK -------------------------------------------------------------------------------------------------


async def test_a_model_of_the_openai_agents_sdk_is_told() -> None:
    def make(effects: Effects) -> Any:
        @function_tool(needs_approval=True)
        def write(text: str) -> str:
            effects.append(text)
            return "written"

        return OpenAIAgent(name="writer", model=openai_agents_runs.Says(CALLS), tools=[write])

    run, (told, written) = await openai_agents_runs.proved(make, approve_short)
    assert (run.effects, written) == (["short"], "written")
    assert_too_large(told)


# -- where a rule would have it shown ----------------------------------------------------------------------------------


def too_large(request: Any) -> Any:
    """A rule that has people asked, who can be shown no more than the server says."""
    if len(str(request["payload"])) > 16_384:
        raise hitl.PayloadTooLarge("20068 bytes, the limit is 16384")
    return PENDING


def ruled(local: LocalTurn) -> None:
    local.port.decide_at_once = too_large


def ungated_of_pydantic_ai(effects: Effects) -> Any:
    agent = Agent(pydantic_ai_runs.says(CALLS), name="writer")

    @agent.tool_plain
    def write(text: str) -> str:
        effects.append(text)
        return "written"

    return agent


def ungated_of_langchain(effects: Effects) -> Any:
    return create_agent(langgraph_runs.says(CALLS), [writing(effects)], name="writer")


@pytest.mark.parametrize(
    ("proved", "make"),
    [(pydantic_ai_runs.proved, ungated_of_pydantic_ai), (langgraph_runs.proved, ungated_of_langchain)],
    ids=["pydantic-ai", "langchain"],
)
async def test_a_model_is_told_where_a_rule_wants_it_shown(proved: Any, make: Any) -> None:
    run, said = await proved(make, lambda asked: APPROVE, setup=ruled, journal_start={"policy": True})
    assert run.effects == ["short"]
    assert said[1] == ["success", "written"]
    assert_too_large(said[0][1])


def assert_too_large(told: str) -> None:
    assert "bytes" in told
    assert "the limit is 16384" in told
