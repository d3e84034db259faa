"""What agents of pydantic-ai get as ``deps``: what a function makes, or the context of the run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel
from typing_extensions import Protocol, TypeAliasType, TypedDict

import hitl
from hitl import ChatMessage, RunState
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from hitl.ext.pydantic_ai import as_agent
from tests.python.ext.pydantic_ai_runs import says


@dataclass
class Account:
    owner: str


@pytest.mark.parametrize("how", ["context", "user_params"])
async def test_deps_are_made_anew_from_what_the_turn_began_with(how: str) -> None:
    made: list[Any] = []

    async def account(params: Any) -> Account:
        made.append(params)
        return Account(params["owner"])

    agent = Agent(says([("pay", {})]), name="bank", deps_type=Account)

    @agent.tool(requires_approval=True)
    def pay(ctx: RunContext[Account]) -> str:
        return f"paid by {ctx.deps.owner}"

    served = as_agent(agent, deps=account)
    given = {"owner": "ada"}
    message = ChatMessage.user_message(content="go", user_params=given if how == "user_params" else None)
    first = await hitl.run(served, message, context=given if how == "context" else None)
    state = RunState.from_string(served, first.state.to_string())
    result = await hitl.run(served, state.approve(state.interrupts[0]))
    assert result.output == '[["success", "paid by ada"]]'
    assert made == [given, given]


def test_an_agent_that_needs_deps_and_gets_none_says_so_before_the_first_turn() -> None:
    served: Any = load(Agent(TestModel(), name="bank", deps_type=Account)).target
    with pytest.raises(AgentLoadError, match="'bank' needs deps of type Account") as caught:
        served.prepare()
    assert "deps=" in (caught.value.hint or "")


class Customer(BaseModel):
    name: str


class Fields(TypedDict):
    name: str


class Named(Protocol):
    owner: str


MaybeAccount = TypeAliasType("MaybeAccount", Account | None)


def bank(deps_type: Any) -> Any:
    """An agent that tells what its deps are, once it may."""
    agent = Agent(says([("tell", {})]), name="bank", deps_type=deps_type)

    @agent.tool(requires_approval=True)
    def tell(ctx: RunContext[Any]) -> str:
        return repr(ctx.deps)

    return agent


ADA = Account("ada")


@pytest.mark.parametrize(
    ("deps_type", "context"),
    [
        (Account, ADA),
        (Account | None, ADA),
        (Account | Customer, Customer(name="ada")),
        (Annotated[Account, "whose it is"], ADA),
        (object, ADA),
        (Any, {"name": "ada"}),
        (dict[str, str], {"name": "ada"}),
        (Fields, {"name": "ada"}),
        (Named, ADA),
    ],
    ids=str,
)
async def test_the_context_of_a_run_is_its_deps_where_nothing_else_makes_them(deps_type: Any, context: Any) -> None:
    agent = bank(deps_type)
    first = await hitl.run(agent, "go", context=context)
    state = RunState.from_string(agent, first.state.to_string())
    result = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert result.output == json.dumps([["success", repr(context)]])


@pytest.mark.parametrize(
    ("deps_type", "context", "wanted"),
    [
        (Account, {"owner": "ada"}, "takes deps of type Account, and the context of the run is a dict"),
        (
            Account | None,
            Customer(name="ada"),
            "takes deps of type .*Account.*None, and the context of the run is a Customer",
        ),
        (type(None), ADA, "takes no deps, and the run has a context"),
    ],
    ids=str,
)
async def test_a_context_that_the_agent_cannot_have_as_deps_is_an_error(
    deps_type: Any, context: Any, wanted: str
) -> None:
    result = await hitl.run(bank(deps_type), "go", context=context)
    assert result.status == "error"
    assert re.search(f"AgentLoadError: the agent 'bank' {wanted}", result.error or "")
    assert "as_agent(agent, deps=...)" in (result.error or "")


async def test_a_function_that_makes_deps_takes_any_context() -> None:
    served = as_agent(bank(type(None)), deps=lambda context: None)
    assert (await hitl.run(served, "go", context=ADA)).status == "interrupted"


@pytest.mark.parametrize(
    "deps_type", [object, Any, type(None), None, Account | None, Annotated[Account | None, 1]], ids=str
)
def test_an_agent_that_may_go_without_deps_is_served_without(deps_type: Any) -> None:
    load(bank(deps_type)).target.prepare()


async def test_a_turn_that_waits_with_a_context_that_was_dropped_keeps_its_answers_until_deps_are_made() -> None:
    waiting = await hitl.run(bank(object), "go", context=ADA)  # stands for a release that dropped it
    assert waiting.state is not None
    refused = await hitl.run(bank(type(None)), waiting.state.approve(waiting.interrupts[0]))
    assert (refused.status, refused.error_code) == ("error", "replay_mismatch")
    assert "AgentLoadError: the agent 'bank' takes no deps, and the run has a context" in (refused.error or "")
    assert refused.state is not None
    served = as_agent(bank(type(None)), deps=lambda context: None)
    done = await hitl.run(served, RunState.from_string(served, refused.state.to_string()))
    assert (done.status, done.output) == ("idle", '[["success", "None"]]')
