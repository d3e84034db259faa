"""Tools of the OpenAI Agents SDK that have one name in two namespaces are two tools: to people, to rules and to what is
allowed for always."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, FunctionTool, Runner, function_tool, set_tracing_disabled
from agents.tool import tool_namespace
from openai.types.responses import ResponseFunctionToolCall

import hitl
from hitl.ext.openai_agents import as_agent, seams
from tests.python.ext.openai_agents_runs import Says
from tests.python.ext.rules import judged
from tests.python.ext.test_openai_agents_states import message_of
from tests.python.support.prefixes import Effects

DRAFTS, CUSTOMERS = "namespace:drafts", "namespace:customers"


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def removing(effects: Effects, namespace: str | None, *, needs_approval: bool = True) -> FunctionTool:
    @function_tool(needs_approval=needs_approval)
    def remove(id: int) -> str:
        """Remove."""
        effects.append((namespace, id))
        return f"removed {id}"

    if namespace is None:
        return remove
    (made,) = tool_namespace(name=namespace, description="what there is", tools=[remove])
    return made


def call(namespace: str | None, id: int) -> ResponseFunctionToolCall:
    made = ResponseFunctionToolCall(
        type="function_call", name="remove", arguments=f'{{"id": {id}}}', call_id=f"{namespace}-{id}"
    )
    made.namespace = namespace
    return made


def remover(effects: Effects, *rounds: Any, **options: Any) -> Agent[Any]:
    tools: Any = [removing(effects, namespace, **options) for namespace in ("drafts", "customers", None)]
    return Agent(name="remover", model=Says(*rounds), tools=tools)


async def test_what_is_allowed_for_always_in_one_is_asked_about_in_another() -> None:
    effects: Effects = []
    agent = remover(effects, [call("drafts", 1)], [call("drafts", 2), call("customers", 3), call(None, 4)])
    result = await hitl.run(agent, "go")
    (asked,) = result.interrupts
    assert (asked.tool_name, asked.tool_source) == ("remove", DRAFTS)
    result = await hitl.run(agent, result.state.approve(asked, always=True))
    assert sorted((each.tool_source or "", each.tool_args["id"]) for each in result.interrupts) == [
        ("", 4),
        (CUSTOMERS, 3),
    ]
    assert effects == [("drafts", 1), ("drafts", 2)]


async def test_a_rule_knows_a_tool_by_its_name_in_all_of_them_and_by_the_namespace() -> None:
    def rule(request: Any) -> Any:
        assert request["payload"]["tool_name"] == "remove"
        if request["tool_source"] == DRAFTS:
            return {"type": "approve", "by": "policy"}
        return {"type": "reject", "reason": "not these", "by": "policy"}

    effects: Effects = []
    agent = remover(effects, [call("drafts", 1), call("customers", 2), call(None, 3)], needs_approval=False)
    await judged(agent, rule)
    assert effects == [("drafts", 1)]


async def test_options_are_for_a_tool_of_one_or_for_all_of_that_name() -> None:
    approvals: Any = {"remove": {"description": "of all"}, "drafts.remove": {"description": "of drafts"}}
    agent = remover([], [call("drafts", 1), call("customers", 2), call(None, 3)])
    result = await hitl.run(as_agent(agent, approvals=approvals), "go")
    said = {each.tool_args["id"]: each.message for each in result.interrupts}
    assert said == {1: "of drafts", 2: "of all", 3: "of all"}


async def test_a_state_of_the_sdk_asks_about_the_tool_of_the_namespace() -> None:
    effects: Effects = []
    rounds = [[call("customers", 2)]]
    state = (await Runner.run(remover([], *rounds), "go")).to_state()
    options: Any = {"customers.remove": {"description": "of customers"}, "drafts.remove": {"description": "of drafts"}}
    agent = as_agent(remover(effects, *rounds), approvals=options)
    result = await hitl.run(agent, message_of(state.to_string()))
    (asked,) = result.interrupts
    assert (asked.tool_source, asked.message) == (CUSTOMERS, "of customers")
    assert (await hitl.run(agent, result.state.approve(asked))).status == "idle"
    assert effects == [("customers", 2)]


async def test_a_turn_that_an_earlier_release_has_asked_in_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    effects: Effects = []
    agent = remover(effects, [call("drafts", 1)])
    with monkeypatch.context() as before:
        before.setattr(seams, "namespace_of", lambda tool: None)
        state = (await hitl.run(agent, "go")).state
    assert [each.tool_source for each in state.interrupts] == [None]
    result = await hitl.run(agent, hitl.RunState.from_string(agent, state.to_string()).approve(state.interrupts[0].id))
    assert (result.status, effects) == ("idle", [("drafts", 1)]), result
