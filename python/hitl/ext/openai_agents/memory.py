"""What the parts of this adapter know of one turn, and forget with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from agents import Agent

from hitl.decisions import Approval
from hitl.ext.gating import GateOptions
from hitl.turn.places import place_var
from hitl.turn.retrying import Retries, is_transient
from hitl.turn.runtime import Turn

UNNAMED: Final = "agent"
"""What an agent without a name is called."""

CallPlace: TypeAlias = tuple[str, str]
"""A call of a tool: the path of the step that its run is in, and its id."""

StatedCall: TypeAlias = tuple[int, str, str, str]
"""A call in a state of the SDK: its agent, its id, its tool and its arguments. The place does not tell: of a run in a
tool of another agent it is asked outside of that tool, and made inside."""


@dataclass
class TurnMemory:
    """Of one turn; made anew whenever it runs."""

    retries: Retries = field(default_factory=lambda: Retries(2, "suspend", is_transient))
    stream: bool = True
    root: Agent[Any] | None = None
    """The agent that is served; what it is called there is the turn's agent."""

    approvals: Mapping[str, GateOptions] = field(default_factory=dict)
    """How to ask about calls of function tools, by tool: see ``approvals_for``."""

    given: dict[StatedCall, Approval | None] = field(default_factory=dict)
    """What was decided about calls that a state of the SDK brought along; None: nobody had to be asked."""

    _decided: dict[tuple[CallPlace, str, str], list[Approval | None]] = field(default_factory=dict)
    """The same of all others, with their tool and arguments: several runs in one place may name their calls alike."""

    refused: dict[CallPlace, str] = field(default_factory=dict)
    """What the model is told of calls of shells, patches and the like that were refused."""

    notes: dict[CallPlace, str] = field(default_factory=dict)
    """What the model is told beside the result of a call."""

    asked: dict[tuple[str, ...], asyncio.Task[dict[str, Any]]] = field(default_factory=dict)
    """What is asked about calls that the provider makes, by their place, their tool and what it is called with."""

    suspended: dict[str, Exception] = field(default_factory=dict)
    """By path of the step around it: the error with which a nested run has suspended the turn."""

    ids: Counter[str] = field(default_factory=Counter)
    """How many ids of spans each step has taken."""

    def decide(self, place: CallPlace, tool: str, wanted: str, given: Approval | None) -> None:
        """Let ``taken`` find what was decided about one call. ``wanted``: what it is made with."""
        self._decided.setdefault((place, tool, wanted), []).append(given)

    def taken(self, place: CallPlace, tool: str, wanted: str, stated: StatedCall) -> tuple[Approval | None] | None:
        """What was decided about a call, once; None where nobody was asked yet. ``stated``: what a state calls it."""
        decided = self._decided.get((place, tool, wanted))
        if decided:
            return (decided.pop(),)  # the last: an earlier one may be of a call that a guardrail kept from being made
        return (self.given.pop(stated),) if stated in self.given else None

    def approvals_for(self, name: str, namespace: str | None) -> GateOptions | None:
        """How to ask about calls of a function tool; what is said of it as the SDK writes it in full,
        ``namespace.name``, counts more than what is said of all of its name."""
        said = None if namespace is None else self.approvals.get(f"{namespace}.{name}")
        return self.approvals.get(name) if said is None else said


speaking_var: ContextVar[Agent[Any] | None] = ContextVar("hitl_openai_agents_speaking", default=None)
"""The agent whose model was asked last in this context: what is called now, it has called."""

run_var: ContextVar[object] = ContextVar("hitl_openai_agents_run", default=None)
"""Stands for the run of the SDK in this context, in which calls have ids of their own."""


_memories: WeakKeyDictionary[Turn, TurnMemory] = WeakKeyDictionary()


def memory_of(turn: Turn) -> TurnMemory:
    """What is known of a turn."""
    memory = _memories.get(turn)
    if memory is None:
        memory = _memories[turn] = TurnMemory()
    return memory


def name_of(turn: Turn, agent: Any) -> str:
    """What an agent is called in the journal and in the inbox."""
    if memory_of(turn).root is agent and turn.agent:
        return turn.agent
    return agent.name or UNNAMED


def stated_call(agent: Any, call_id: str, tool: str, wanted: str = "") -> StatedCall:
    """A call as a state of the SDK has it; ``wanted`` where the tool is a function."""
    return id(agent), call_id, tool, wanted


def call_place(call_id: str) -> CallPlace:
    """A call that is made by the run in this context."""
    return step_path(), call_id


def step_path() -> str:
    """The path of the step that this context is in; empty outside of steps."""
    place = place_var.get()
    return "" if place is None or place.step is None else place.step.path
