"""Rules come and go while a turn of another framework's agent is under way; its calls are named by their ids."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai import Agent, ApprovalRequired, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from tests.python.support.local import PENDING, Journal, LocalTurn

DENIED = {"type": "reject", "reason": "closed", "by": "policy"}
PASSED = {"type": "approve", "by": "policy"}
YES = {"type": "approve"}


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls `act` for `a` and `ask` at once, then for `c`, and says what came of it."""
    rounds = (["a", "ask"], ["c"])
    done = sum(isinstance(message, ModelResponse) for message in messages)
    if done < len(rounds):
        return ModelResponse(parts=[ToolCallPart("act", {"what": what}, tool_call_id=what) for what in rounds[done]])
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return ModelResponse(parts=[TextPart(json.dumps({part.tool_call_id: part.outcome for part in parts}))])


async def run(journal: Journal, decision: Any) -> tuple[Journal, list[str], dict[str, str]]:
    """A turn to its end on top of a journal; `decision` is the rules'. A person says yes."""
    effects: list[str] = []
    agent = Agent(FunctionModel(model), name="actor")

    @agent.tool
    async def act(ctx: RunContext[None], what: str) -> str:
        if what == "ask" and not ctx.tool_call_approved:
            raise ApprovalRequired
        effects.append(what)
        return f"did {what}"

    loaded = as_agent(agent)
    local = LocalTurn(agent=loaded.name, journal=json.loads(json.dumps(journal)))
    local.port.decide_at_once = lambda request: PENDING if request.get("required", True) else decision
    local.port.answers = lambda request: {"outcome": "not_done"} if request["type"] == "unknown_outcome" else YES
    for asked in local.port.interrupts:  # what the journal was cut off before the answer of
        asked.give(YES if asked.step["path"] in required else decision)
    reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    return local.port.journal, effects, json.loads(reply.content or "")


required = {"~approval:ask"}
"""The question that is not the rules'."""


def start(policy: bool) -> dict[str, Any]:
    return {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", "policy": policy}


def taken(journal: Journal, policy: bool) -> dict[str, Any]:
    return {"at": journal[-1]["at"], "entry": "taken", "code": "code-1", "python": "3.11", "policy": policy}


async def test_rules_that_came_are_for_calls_that_the_journal_does_not_have() -> None:
    journal, effects, _ = await run([start(False)], DENIED)
    assert sorted(effects) == ["a", "ask", "c"]
    for cut in range(1, len(journal)):
        prefix = journal[:cut]
        finished = {
            entry["step"]["tool_call_id"]: entry["result"]["value"]
            for entry in prefix
            if entry["entry"] == "step" and entry["step"]["kind"] == "tool"
        }
        _, again, outcomes = await run([*prefix, taken(prefix, True)], DENIED)
        assert set(again) <= {"ask"}, f"cut at {cut}: {again}"
        for what, outcome in outcomes.items():
            assert outcome == ("success" if what in finished else "denied"), f"cut at {cut}: {outcomes}"


async def test_rules_that_went_leave_what_was_asked_as_it_was() -> None:
    journal, effects, first = await run([start(True)], PASSED)
    assert sorted(effects) == ["a", "ask", "c"]
    for cut in range(1, len(journal)):
        if journal[cut - 1]["entry"] == "ask" and journal[cut]["entry"] == "answer":
            continue
        _, _, outcomes = await run([*journal[:cut], taken(journal[:cut], False)], PASSED)
        assert outcomes == first, f"cut at {cut}"
