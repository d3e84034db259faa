"""What is said of an approval where a framework has no words for it: what is written otherwise is no option."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from pydantic_ai import Agent, CallDeferred

import hitl
from hitl.ext.gating import GateOptions, read_approvals
from hitl.ext.openai_agents import as_agent
from tests.python.ext import langgraph_runs, pydantic_ai_runs

NO_OPTION = r"there is no option 'approver', there are description, allowed_decisions, approvers, expires_in"


def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def of_pydantic_ai(options: Any) -> Any:
    agent = Agent(pydantic_ai_runs.says([("pay", {"cents": 1})]), name="payer")
    agent.tool_plain(pay, requires_approval=True, metadata={"hitl": options})
    return agent


def of_langgraph(options: Any) -> Any:
    gated = tool(pay)
    gated.metadata = {"hitl": options}
    model = langgraph_runs.says([("pay", {"cents": 1})])
    return create_agent(model, [gated], middleware=[HumanInTheLoopMiddleware({"pay": True})], name="payer")


@pytest.mark.parametrize("make", [of_pydantic_ai, of_langgraph])
async def test_an_option_that_is_none_lets_nobody_approve(make: Any) -> None:
    result = await hitl.run(make({"approver": ["group:finance"]}), "pay")
    assert result.status == "error"
    assert "metadata['hitl'] of pay: there is no option 'approver', there are description, " in result.error
    result = await hitl.run(make("finance"), "pay")
    assert result.status == "error"
    assert "metadata['hitl'] of pay: the options are a dict, got str" in result.error


@pytest.mark.parametrize(
    ("approvals", "error"),
    [
        ({"pay": {"approver": ["group:finance"]}}, NO_OPTION),
        ({"pay": ["group:finance"]}, "approvals= of pay: the options are a dict, got list"),
        ({"pay": {"approvers": "group:finance"}}, "approvers takes a list of names, got the str"),
        ({"pay": {"expires_in": "1h"}}, "approvals= of pay: expires_in must be seconds"),
        ({"pay": {"allowed_decisions": None}}, "approvals= of pay: allowed_decisions takes a list of approve, "),
        (["pay"], "approvals= is a dict of options by tool, got list"),
    ],
)
def test_what_an_agent_is_served_with_is_read_before_it_is_served(approvals: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        as_agent(OpenAIAgent(name="payer"), approvals=approvals)


def test_names_that_can_be_read_once_are_those_of_every_question() -> None:
    said = {"pay": GateOptions(approvers=iter(["ada"]), allowed_decisions=(each for each in ("approve", "reject")))}
    assert read_approvals(said) == {"pay": {"approvers": ("ada",), "allowed_decisions": ("approve", "reject")}}


async def test_a_call_that_somebody_else_makes_is_answered_by_those_who_may() -> None:
    agent = Agent(pydantic_ai_runs.says([("pay", {"cents": 1})]), name="payer")

    @agent.tool_plain(metadata={"hitl": {"approvers": ["group:finance"]}})
    def pay(cents: int) -> str:
        raise CallDeferred

    run, _ = await pydantic_ai_runs.proved(lambda _: agent, lambda _: "paid")
    assert [asked["approvers"] for asked in run.requests] == [["group:finance"]]
