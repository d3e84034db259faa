"""What a turn knows of an agent of Strands that runs in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from strands.types.content import Message
from strands.types.exceptions import ModelThrottledException

from hitl.ext.gating import GateOptions
from hitl.turn.places import place_var
from hitl.turn.retrying import Retries, is_transient
from hitl.turn.runtime import Turn, agent_name


@dataclass
class InTurn:
    """An agent, or several that are one, in a turn: what it is called, and what was found out of its calls."""

    turn: Turn
    name: str
    """What people, rules and the journal call it."""
    retries: Retries
    approvals: Mapping[str, GateOptions]
    """How to ask about calls, by tool."""
    stream: bool
    """Whether its models' words are shown as they come."""
    control: set[str] = field(default_factory=set)
    """Tools that do nothing but say how the run goes on: they run again in a replay."""
    to_approve: dict[str, str | None] = field(default_factory=dict)
    """The calls that somebody has to approve, by id, and what to tell them."""
    allowed: set[str] = field(default_factory=set)
    """The calls that a person was asked about by a hook, which let them pass."""
    outcomes: dict[str, Any] = field(default_factory=dict)
    """What steps that hooks made have come to, by key."""
    added: list[Message] = field(default_factory=list)
    """What it said and was told, in this order."""

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """What is asked and done here is this agent's."""
        token = agent_name.set(self.name)
        try:
            yield
        finally:
            agent_name.reset(token)


_known: WeakKeyDictionary[Any, InTurn] = WeakKeyDictionary()


def know(agent: Any, in_turn: InTurn) -> None:
    """Let ``in_turn`` be what is known of an agent from now on."""
    _known[agent] = in_turn


def in_turn_of(agent: Any) -> InTurn | None:
    """What the turn that this code is of knows of the agent; None outside of turns, and of an agent that is not its."""
    place = place_var.get()
    known = _known.get(agent)
    return known if known is not None and place is not None and place.turn is known.turn and is_in_turn() else None


def is_in_turn() -> bool:
    """Whether this code is a turn's and can make steps. A run in a loop of its own cannot, as ``agent(...)`` in a tool
    is one: it is part of the step that the tool is."""
    place = place_var.get()
    if place is None:
        return False
    try:
        return asyncio.get_running_loop() is place.turn.loop
    except RuntimeError:  # a thread, for example of a plain tool
        return False


def may_pass(error: Exception) -> bool | float:
    """Whether a model's error may pass by itself; a number: not before that many seconds."""
    if isinstance(error, ModelThrottledException):
        return True
    verdict = is_transient(error)
    cause = error.__cause__
    return is_transient(cause) if verdict is False and isinstance(cause, Exception) else verdict
