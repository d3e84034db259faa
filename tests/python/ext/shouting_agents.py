"""Agents whose tool makes something else of what their model writes, each in the way of its framework."""

from __future__ import annotations

from typing import Annotated

from langchain.agents import create_agent
from langchain_core.tools import tool
from pydantic import StringConstraints
from pydantic_ai import Agent, ApprovalRequired, RunContext

from hitl.ext.langgraph import as_agent
from tests.python.ext import langgraph_runs, pydantic_ai_runs

Place = Annotated[str, StringConstraints(to_lower=True)]
CALLS = [("deploy", {"place": "PROD"})]


def deploy(place: Place) -> str:
    """Deploy."""
    return f"deployed to {place}"


def puts_off(ctx: RunContext[None], place: str) -> None:
    """A check of the arguments, before they are anybody's."""
    if not ctx.tool_call_approved:
        raise ApprovalRequired


pydantic_ai_agent = Agent(pydantic_ai_runs.says(CALLS), name="pydantic_ai")
pydantic_ai_agent.tool_plain(deploy)

gated_agent = Agent(pydantic_ai_runs.says(CALLS), name="gated")
gated_agent.tool_plain(deploy, requires_approval=True)

putting_off_agent = Agent(pydantic_ai_runs.says(CALLS), name="putting_off")


@putting_off_agent.tool(name="deploy", args_validator=puts_off)
def deploy_checked(ctx: RunContext[None], place: Place) -> str:
    """Deploy."""
    return deploy(place)


langgraph_agent = as_agent(create_agent(langgraph_runs.says(CALLS), [tool(deploy)], name="langgraph"))
