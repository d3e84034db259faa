"""What every part of the adapter knows of the turn that a graph runs in."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5
from weakref import WeakKeyDictionary

from hitl import _core
from hitl.ext.turns import is_in_turn
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn, agent_name, current_turn


class Approvals:
    """Calls that were approved: they run once, and nobody is asked about them again."""

    def __init__(self) -> None:
        self._digests: dict[str, set[str]] = {}
        """By call id: several, where a model has given one id to several calls."""

    def add(self, call_id: str, name: str, args: Any, *, judged: bool) -> None:
        """A call with these arguments was approved. ``judged``: by the rules too, with what would run."""
        self._digests.setdefault(call_id, set()).add(_digest(name, args) + ("" if judged else _UNJUDGED))

    def has(self, call_id: str | None, name: str, args: Any) -> bool:
        """Whether exactly this call was."""
        known = self._digests.get(call_id or "", ())
        return any(each.removesuffix(_UNJUDGED) == _digest(name, args) for each in known)

    def is_unjudged(self, call_id: str | None, name: str, args: Any) -> bool:
        """Whether the rules have seen only what its model wrote: a tool that is not known where people are asked may
        make something else of it."""
        return f"{_digest(name, args)}{_UNJUDGED}" in self._digests.get(call_id or "", ())

    def to_json(self) -> dict[str, str | list[str]]:
        """All of them, for the outcome of the node that asked."""
        return {call: next(iter(known)) if len(known) == 1 else sorted(known) for call, known in self._digests.items()}

    def update(self, stored: Mapping[str, str | list[str]]) -> None:
        """Know of those of an earlier run of the turn."""
        for call, known in stored.items():
            self._digests.setdefault(call, set()).update([known] if isinstance(known, str) else known)


_UNJUDGED: Final = " as written"


def _digest(name: str, args: Any) -> str:
    return f"{name} {_core.digest(args)}"


_approvals: WeakKeyDictionary[Turn, dict[str | None, Approvals]] = WeakKeyDictionary()


def approvals_of(turn: Turn) -> Approvals:
    """The approved calls of the agent that works in this context: the model of another may name a call alike."""
    return _approvals.setdefault(turn, {}).setdefault(agent_name.get(), Approvals())


tools_var: contextvars.ContextVar[dict[str, Any]] = contextvars.ContextVar("hitl_langgraph_tools")
"""The tools of the graph that is served, by name."""


graph_name_var: contextvars.ContextVar[str | None] = contextvars.ContextVar("hitl_langgraph_name")
"""What the graph that is served calls itself."""


def tool_of(name: str) -> Any:
    """A tool of the graph that is served; None for what only a nested graph has."""
    return tools_var.get({}).get(name)


def tool_asked_about(name: str) -> Any:
    """A tool of the graph that asks about a call of it, the served one or a part of it. None where a tool runs the
    graph that asks: that may call another tool so."""
    place = place_var.get()
    step = None if place is None else place.step
    while step is not None:
        if step.kind == "tool":
            return None
        step = step.outer
    return tool_of(name)


def own_tool_of(name: str) -> Any:
    """The same, where it is the served graph itself that speaks."""
    return tool_asked_about(name) if agent_name.get() in (None, graph_name_var.get(None)) else None


# -- calls that a node makes by itself ---------------------------------------------------------------------------------


Tell = Callable[[], Any]
"""Tells what a call has come to, as often as it is called."""


class MadeCall:
    """A call as one try of a node has made it."""

    def __init__(self, tool: str, args: Any) -> None:
        self.tool = tool
        self.args = args
        self.tell: Tell | None = None
        """Of one that somebody has decided over, and that has not raised: it stands in further tries."""
        self.over = asyncio.Event()
        """Whether it is known what becomes of ``tell``."""

    def keep(self, tell: Tell) -> Tell:
        """It was decided over, and has come to what this tells."""
        self.tell = tell
        return tell


class OwnCalls:
    """What a node calls in one run of its body, which LangGraph may try several times; by a ``ToolNode`` or without."""

    def __init__(self, waiting: Iterable[Any]) -> None:
        """``waiting``: the calls of a model that have no result yet."""
        self._of_model = [(call["name"], call["args"], call["id"]) for call in waiting]
        self._now: dict[str, MadeCall] = {}
        self._before: dict[str, MadeCall] = {}
        """In earlier tries: in one try a model may have given one id to several calls."""
        self.try_again()

    def try_again(self) -> None:
        """The body begins from its top, as it has raised: it makes the same calls again, in the same order."""
        self._before.update(self._now)
        self._waiting = list(self._of_model)
        self._made: Counter[str] = Counter()

    def take(self, name: str, args: Any) -> str | None:
        """The id of the model's call that is made by this one, each once; None for one that is nobody's."""
        found = next((each for each in self._waiting if each[:2] == (name, args) and each[2]), None)
        if found is None:
            return None
        self._waiting.remove(found)
        return str(found[2])

    def name(self, tool: str) -> str:
        """A name for a call that has no id."""
        self._made[tool] += 1
        return f"{tool}:{self._made[tool]}"

    async def earlier(self, named: str, tool: str, args: Any) -> Tell | None:
        """What this call has come to, where an earlier try had it decided over, or is still at that; else None: it is
        to be made. ``named``: its id, or its name."""
        known = self._before.get(named)
        if known is None or (known.tool, known.args) != (tool, args):
            return None
        await known.over.wait()
        return known.tell

    @contextmanager
    def make(self, named: str, tool: str, args: Any) -> Iterator[MadeCall]:
        """In this block it is made."""
        made = self._now[named] = MadeCall(tool, args)
        try:
            yield made
        finally:
            made.over.set()


_own_calls: contextvars.ContextVar[OwnCalls | None] = contextvars.ContextVar("hitl_langgraph_own_calls", default=None)


@contextmanager
def calling(calls: OwnCalls | None) -> Iterator[None]:
    """In this block a node calls what it calls; None: a tool does, for which nobody is asked."""
    token = _own_calls.set(calls)
    try:
        yield
    finally:
        _own_calls.reset(token)


def own_calls() -> OwnCalls | None:
    """Those of the node that runs here; None where no rule can be about them."""
    place = place_var.get()
    return None if place is None or not place.turn.may_have_rules else _own_calls.get()


def calls_of_node() -> OwnCalls:
    """Those of the node that runs here, whether there are rules or not."""
    return _own_calls.get() or OwnCalls(())


# -- ids that are the same in a replay ---------------------------------------------------------------------------------

_numbers: WeakKeyDictionary[Turn, Counter[str]] = WeakKeyDictionary()


def next_uuid() -> UUID:
    """An id for a message: in a turn the same one in every replay, since nodes may name messages by it."""
    if not is_in_turn():
        return uuid4()
    turn = current_turn()
    step = turn.current_step
    inside = "" if step is None else step.path
    numbers = _numbers.setdefault(turn, Counter())
    numbers[inside] += 1
    return uuid5(NAMESPACE_URL, f"{turn.turn_id}/{inside}/{numbers[inside]}")


def restart_uuids(turn: Turn) -> None:
    """The body that runs here begins again from its top: what it names gets the same ids."""
    step = turn.current_step
    _numbers.setdefault(turn, Counter())["" if step is None else step.path] = 0
