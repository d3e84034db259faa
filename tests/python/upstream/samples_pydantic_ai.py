"""Tests as pydantic-ai may have them, which decide about calls that were put off: see test_deciding.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDefinition, ToolDenied

from hitl.turn.places import place_var

done: list[int] = []


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Has both tools called, and says then what they gave it."""
    returned = [part for each in messages for part in each.parts if isinstance(part, ToolReturnPart)]
    if returned:
        return ModelResponse(parts=[TextPart(" and ".join(str(part.content) for part in returned))])
    calls = [ToolCallPart("pay", {"cents": 5}, tool_call_id="pay-1"), ToolCallPart("sign", {}, tool_call_id="sign-1")]
    return ModelResponse(parts=calls)


def agent() -> Agent[None, str | DeferredToolRequests]:
    payer: Agent[None, Any] = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests])
    done.clear()

    @payer.tool_plain(requires_approval=True)
    def pay(cents: int) -> str:
        done.append(cents)
        return f"paid {cents}"

    async def elsewhere(_: Any, tool: ToolDefinition) -> ToolDefinition:
        return replace(tool, kind="external")

    @payer.tool_plain(prepare=elsewhere)
    def sign() -> str:
        raise AssertionError("it is signed elsewhere")

    return payer


async def decided(approval: bool | ToolApproved | ToolDenied) -> str:
    payer = agent()
    paused = await payer.run("go")
    assert isinstance(paused.output, DeferredToolRequests)
    assert [call.tool_name for call in paused.output.approvals] == ["pay"]
    assert [call.tool_name for call in paused.output.calls] == ["sign"]
    assert done == []
    results = DeferredToolResults(approvals={"pay-1": approval}, calls={"sign-1": "signed"})
    ended = await payer.run(message_history=paused.all_messages(), deferred_tool_results=results)
    assert isinstance(ended.all_messages()[-2], ModelRequest)
    assert isinstance(ended.output, str)
    return ended.output


async def test_is_approved() -> None:
    assert await decided(True) == "paid 5 and signed"
    assert done == [5]


async def test_is_approved_with_other_arguments() -> None:
    assert await decided(ToolApproved(override_args={"cents": 3})) == "paid 3 and signed"
    assert done == [3]


async def test_is_denied() -> None:
    assert "too much" in await decided(ToolDenied("too much"))
    assert done == []


def test_runs_without_a_loop_of_its_own() -> None:
    payer = agent()
    paused = payer.run_sync("go")
    results = DeferredToolResults(approvals={"pay-1": True}, calls={"sign-1": "signed"})
    ended = payer.run_sync(message_history=paused.all_messages(), deferred_tool_results=results)
    assert ended.output == "paid 5 and signed"
    assert done == [5]


async def test_is_iterated() -> None:
    async with agent().iter("go") as run:
        async for _ in run:
            pass
    assert run.result is not None
    assert isinstance(run.result.output, DeferredToolRequests)


async def test_is_without_a_turn() -> None:
    assert place_var.get() is None
    assert isinstance((await agent().run("go")).output, DeferredToolRequests)
