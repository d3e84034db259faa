"""Generated agents, tools, batches and decisions, in any order, with crashes anywhere in between.

What must hold whatever is drawn: the effect of a gated call happens exactly when it was approved, exactly once, with
exactly the approved arguments.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitl import ChatMessage, ReActAgent, tool
from hitl.driver.shapes import as_agent
from hitl.testing import ScriptedChatClient
from tests.python.replay.loops import on_own_loop
from tests.python.support.local import PENDING, Journal, LocalInterrupt, LocalTurn

EXAMPLES = 500 if os.environ.get("HITL_TEST_FULL") else 20
_PATIENCE = 100
_EDITED = 1000
"""What an edit adds to the number of a call."""


@dataclass
class Call:
    """One tool call; `number` tells it from every other, and is its argument."""

    kind: str
    number: int
    decision: str
    inner: list[list[Call]] = field(default_factory=list)
    """For an agent as a tool: its conversation."""

    @property
    def is_gated(self) -> bool:
        return self.kind in ("gated", "gated agent") or (self.kind == "maybe" and self.number % 2 == 0)

    @property
    def runs(self) -> bool:
        return not self.is_gated or self.decision in ("approve", "edit")

    @property
    def answer(self) -> Any:
        if self.decision == "edit" and self.inner:
            return {"type": "edit", "args": {"input": "edited"}}
        return {
            "approve": {"approved": True},
            "edit": {"type": "edit", "args": {"number": self.number + _EDITED}},
            "reject": {"type": "reject", "reason": "no"},
            "respond": {"type": "respond", "message": self.number},
        }[self.decision]


@st.composite
def conversations(draw: st.DrawFn, depth: int = 2) -> list[list[Call]]:
    """What a model says, message by message: calls of tools, of agents, and handoffs."""
    kinds = ["gated", "gated", "maybe", "free", "transfer", *(["agent", "gated agent"] if depth else [])]
    messages = []
    for _ in range(draw(st.integers(1, 3 if depth == 2 else 2))):
        calls = []
        for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
            decision = draw(st.sampled_from(["approve", "approve", "edit", "reject", "respond"]))
            inner = draw(conversations(depth=depth - 1)) if kind.endswith("agent") else []
            calls.append(Call(kind, 0, decision, inner))
        messages.append(calls)
    return messages


def number_all(messages: list[list[Call]], next_number: Any) -> None:
    for call in (call for message in messages for call in message):
        call.number = next_number()
        number_all(call.inner, next_number)


def expected(messages: list[list[Call]]) -> Counter[int]:
    """The gated effects that must happen, by what the function gets."""
    effects: Counter[int] = Counter()
    for call in (call for message in messages for call in message):
        if not call.runs:
            continue
        if call.inner:
            effects += expected(call.inner)
        elif call.is_gated:
            effects[call.number + (_EDITED if call.decision == "edit" else 0)] += 1
    return effects


def make_agent(name: str, messages: list[list[Call]], effects: list[tuple[str, int]]) -> ReActAgent:
    """The agents of one conversation: two that hand over to each other, and speak from one script."""
    decisions = ["approve", "edit", "reject", "respond"]

    def acting(kind: str, requires_approval: Any) -> Any:
        async def act(number: int) -> str:
            effects.append((kind, number))
            await asyncio.sleep(0)
            return f"did {number}"

        return tool(act, name=kind, requires_approval=requires_approval, allowed_decisions=decisions)

    tools = [
        acting("gated", True),
        acting("maybe", lambda ctx, args: args["number"] % 2 == 0),
        acting("free", False),
    ]
    script: list[dict[str, Any]] = []
    for message in messages:
        calls = []
        for call in message:
            args: dict[str, Any] = {"number": call.number}
            called = call.kind
            if call.inner:
                called = f"agent_{call.number}"
                args = {"input": str(call.number)}
                nested = make_agent(called, call.inner, effects).as_tool(requires_approval=call.kind == "gated agent")
                tools.append(tool(nested, allowed_decisions=decisions))
            elif call.kind == "transfer":
                called, args = f"transfer_to_{name}_b", {}
            calls.append({"name": called, "args": args})
        script.append({"tool_calls": calls})
    client = ScriptedChatClient([*script, {"content": f"{name} is done"}])
    second = ReActAgent(client=client, name=f"{name}_b", tools=tools)
    first = ReActAgent(client=client, name=name, tools=tools, handoffs=[second])
    second.handoffs.append(second)
    return first


class World:
    """One turn, taken up by one process after the other. What was done stays done."""

    def __init__(self, messages: list[list[Call]], luck: random.Random) -> None:
        self.messages = messages
        self.luck = luck
        self.effects: list[tuple[str, int]] = []
        self.journal: Journal | None = None
        self.answers: dict[str, Any] = {}
        """By the path of the question."""
        self.shown: dict[str, dict[str, Any]] = {}
        """The arguments that a question was asked with, by its path."""
        self.calls = {call.number: call for call in _all(messages)}

    async def run(self) -> ChatMessage:
        """Process after process, until the turn has ended."""
        crashes = 0
        while True:
            response = await self._process(self.luck.randint(1, 12) if crashes < 8 else None)
            if response is not None:
                return response
            crashes += 1

    async def _process(self, lives_for: int | None) -> ChatMessage | None:
        """Go on with the turn; the process dies after so many entries, or is parked."""
        loaded = as_agent(make_agent("root", self.messages, self.effects))
        local = LocalTurn(lambda request: PENDING, agent=loaded.name, journal=self.journal)
        died, waits = asyncio.Event(), asyncio.Event()
        append, tell, begun = local.port.append, local.port.tell, len(local.port.journal)

        def append_until_death(entry: dict[str, Any]) -> tuple[int, int]:
            if lives_for is not None and len(local.port.journal) - begun >= lives_for:
                died.set()
                return -1, 0
            return append(entry)

        local.port.append = append_until_death  # type: ignore[method-assign]
        local.port.tell = lambda what: None if died.is_set() else tell(what)  # type: ignore[method-assign]
        local.port.on_waiting = waits.set
        task = asyncio.ensure_future(local.run(loaded.run, ChatMessage.user_message(content="go"), []))
        try:
            async with asyncio.timeout(_PATIENCE):
                while not (task.done() or died.is_set()):
                    endings = [asyncio.ensure_future(event.wait()) for event in (died, waits)]
                    await asyncio.wait([task, *endings], return_when=asyncio.FIRST_COMPLETED)
                    for ending in endings:
                        ending.cancel()
                    if waits.is_set() and not (task.done() or died.is_set()):
                        waits.clear()
                        if self.luck.random() < 0.2:
                            died.set()  # parked
                        else:
                            self._answer_some(local)
            return task.result()[0] if task.done() else None
        finally:
            self._note_questions(local)
            self.journal = json.loads(json.dumps(local.port.journal))
            died.set()
            task.cancel()
            await asyncio.wait([task])
            await local.end()

    def _answer_some(self, local: LocalTurn) -> None:
        """A person answers some of what is open, in any order."""
        self._note_questions(local)
        pending = [asked for asked in local.port.interrupts if not (asked.is_settled or asked.withdrawn)]
        for asked in self.luck.sample(pending, self.luck.randint(1, len(pending))):
            asked.give(self._answer(asked))

    def _note_questions(self, local: LocalTurn) -> None:
        for asked in local.port.interrupts:
            if "payload" in asked.request:  # a process that finds a question open does not know it
                self.shown[asked.step["path"]] = asked.request["payload"]["tool_args"]

    def _answer(self, asked: LocalInterrupt) -> Any:
        path = asked.step["path"]
        if asked.step["name"] == "unknown_outcome":
            return self._what_came_of(asked)
        if path not in self.answers:
            args = self.shown[path]
            self.answers[path] = self.calls[int(args.get("number", args.get("input")))].answer
        return self.answers[path]

    def _what_came_of(self, asked: LocalInterrupt) -> Any:
        """Whoever is asked looks into the books."""
        number = self.shown[asked.step["path"]]["number"]
        if any(done == number for _, done in self.effects):
            return {"outcome": "done", "result": f"did {number}"}
        return {"outcome": "not_done"}


def _all(messages: list[list[Call]]) -> list[Call]:
    found = [call for message in messages for call in message]
    return found + [inner for call in found for inner in _all(call.inner)]


@pytest.mark.timeout(900)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(messages=conversations(), seed=st.integers(0, 2**32))
def test_a_gated_effect_happens_exactly_when_and_as_it_was_approved(messages: list[list[Call]], seed: int) -> None:
    numbers = iter(range(1, _EDITED))
    number_all(messages, lambda: next(numbers))
    world = World(messages, random.Random(seed))
    response = on_own_loop(world.run())
    assert response.content == "root is done"
    gated = Counter(
        number for kind, number in world.effects if kind == "gated" or (kind == "maybe" and number % 2 == 0)
    )
    assert gated == expected(messages)
    # The others may run again after a crash; none is left out.
    free = {call.number for call in _all(messages) if not call.is_gated and not call.inner and call.kind != "transfer"}
    assert {number for _, number in world.effects} - gated.keys() <= free
