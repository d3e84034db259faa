"""The tool path in a run without a server: gates of other loops, agents inside of agents, handoffs, words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, Decision, ReActAgent, RunState, ToolRejected, tool
from hitl.testing import ScriptedChatClient


def one_call(name: str, **args: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args}]}


class Bank:
    """Counts what was done, for agents that are made anew in each process."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def tool(self, **options: Any) -> Any:
        @tool(**{"requires_approval": True, **options})
        async def pay(cents: int) -> str:
            self.done.append(cents)
            return f"paid {cents}"

        return pay

    def agent(self, script: list[dict[str, Any]] | None = None, **options: Any) -> ReActAgent:
        client = ScriptedChatClient(script or [one_call("pay", cents=5), {"content": "done"}])
        return ReActAgent(client=client, tools=[self.tool(**options)], name="payer")


def told(result: Any) -> list[str]:
    return [message.content for message in result.messages if message.role == "tool"]


async def test_an_edit_runs_as_edited_and_the_model_is_told() -> None:
    bank = Bank()
    result = await hitl.run(bank.agent(), "go")
    state = result.state.edit(result.interrupts[0], {"cents": 3})
    result = await hitl.run(bank.agent(), RunState.from_string(bank.agent(), state.to_string()))
    assert bank.done == [3]
    assert told(result) == ['paid 3\n\n[A person changed the arguments of this call to {"cents":3}]']


async def test_an_edit_that_a_guardrail_changes_is_asked_about_again() -> None:
    bank = Bank()
    agent = bank.agent(input_guardrails=[lambda cents: {"cents": min(cents, 50)}])
    result = await hitl.run(agent, "go")
    result = await hitl.run(agent, result.state.edit(result.interrupts[0], {"cents": 80}))
    (again,) = result.interrupts
    assert (again.tool_args, bank.done) == ({"cents": 50}, [])
    result = await hitl.run(agent, result.state.approve(again))
    assert (result.status, bank.done) == ("idle", [50])


async def test_a_response_takes_the_place_of_the_tool() -> None:
    bank = Bank()
    agent = bank.agent(allowed_decisions=["approve", "respond"])
    result = await hitl.run(agent, "go")
    result = await hitl.run(agent, result.state.respond(result.interrupts[0], {"paid": 0}))
    assert (told(result), bank.done) == (['{"paid":0}'], [])


async def test_code_decides_without_a_pause() -> None:
    bank = Bank()
    decisions = {5: Decision.approve(), 6: Decision.reject("no"), 7: Decision.respond("later")}
    script = [*(one_call("pay", cents=cents) for cents in decisions), {"content": "done"}]
    agent = bank.agent(
        script,
        on_approval=lambda request: decisions[request.tool_args["cents"]],
        allowed_decisions=["approve", "reject", "respond"],
    )
    result = await hitl.run(agent, "go")
    assert result.status == "idle"
    assert told(result) == ["paid 5", '{"error": "User rejected pay: no"}', "later"]
    assert bank.done == [5]


async def test_policies_descriptions_and_decisions_see_the_object_given_to_the_run() -> None:
    seen: list[Any] = []

    def policy(ctx: Any, args: Any) -> bool:
        seen.append(ctx.context)
        return True

    def describe(ctx: Any, args: Any) -> str:
        return f"for {ctx.context['user']}"

    def decide(request: Any) -> None:
        seen.append(request.context)

    agent = Bank().agent(requires_approval=policy, approval_description=describe, on_approval=decide)
    result = await hitl.run(agent, "go", context={"user": "ada"})
    assert result.interrupts[0].message == "for ada"
    assert seen == [{"user": "ada"}, {"user": "ada"}]


async def test_the_run_s_formatter_words_a_no_unless_the_person_did() -> None:
    def words(name: str, args: dict[str, Any], error: ToolRejected) -> str:
        return f"{name} of {args['cents']} failed: {error}"

    for message, text in ((None, "pay of 5 failed: User rejected pay: no"), ("Ask first.", "Ask first.")):
        agent = Bank().agent()
        result = await hitl.run(agent, "go", tool_error_formatter=words)
        state = result.state.reject(result.interrupts[0], reason="no", message=message)
        result = await hitl.run(agent, state, tool_error_formatter=words)
        assert told(result) == [f'{{"error": "{text}"}}']


# -- gates of other loops --------------------------------------------------------------------------------------------


async def test_the_gate_alone() -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        approved = await hitl.approval("transfer", {"cents": 5})
        return ChatMessage.assistant_message(content=str(approved.args)), [*state, message]

    result = await hitl.run(agent, "go")
    assert (result.interrupts[0].tool_name, result.interrupts[0].tool_args) == ("transfer", {"cents": 5})
    result = await hitl.run(agent, result.state.edit(result.interrupts[0], {"cents": 4}))
    assert result.output == "{'cents': 4}"


