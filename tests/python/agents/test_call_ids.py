"""What an approval is bound to: one call, its id, its arguments, its agent."""

from __future__ import annotations

import json
from typing import Any

from hitl import ReActAgent, tool
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally
from tests.python.support.prefixes import Effects, run_all_prefixes

APPROVE = {"type": "approve"}


def pay_call(cents: int, id: str = "call_1", name: str = "pay") -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": {"cents": cents}, "id": id}]}


def make_payer(*calls: dict[str, Any], **options: Any) -> Any:
    def make(effects: Effects) -> ReActAgent:
        async def note(cents: int) -> str:
            effects.append(cents)
            return f"paid {cents}"

        gated = tool(note, name="pay", **{"requires_approval": True, **options})
        free = tool(note, name="look")
        return ReActAgent(client=ScriptedChatClient([*calls, {"content": "done"}]), tools=[gated, free], name="payer")

    return make


async def test_a_call_id_that_comes_back_with_other_arguments_is_an_error_before_any_effect() -> None:
    run = await run_all_prefixes(make_payer(pay_call(1), pay_call(1000)), lambda asked: APPROVE)
    assert run.effects == [1]
    assert len(run.requests) == 1
    error = "the call id 'call_1' stands for an approved call with other arguments, so this call of pay did not run"
    assert run.told == ["paid 1", json.dumps({"error": error})]


async def test_so_is_one_that_comes_back_for_another_tool() -> None:
    @tool(requires_approval=True)
    async def steal(cents: int) -> None:
        raise AssertionError("it ran")

    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    script = [pay_call(1), pay_call(1, name="steal"), {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[steal, pay])
    result = await run_locally(agent, "go", answers=lambda asked: APPROVE)
    assert "stands for an approved call" in (result.state[4].content or "")


async def test_the_same_call_once_more_is_asked_about_once_more() -> None:
    run = await run_all_prefixes(make_payer(pay_call(1), pay_call(1), pay_call(2)), lambda asked: APPROVE)
    assert len(run.requests) == 2
    assert run.effects == [1, 1]
    assert "stands for an approved call" in (run.told[2] or "")


async def test_an_id_under_which_nothing_was_approved_may_come_back() -> None:
    def person(asked: Any) -> Any:
        answers = {1: {"type": "reject"}, 2: {"type": "respond", "message": "later"}, 3: APPROVE}
        return answers[asked["payload"]["tool_args"]["cents"]]

    calls = [pay_call(1), pay_call(2), pay_call(3), pay_call(4, name="look")]
    run = await run_all_prefixes(make_payer(*calls, allowed_decisions=["approve", "reject", "respond"]), person)
    # The last one needs no approval: its id is nobody's business.
    assert run.effects == [3, 4]


async def test_an_approved_tool_that_failed_is_not_run_again() -> None:
    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True)
        async def pay(cents: int) -> str:
            effects.append(cents)
            raise ConnectionError("the bank hung up")

        return ReActAgent(client=ScriptedChatClient([pay_call(5), {"content": "done"}]), tools=[pay])

    run = await run_all_prefixes(make, lambda asked: APPROVE)  # also: from after its failure, it does not run
    assert run.effects == [5]
    assert run.told == ['{"error": "ConnectionError: the bank hung up"}']


async def test_an_approval_is_of_one_call_and_not_of_its_twin_in_the_same_message() -> None:
    both = {"tool_calls": [pay_call(1, "call_a")["tool_calls"][0], pay_call(1, "call_b")["tool_calls"][0]]}

    def person(asked: Any) -> Any:
        return APPROVE if asked["tool_call_id"] == "call_a" else {"type": "reject"}

    run = await run_all_prefixes(make_payer(both), person)
    assert run.effects == [1]
    assert run.told == ["paid 1", '{"error": "User rejected pay"}']


# -- agents inside of agents -----------------------------------------------------------------------------------------


def make_boss(effects: Effects, *, gate_agents: bool = True) -> ReActAgent:
    """Gives two tasks at once to one and the same agent, which pays in each of them, under one and the same call id."""

    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    class Treasurer(ScriptedChatClient):
        async def complete(self, request: Any) -> Any:
            cents = int(request.messages[0].content)
            return await ScriptedChatClient([pay_call(cents), {"content": f"all {cents} paid"}]).complete(request)

    treasurer = ReActAgent(client=Treasurer([]), tools=[pay], name="treasurer")
    tasks = [{"name": "treasurer", "args": {"input": cents}, "id": f"task_{cents}"} for cents in ("1", "2")]
    client = ScriptedChatClient([{"tool_calls": tasks}, {"content": "done"}])
    return ReActAgent(client=client, tools=[treasurer.as_tool(requires_approval=gate_agents)], name="boss")


async def test_approvals_at_both_layers_are_interrupts_of_their_own_with_the_right_agent() -> None:
    run = await run_all_prefixes(make_boss, lambda asked: APPROVE)
    assert sorted(run.effects) == [1, 2]
    asked = sorted((each["agent"], each["payload"]["tool_name"], each["tool_call_id"]) for each in run.requests)
    assert asked == [
        ("boss", "treasurer", "task_1"),
        ("boss", "treasurer", "task_2"),
        ("treasurer", "pay", "call_1"),
        ("treasurer", "pay", "call_1"),
    ]
    assert len({each.id for each in run.port.interrupts}) == 4
    assert len({each.step["path"] for each in run.port.interrupts}) == 4
    assert run.told == ["all 1 paid", "all 2 paid"]


async def test_a_yes_to_the_agent_is_no_yes_to_its_tools() -> None:
    def person(asked: Any) -> Any:
        return APPROVE if asked["agent"] == "boss" else {"type": "reject"}

    run = await run_all_prefixes(make_boss, person)
    assert run.effects == []


async def test_a_no_to_the_agent_starts_nothing_inside() -> None:
    def person(asked: Any) -> Any:
        return {"type": "reject"} if asked["payload"]["tool_args"].get("input") == "1" else APPROVE

    run = await run_all_prefixes(make_boss, person)
    assert run.effects == [2]
    assert run.told == ['{"error": "User rejected treasurer"}', "all 2 paid"]
    assert len(run.requests) == 3
