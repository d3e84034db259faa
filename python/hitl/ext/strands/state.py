"""The state of an agent in a turn: what of it a call of a tool has changed, whatever other calls do at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from strands import Agent
from strands.agent.state import AgentState

from hitl.turn.places import place_var

_UNSET: Final = object()

Changes = dict[str, tuple[int, Any]]
"""What members were set to, each with its number among all changes of the state."""

_noting: ContextVar[tuple[tuple[AgentState, Changes], ...]] = ContextVar("hitl_strands_noting", default=())
"""What the calls change that this code is of, the outermost first, each in the state of its own agent."""


class TurnState(AgentState):
    """An agent's state that tells what each call of a tool changes in it.

    Calls run side by side, so what one has changed is not what differs after it: that may be another one's. And what a
    replay puts back comes in the order in which the calls have ended: the numbers say which change was the last.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._count = 0
        self._numbers: dict[str, int] = {}
        """Of each member that was changed: the number of its last change."""
        self._stray: Changes = {}
        """Changes by threads that know of no turn: they are of some call that runs."""

    def set(self, key: str, value: Any) -> None:
        with self._lock:
            super().set(key, value)
            self._note(key, self._data[key])  # nobody changes what is in there: it is a copy, and others get copies

    def delete(self, key: str) -> None:
        with self._lock:
            super().delete(key)
            self._note(key, _UNSET)

    def _note(self, key: str, value: Any) -> None:
        self._count += 1
        self._numbers[key] = self._count
        stray = self._stray if place_var.get() is None else {}
        changes = next((changes for state, changes in reversed(_noting.get()) if state is self), stray)
        changes[key] = self._count, value

    @contextmanager
    def noting(self) -> Iterator[Changes]:
        """The changes that are made in here."""
        changes: Changes = {}
        token = _noting.set((*_noting.get(), (self, changes)))
        try:
            yield changes
        finally:
            _noting.reset(token)

    def become(self, values: Mapping[str, Any]) -> None:
        """Change what differs."""
        before = self.get()
        for key, value in values.items():
            if key not in before or before[key] != value:
                self.set(key, value)
        for key in before:
            if key not in values:
                self.delete(key)

    def to_wire(self, changes: Changes) -> dict[str, Any]:
        """What ``changes`` has, as JSON for ``put_back``; empty where there are none."""
        with self._lock:
            changes |= self._stray
            self._stray.clear()
        if not changes:
            return {}
        return {
            "state": {key: value for key, (_, value) in changes.items() if value is not _UNSET},
            "unset": [key for key, (_, value) in changes.items() if value is _UNSET],
            "numbers": {key: number for key, (number, _) in changes.items()},
        }

    def put_back(self, wire: Mapping[str, Any]) -> None:
        """Make the changes again that a call has made in another process, but for those that others were made after."""
        values, numbers = wire.get("state", {}), wire.get("numbers", {})
        for key in (*values, *wire.get("unset", ())):
            number = numbers.get(key, self._count + 1)  # older journals have none
            if number < self._numbers.get(key, 0):
                continue
            count = self._count
            if key in values:
                self.set(key, values[key])
            else:
                self.delete(key)
            self._numbers[key], self._count = number, max(count, number)


def state_of(agent: Agent) -> TurnState:
    """An agent's state, which from now on tells what is changed in it."""
    state = agent.state
    if not isinstance(state, TurnState):
        agent.state = state = TurnState(state.get())
    return state
