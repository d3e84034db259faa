"""What a model writes may have numbers that JSON does not: Python reads ``NaN``, and a ``1e400`` as infinity. Nobody
can be shown such a call, and no rule can judge it: it does not run, and the model is told."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool, set_tracing_disabled
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from pydantic import BaseModel
from pydantic_ai import Agent

import hitl
from hitl.client import Client
from tests.python.ext import langgraph_runs, openai_agents_runs, pydantic_ai_runs
from tests.python.ext.rules import judged

Paid = list[Any]
"""What a tool was called with."""


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def of_pydantic_ai(paid: Paid, arguments: str, needs_approval: bool) -> Any:
    agent = Agent(pydantic_ai_runs.says([("pay", arguments)]), name="payer")  # type: ignore[list-item]

    @agent.tool_plain(requires_approval=needs_approval)
    def pay(cents: float) -> str:
        paid.append(cents)
        return "paid"

    return agent


def of_openai_agents(paid: Paid, arguments: str, needs_approval: bool) -> Any:
    @function_tool(needs_approval=needs_approval, strict_mode=False)
    def pay(cents: float) -> str:
        paid.append(cents)
        return "paid"

    return OpenAIAgent(name="payer", model=openai_agents_runs.Says([("pay", arguments)]), tools=[pay])


def of_langchain(paid: Paid, arguments: str, needs_approval: bool) -> Any:
    @tool
    def pay(cents: float) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    gates = [HumanInTheLoopMiddleware({"pay": True})] if needs_approval else []
    return create_agent(langgraph_runs.says([("pay", json.loads(arguments))]), [pay], middleware=gates, name="payer")


AGENTS = [of_pydantic_ai, of_openai_agents, of_langchain]
ARGUMENTS = {
    '{"cents": NaN}': "cents is NaN, which JSON does not have",
    '{"cents": 1e400}': "cents is inf, which JSON does not have",
    '{"cents": 123456789012345678901234567890}': "cents is an integer beyond 64 bits",
}


@pytest.mark.parametrize("make", AGENTS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_nobody_is_asked_about_it_and_the_model_is_told(make: Callable[..., Any], arguments: str) -> None:
    paid: Paid = []
    result = await hitl.run(make(paid, arguments, needs_approval=True), "go")
    assert (result.status, paid) == ("idle", []), result
    assert f"pay did not run, for its arguments are no JSON: {ARGUMENTS[arguments]}" in str(result.output)


@pytest.mark.parametrize("make", AGENTS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_no_rule_is_asked_about_it_and_the_model_is_told(make: Callable[..., Any], arguments: str) -> None:
    paid: Paid = []
    said, local = await judged(make(paid, arguments, needs_approval=False))
    assert (paid, local.port.interrupts) == ([], [])
    assert f"pay did not run, for its arguments are no JSON: {ARGUMENTS[arguments]}" in said


class Cash(BaseModel):
    cents: float


class Shares(BaseModel):
    weights: list[float]


@pytest.mark.parametrize("needs_approval", [True, False])
async def test_one_that_may_be_of_several_kinds_is_none_of_them(needs_approval: bool) -> None:
    paid: Paid = []

    @tool
    def pay(what: Cash | Shares) -> str:
        """Pay."""
        paid.append(what)
        return "paid"

    gates = [HumanInTheLoopMiddleware({"pay": True})] if needs_approval else []
    model = langgraph_runs.says([("pay", {"what": {"weights": [1.0, math.nan]}})])
    said, local = await judged(create_agent(model, [pay], middleware=gates, name="payer"))
    assert (paid, local.port.interrupts) == ([], [])
    assert "its arguments are no JSON: what.weights[1] is NaN" in said


@pytest.mark.parametrize("make", AGENTS)
async def test_it_runs_where_neither_a_person_nor_a_rule_has_a_say(make: Callable[..., Any]) -> None:
    paid: Paid = []
    await judged(make(paid, '{"cents": 1e400}', needs_approval=False), None)
    assert paid == [math.inf]


SHARED = """
from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from agents.testing import assistant_message, function_call

set_tracing_disabled(True)

class Obeys(Model):
    async def get_response(self, system_instructions, input, *asked, **more):
        said = input if isinstance(input, str) else input[0]["content"]
        name, arguments = said.split(" ", 1)
        call = function_call(name, arguments, call_id="1")
        output = [assistant_message("done")] if not isinstance(input, str) and len(input) > 1 else [call]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def stream_response(self, *asked, **more):
        raise NotImplementedError

@function_tool(strict_mode=False)
def look(at: dict) -> str:
    return "seen"

@function_tool(needs_approval=True)
def pay() -> str:
    return "paid"

agent = Agent(name="shared", model=Obeys(), tools=[look, pay])
"""


def test_what_the_model_of_one_session_writes_ends_no_turn_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared_worker.py").write_text(SHARED)
    monkeypatch.chdir(tmp_path)
    with (
        hitl.Server("shared_worker:agent", port=0, store="memory", isolation="task", workers=4) as server,
        Client(server.url) as client,
    ):
        waiting = client.ask(client.create_session().session_id, "pay {}")
        assert waiting.status == "interrupted"
        for value in ("[" * 130 + "]" * 130, "1" * 400):
            said = client.ask(client.create_session().session_id, f'look {{"at": {{"x": {value}}}}}')
            assert (said.status, said.error_code) == ("idle", None), said.error
        client.approve(waiting.interrupts[0].interrupt_id)
        done = client.get_session(waiting.session_id, wait=True)
        assert (done.status, done.response and done.response.content) == ("idle", "done")
