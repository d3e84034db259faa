"""Calls of agents of the OpenAI Agents SDK that are named alike: each is decided by what was said of it alone. The SDK
takes no id twice in one run; several runs in one turn, whose models name calls alike, it does not know of."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest
from agents import Agent, LocalShellTool, RunHooks, Runner, function_tool, set_tracing_disabled
from agents.testing import function_call
from openai.types.responses.response_output_item import LocalShellCall, LocalShellCallAction

import hitl
import hitl.ext.openai_agents  # which lets turns be journaled
from hitl.messages import ChatMessage
from tests.python.ext.openai_agents_runs import APPROVE, Once, Says
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


def operator(effects: Effects, command: str) -> Agent[Any]:
    async def execute(request: Any) -> str:
        effects.append(request.data.action.command[0])
        return "done"

    action = LocalShellCallAction(type="exec", command=[command], env={})
    made = LocalShellCall(id="l", type="local_shell_call", call_id="call_1", status="completed", action=action)
    return Agent(name="operator", model=Once(made), tools=[LocalShellTool(executor=execute)])


async def test_rules_are_asked_about_each_call_of_a_local_shell_also_where_runs_name_them_alike() -> None:
    effects: Effects = []

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        said = [(await Runner.run(operator(effects, each), "go")).final_output for each in ("ls", "rm")]
        return ChatMessage.assistant_message(content=" and ".join(said)), state

    def decide(request: Any) -> Any:
        is_removal = request["payload"]["tool_args"]["command"] == ["rm"]
        return (
            {"type": "reject", "reason": "closed", "by": "policy"}
            if is_removal
            else {"type": "approve", "by": "policy"}
        )

    local = LocalTurn(journal=[{"at": 1, "entry": "start", "code": "c", "python": "3.11", "policy": True}])
    local.port.decide_at_once = decide
    reply, _ = await local.run(agent, ChatMessage.user_message(content="go"), [])
    await local.end()
    assert (effects, reply.content) == (["ls"], "done and Policy rejected local_shell: closed")


async def test_what_a_person_changed_in_a_call_runs_whatever_another_run_calls_meanwhile() -> None:
    effects: Effects = []

    @function_tool(needs_approval=True)
    async def pay(cents: int) -> str:
        effects.append(cents)
        return "paid"

    @function_tool
    async def look(cents: int) -> str:
        return "looked"

    class Waits(RunHooks[Any]):
        """Stands between what was decided about a call and the call."""

        def __init__(self, looked: asyncio.Event) -> None:
            self.decided = asyncio.Event()
            self.looked = looked

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            self.decided.set()
            await self.looked.wait()

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        payer = Agent(name="payer", model=Once(function_call("pay", {"cents": 1000}, call_id="call_1")), tools=[pay])
        looker = Agent(name="looker", model=Once(function_call("look", {"cents": 1}, call_id="call_1")), tools=[look])
        looked = asyncio.Event()
        hooks = Waits(looked)

        async def look_then() -> None:
            await hooks.decided.wait()
            await Runner.run(looker, "go")
            looked.set()

        await asyncio.gather(Runner.run(payer, "go", hooks=hooks), look_then())
        return ChatMessage.assistant_message(content="done"), state

    asked = await hitl.run(agent, "go")
    (call,) = asked.interrupts
    result = await hitl.run(agent, asked.state.edit(call, {"cents": 10}))
    assert (result.status, effects) == ("idle", [10])


def payer(effects: Effects, name: str, *calls: dict[str, Any]) -> Agent[Any]:
    """Pays again and again, in calls with ids of its own model's making."""

    @function_tool(needs_approval=True)
    def pay(cents: int) -> str:
        effects.append((name, cents))
        return "paid"

    rounds = [[function_call("pay", {"cents": each["cents"]}, call_id=each["id"])] for each in calls]
    return Agent(name=name, model=Says(*rounds), tools=[pay])


def two_payers(effects: Effects) -> Any:
    """A function that runs two agents, the second of which makes a call with the id of one of the first's."""

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        first = payer(effects, "first", {"cents": 5, "id": "call_1"})
        second = payer(effects, "second", {"cents": 6, "id": "call_1"}, {"cents": 7, "id": "call_2"})
        said = [(await Runner.run(each, "go")).final_output for each in (first, second)]
        return ChatMessage.assistant_message(content=" and ".join(said)), state

    return agent


async def test_the_id_of_a_call_that_was_approved_in_one_run_is_free_in_another() -> None:
    run = await run_all_prefixes(two_payers, lambda asked: APPROVE)
    assert [asked["payload"]["tool_args"] for asked in run.requests] == [{"cents": 5}, {"cents": 6}, {"cents": 7}]
    assert run.effects == [("first", 5), ("second", 6), ("second", 7)]
    assert run.response.content == '["paid"] and ["paid", "paid"]'


async def test_a_turn_waits_on_behind_a_call_that_an_older_version_refused_for_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effects: Effects = []
    with monkeypatch.context() as older:
        older.setattr("hitl.tools.asking._is_apart", AsyncMock(return_value=False))
        asked = await hitl.run(two_payers(effects), "go")
        asked = await hitl.run(two_payers(effects), asked.state.approve(asked.interrupts[0]))
    (call,) = asked.interrupts
    assert (call.tool_args, effects) == ({"cents": 7}, [("first", 5)])
    agent = two_payers(effects)
    result = await hitl.run(agent, hitl.RunState.from_string(agent, asked.state.to_string()).approve(call.id))
    assert (result.status, effects) == ("idle", [("first", 5), ("second", 7)])
