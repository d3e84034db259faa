"""What a turn knows of an agent of Strands that runs in it, and of the calls that its model wants made."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

from strands.interrupt import Interrupt
from strands.types.content import Message
from strands.types.exceptions import ModelThrottledException

from hitl.ext.gating import GateOptions
from hitl.ext.turns import is_in_turn
from hitl.turn.permits import Permit, permitted
from hitl.turn.places import place_var
from hitl.turn.retrying import Retries, is_transient
from hitl.turn.runtime import Turn, agent_name

_OF_CALLS: Final = ("v1:before_tool_call:", "v1:tool_call:")
"""How ids of what hooks and tools ask about a call begin: the call's id comes next."""


def note_answers(answered: dict[str, Interrupt], interrupts: Iterable[Interrupt], answers: Iterable[Any]) -> None:
    """Add what people said to what is ``answered``, by the ids of the interrupts."""
    for interrupt, given in zip(interrupts, answers, strict=True):
        answered.setdefault(interrupt.id, interrupt).response = given


@dataclass
class CallInTurn:
    """A call that a model wants made, and what was found out of it. Its id does not tell which one it is: models, and
    servers of models, use an id again."""

    call_id: str
    required: bool = False
    """Whether somebody has to approve it."""
    description: str | None = None
    """What to tell who approves it."""
    allowed: bool = False
    """Whether a hook or middleware has asked a person about it, and let it pass."""
    outcomes: dict[str, Any] = field(default_factory=dict)
    """What steps that hooks made have come to, by key."""
    answered: dict[str, Interrupt] = field(default_factory=dict)
    """What hooks and tools asked about it, with the answers, by id."""
    answered_around: dict[str, Interrupt] = field(default_factory=dict)
    """What middleware asked about it, with the answers, by id."""
    gate: Permit | None = None
    """That middleware stands in its way."""
    around: Permit | None = None
    """That this call is made by what itself stands in the way of something."""

    def passed(self) -> AbstractContextManager[Any]:
        """Middleware lets it come this far. In the block middleware no longer stands in its way."""
        if self.gate is None:
            return nullcontext()
        self.allowed |= self.gate.asked
        return permitted() if self.around is None else self.around.again()

    def lend(self, agent: Any) -> None:
        """Let ``interrupt`` return the answers that are this call's, and none of another call with its id."""
        self.take_back(agent)
        agent._interrupt_state.interrupts.update(self.answered)

    def take_back(self, agent: Any) -> None:
        """Let ``interrupt`` return no answers of calls with this id any more."""
        known = agent._interrupt_state.interrupts
        asked_about = {f"{begin}{self.call_id}" for begin in _OF_CALLS}
        for interrupt_id in tuple(known):
            if interrupt_id.rpartition(":")[0] in asked_about:  # the rest is made of the question's name
                del known[interrupt_id]


@dataclass(eq=False)
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
    conversation: Hashable = field(default_factory=object)
    """Stands for the run that it is in: there its calls have ids of their own."""
    added: list[Message] = field(default_factory=list)
    """What it said and was told, in this order."""
    _replies: int = 0
    _calls: dict[tuple[int, int | str], CallInTurn] = field(default_factory=dict)
    """By which reply of the model has them, and where in it."""

    def of_another(self, name: str) -> InTurn:
        """That of an agent that it calls, or that is a part of it: what is said of calls and models holds there too."""
        return InTurn(self.turn, name, self.retries, self.approvals, self.stream)

    def begin_run(self) -> None:
        """It runs from here on, perhaps once more."""
        self.conversation = object()

    def note(self, message: Message) -> None:
        """It was told this, or its model has said it."""
        self.added.append(message)
        self._replies += message["role"] == "assistant"

    def begin_call(self, agent: Any, tool_use: Any) -> CallInTurn:
        """The call that this context is of from now on; the one that it was, where it is begun again."""
        pending = agent._interrupt_state.pending_tool_execution
        reply = pending.assistant_message if pending is not None else agent.messages[-1] if agent.messages else None
        uses = [block.get("toolUse") for block in reply["content"]] if reply is not None else []
        where = next((number for number, use in enumerate(uses) if use is tool_use), tool_use["toolUseId"])
        call = self._calls.setdefault((self._replies, where), CallInTurn(tool_use["toolUseId"]))
        _begun.set(WeakKeyDictionary({**_begun.get(), self: call}))
        return call

    def current_call(self, call_id: str) -> CallInTurn:
        """The call that this context is of. Whoever takes what an agent does piece by piece, each in a task, has it go
        on in a context that knows of none: there it is what has this id, and what an approval is for before any other.
        """
        if (call := _begun.get().get(self)) is not None:
            return call
        of_reply = (call for (reply, _), call in self._calls.items() if reply == self._replies)
        found = max(
            (each for each in of_reply if each.call_id == call_id), key=lambda each: each.required, default=None
        )
        if found is None:
            raise RuntimeError(
                f"the agent {self.name!r} makes the call {call_id!r}, before which no hook was called: "
                "whether somebody has to approve it cannot be told"
            )
        return found

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """What is asked and done here is this agent's."""
        token, at_work = agent_name.set(self.name), _at_work.set(self)
        try:
            yield
        finally:
            _at_work.reset(at_work)
            agent_name.reset(token)


_begun: ContextVar[Mapping[InTurn, CallInTurn]] = ContextVar("hitl_strands_begun", default=MappingProxyType({}))
"""The call that a context is of, of each agent: one that code before a call asks may make its own in the same context.
"""
_at_work: ContextVar[InTurn | None] = ContextVar("hitl_strands_at_work", default=None)


def in_turn_at_work() -> InTurn | None:
    """What is known of the agent whose tool or hook this code is; None outside of turns."""
    known, place = _at_work.get(), place_var.get()
    return known if known is not None and place is not None and place.turn is known.turn else None


_known: WeakKeyDictionary[Any, InTurn] = WeakKeyDictionary()


def know(agent: Any, in_turn: InTurn) -> None:
    """Let ``in_turn`` be what is known of an agent from now on."""
    _known[agent] = in_turn


def in_turn_of(agent: Any) -> InTurn | None:
    """What the turn that this code is of knows of the agent; None outside of turns, and of an agent that is not its."""
    place = place_var.get()
    known = _known.get(agent)
    return known if known is not None and place is not None and place.turn is known.turn and is_in_turn() else None


def may_pass(error: Exception) -> bool | float:
    """Whether a model's error may pass by itself; a number: not before that many seconds."""
    if isinstance(error, ModelThrottledException):
        return True
    verdict = is_transient(error)
    cause = error.__cause__
    return is_transient(cause) if verdict is False and isinstance(cause, Exception) else verdict