async def test_a_gated_function_of_a_plain_agent() -> None:
    done: list[int] = []

    @hitl.requires_approval
    def transfer(cents: int) -> str:
        done.append(cents)
        return f"transferred {cents}"

    def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        return ChatMessage.assistant_message(content=transfer(5)), [*state, message]

    result = await hitl.run(agent, "go")
    assert done == []
    result = await hitl.run(agent, result.state.approve(result.interrupts[0]))
    assert (result.output, done) == ("transferred 5", [5])


# -- several agents --------------------------------------------------------------------------------------------------


def make_team(bank: Bank) -> ReActAgent:
    """A hands over to B, which pays, and hands back to A, which pays."""
    script = [
        one_call("transfer_to_b"),
        one_call("pay", cents=1),
        one_call("transfer_to_a"),
        one_call("pay", cents=2),
        {"content": "both paid"},
    ]
    client = ScriptedChatClient(script)
    b = ReActAgent(client=client, name="B", tools=[bank.tool()])
    a = ReActAgent(client=client, name="A", tools=[bank.tool()], handoffs=[b])
    b.handoffs.append(a)
    return a


async def test_a_run_goes_on_with_the_agent_that_had_the_conversation() -> None:
    bank = Bank()
    result = await hitl.run(make_team(bank), "go")
    agents = []
    while result.interrupts:
        (asked,) = result.interrupts
        agents.append(asked.agent)
        text = result.state.approve(asked).to_string()
        agent = make_team(bank)  # as in another process
        result = await hitl.run(agent, RunState.from_string(agent, text))
    assert (result.output, agents, bank.done) == ("both paid", ["B", "A"], [1, 2])


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_always_is_for_the_tool_of_that_agent_alone(decision: str) -> None:
    bank = Bank()
    result = await hitl.run(make_team(bank), "go")
    state = getattr(result.state, decision)(result.interrupts[0], always=True)
    result = await hitl.run(make_team(bank), state)
    assert [asked.agent for asked in result.interrupts] == ["A"]  # its tool of the same name is another one
    assert bank.done == ([1] if decision == "approve" else [])


async def test_one_agent_that_is_called_twice_at_once_asks_twice_at_each_layer() -> None:
    bank = Bank()

    class Treasurer(ScriptedChatClient):
        async def complete(self, request: Any) -> Any:
            cents = int(request.messages[0].content)
            script = [one_call("pay", cents=cents), {"content": f"{cents} paid"}]
            return await ScriptedChatClient(script).complete(request)

    def make() -> ReActAgent:
        treasurer = ReActAgent(client=Treasurer([]), tools=[bank.tool()], name="treasurer")
        tasks = [{"name": "treasurer", "args": {"input": cents}} for cents in ("1", "2")]
        script = [{"tool_calls": tasks}, {"content": "done"}]
        return ReActAgent(
            client=ScriptedChatClient(script), tools=[treasurer.as_tool(requires_approval=True)], name="boss"
        )

    result = await hitl.run(make(), "go")
    assert [asked.agent for asked in result.interrupts] == ["boss", "boss"]
    outer = {asked.id for asked in result.interrupts}
    state = result.state.approve(result.interrupts[0]).approve(result.interrupts[1])
    result = await hitl.run(make(), RunState.from_string(make(), state.to_string()))
    assert [(asked.agent, asked.tool_name) for asked in result.interrupts] == [("treasurer", "pay")] * 2
    assert len(outer | {asked.id for asked in result.interrupts}) == 4
    yes, no = sorted(result.interrupts, key=lambda asked: asked.tool_args["cents"])
    result = await hitl.run(make(), result.state.approve(yes).reject(no))
    assert (result.status, bank.done, told(result)) == ("idle", [1], ["1 paid", "2 paid"])


async def test_a_gated_function_that_another_framework_runs_in_an_executor() -> None:
    """As most do with plain functions: the thread waits, the turn leaves memory, and another one finds its answers."""
    done: list[int] = []

    @hitl.requires_approval
    def transfer(cents: int) -> int:
        done.append(cents)
        return cents

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        both = await asyncio.gather(asyncio.to_thread(transfer, 1), asyncio.to_thread(transfer, 2))
        third = await asyncio.to_thread(transfer, 3)
        return ChatMessage.assistant_message(content=str([*both, third])), [*state, message]

    result = await hitl.run(agent, "go")
    asked = []
    while result.interrupts:
        asked.append(len(result.interrupts))
        state = result.state.approve(result.interrupts[-1])
        result = await hitl.run(agent, RunState.from_string(agent, state.to_string()))
    assert (result.output, asked, sorted(done)) == ("[1, 2, 3]", [2, 1, 1], [1, 2, 3])
