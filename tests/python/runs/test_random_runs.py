"""Random trees of agents, tools and batches, decided in random order and in random parts.

A gated tool's effect happens exactly when it was approved, exactly once, with exactly the approved arguments; an
ungated one once for each run of its agent. Between any two steps the run may have gone through a string.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hitl
from hitl.testing import ScriptedChatClient

EXAMPLES = 500 if os.environ.get("HITL_TEST_FULL") else 25
KINDS = ("approve", "reject", "edit", "respond")


@dataclass(frozen=True)
class Call:
    """A call in a model's reply: of a plain tool, or, with ``agent``, of an agent as a tool."""

    gated: bool
    agent: AgentPlan | None = None


@dataclass(frozen=True)
class AgentPlan:
    """What an agent's model says: one batch of calls after the other, then its last word."""

    batches: tuple[tuple[Call, ...], ...]


def _plans(depth: int) -> st.SearchStrategy[AgentPlan]:
    plain = st.builds(Call, st.booleans())
    call = plain if depth == 0 else st.one_of(plain, plain, st.builds(Call, st.booleans(), _plans(depth - 1)))
    batch = st.lists(call, min_size=1, max_size=3).map(tuple)
    return st.builds(AgentPlan, st.lists(batch, min_size=1, max_size=2).map(tuple))


@dataclass
class Built:
    """A plan as a real agent, and what its tools do."""

    effects: list[tuple[str, int]] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    """Of each tool: the name of the agent that calls it."""
    gated: set[str] = field(default_factory=set)
    inner: dict[str, str] = field(default_factory=dict)
    """Of each tool that is an agent: that agent's name."""

    def agent(self, plan: AgentPlan, name: str) -> hitl.ReActAgent:
        """The agent; every tool below it has a name of its own."""
        script: list[Any] = []
        tools: list[hitl.Tool[..., Any]] = []
        for calls in plan.batches:
            reply = []
            for call in calls:
                label = f"{name}_{len(tools)}"
                self.parents[label] = name
                if call.gated:
                    self.gated.add(label)
                tools.append(self._tool(call, label))
                reply.append({"name": label, "args": {"value": 1} if call.agent is None else {"input": "go"}})
            script.append({"tool_calls": reply})
        script.append({"content": f"{name} is done"})
        return hitl.ReActAgent(ScriptedChatClient(script), "scripted", name=name, tools=tools)

    def _tool(self, call: Call, label: str) -> hitl.Tool[..., Any]:
        if call.agent is None:

            async def work(value: int) -> str:
                self.effects.append((label, value))
                return f"worked with {value}"

            made: hitl.Tool[..., Any] = hitl.tool(work, name=label, requires_approval=call.gated)
        else:
            self.inner[label] = f"{label}_agent"
            inner = self.agent(call.agent, self.inner[label])
            made = inner.as_tool(name=label, description="an agent", requires_approval=call.gated)
        return hitl.tool(made, allowed_decisions=KINDS)


def expected(built: Built, root: str, approved: Counter[tuple[str, int]]) -> Counter[tuple[str, int]]:
    """The effects of a run that is over, by what was approved with which value."""
    runs: Counter[str] = Counter({root: 1})
    effects: Counter[tuple[str, int]] = Counter()
    for label, parent in built.parents.items():  # a parent's tools come before those of the agents below it
        calls = Counter({(label, 1): runs[parent]}) if label not in built.gated else Counter()
        calls.update({call: times for call, times in approved.items() if call[0] == label})
        if label in built.inner:
            runs[built.inner[label]] += calls.total()
        else:
            effects.update(calls)
    return effects


def decide(data: st.DataObject, state: hitl.RunState, built: Built, approved: Counter[tuple[str, int]]) -> None:
    """Decide some of what waits, in some order."""
    waiting = data.draw(st.permutations(state.interrupts))
    for interrupt in waiting[: data.draw(st.integers(1, len(waiting)))]:
        label, is_agent = interrupt.tool_name, interrupt.tool_name in built.inner
        kind = data.draw(st.sampled_from(KINDS))
        if kind == "approve":
            state.approve(interrupt)
            approved[label, 1] += 1
        elif kind == "edit":
            value = data.draw(st.integers(2, 5))
            state.edit(interrupt, {"input": f"go {value}"} if is_agent else {"value": value})
            approved[label, 1 if is_agent else value] += 1
        elif kind == "reject":
            state.reject(interrupt, reason="no")
        else:
            state.respond(interrupt, "as a person says")


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=_plans(2), data=st.data())
def test_a_gated_effect_happens_when_it_was_approved_once_with_what_was_approved(
    plan: AgentPlan, data: st.DataObject
) -> None:
    built = Built()
    agent = built.agent(plan, "root")
    approved: Counter[tuple[str, int]] = Counter()

    async def whole_run() -> hitl.RunResult:
        result = await hitl.run(agent, "go")
        while result.status == "interrupted":
            state = result.state
            if data.draw(st.booleans()):
                state = hitl.RunState.from_string(agent, state.to_string())
            decide(data, state, built, approved)
            if data.draw(st.booleans()):
                state = hitl.RunState.from_string(agent, state.to_string())
            result = await hitl.run(agent, state)
            gated = Counter(effect for effect in built.effects if effect[0] in built.gated)
            assert gated == Counter({call: times for call, times in approved.items() if call[0] not in built.inner})
        return result

    result = asyncio.run(whole_run())
    assert (result.status, result.output) == ("idle", "root is done")
    assert Counter(built.effects) == expected(built, "root", approved)
