"""Rules come and go while a turn is under way: calls that its journal has go their way again, the rest are for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitl import ReActAgent, tool
from hitl.driver.shapes import as_agent
from hitl.messages import ChatMessage
from hitl.testing import ScriptedChatClient
from tests.python.support.local import PENDING, Journal, LocalTurn

DENIED = {"type": "reject", "reason": "closed", "by": "policy"}
PASSED = {"type": "approve", "by": "policy"}
REJECTED = '{"error": "Policy rejected act: closed"}'


def calls(*whats: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "act", "args": {"what": what}} for what in whats]}


def make(effects: list[str], described: bool, nested: bool) -> ReActAgent:
    describe = (lambda ctx, args: f"does {args['what']}") if described else None

    @tool(approval_description=describe)
    async def act(what: str) -> str:
        effects.append(what)
        return f"did {what}"

    script = [calls("a", "b"), calls("c"), {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[act])
    if not nested:
        return agent
    outer = [{"tool_calls": [{"name": "helper", "args": {"input": "go"}}]}, {"content": "done"}]
    return ReActAgent(client=ScriptedChatClient(outer), tools=[agent.as_tool("helper")])


class Ran:
    """A turn that was run to its end, on top of a journal."""

    def __init__(self, journal: Journal, effects: list[str], state: list[ChatMessage]) -> None:
        self.journal, self.effects, self.state = journal, effects, state

    @property
    def results(self) -> dict[str, str]:
        """What became of each call of `act`, by its argument."""
        told = {}
        for entry in self.journal:
            if entry["entry"] == "step" and entry["step"]["name"] == "act":
                said = entry["result"]["value"]
                told[said.removeprefix("did ")] = said
        return told


async def run(journal: Journal, decision: Any, described: bool, nested: bool) -> Ran:
    effects: list[str] = []
    loaded = as_agent(make(effects, described, nested))
    local = LocalTurn(agent=loaded.name, journal=json.loads(json.dumps(journal)))
    local.port.decide_at_once = lambda request: decision if request["payload"]["tool_name"] == "act" else PASSED
    local.port.answers = lambda request: PENDING
    for asked in local.port.interrupts:  # what the journal asked and was cut off before its answer
        asked.give(decision)
    _, state = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    return Ran(local.port.journal, effects, state)


def start(policy: bool) -> dict[str, Any]:
    return {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", "policy": policy}


def taken(journal: Journal, policy: bool) -> dict[str, Any]:
    return {"at": journal[-1]["at"], "entry": "taken", "code": "code-1", "python": "3.11", "policy": policy}


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize("described", [False, True], ids=["bare", "described"])
async def test_rules_that_came_are_for_calls_that_the_journal_does_not_have(described: bool, nested: bool) -> None:
    first = await run([start(False)], DENIED, described, nested)
    assert sorted(first.effects) == ["a", "b", "c"]
    for cut in range(1, len(first.journal)):
        prefix = first.journal[:cut]
        before = Ran(prefix, [], []).results
        later = await run([*prefix, taken(prefix, True)], DENIED, described, nested)
        assert later.effects == [], f"cut at {cut}: what ran does not run again, and nothing else runs"
        assert later.results == before
        if not nested:
            told = [message.content for message in later.state if message.role == "tool"]
            assert sorted(text or "" for text in told) == sorted([*before.values(), *[REJECTED] * (3 - len(before))])
        # The same from wherever that run is taken up again, without a further change.
        for again_cut in range(cut + 1, len(later.journal)):
            if later.journal[again_cut - 1]["entry"] == "ask":
                continue
            again = await run(later.journal[:again_cut], DENIED, described, nested)
            assert (again.effects, again.state) == ([], later.state), f"cut at {cut}, then at {again_cut}"


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize("described", [False, True], ids=["bare", "described"])
async def test_rules_that_went_leave_what_was_asked_as_it_was(described: bool, nested: bool) -> None:
    first = await run([start(True)], PASSED, described, nested)
    assert sorted(first.effects) == ["a", "b", "c"]
    for cut in range(1, len(first.journal)):
        if first.journal[cut - 1]["entry"] == "ask":
            continue
        prefix = first.journal[:cut]
        later = await run([*prefix, taken(prefix, False)], PASSED, described, nested)
        assert later.state == first.state, f"cut at {cut}"
        asked = sum(entry["entry"] == "ask" for entry in later.journal)
        assert asked <= sum(entry["entry"] == "ask" for entry in first.journal)


async def test_a_call_that_was_denied_stays_denied_when_the_rules_have_gone() -> None:
    first = await run([start(True)], DENIED, described=False, nested=False)
    assert first.effects == []
    answers = [place for place, entry in enumerate(first.journal) if entry["entry"] == "answer"]
    prefix = first.journal[: answers[1] + 1]
    later = await run([*prefix, taken(prefix, False)], DENIED, described=False, nested=False)
    assert later.effects == ["c"]
