"""Runs, as LangChain calls its spans, over pauses: one trace for a turn, each run told to tracers once.

In a replay runs begin and end again, with the ids and the times that they had. A tracer is told of those that go on,
for what is inside of them, and LangSmith's sends nothing then. A node that waits is one run, however often it runs from
its top. Handlers that are no tracers, and those that feed the program, are told of everything, as ever.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, manager
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langchain_core.tracers.base import AsyncBaseTracer
from langchain_core.tracers.core import _TracerCore
from langchain_core.tracers.langchain import LangChainTracer
from langchain_core.utils.uuid import uuid7
from langgraph.errors import GraphInterrupt
from langsmith import run_helpers
from langsmith.run_trees import RunTree

from hitl.driver.flushing import before_exit
from hitl.errors import Parked
from hitl.ext.spans import SpanBegin, begin_span, is_told
from hitl.ext.turns import is_in_thread, is_in_turn
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn, turn_of

_START: Final = "_start"
_END: Final = ("_end", "_error")
_OF_LANGCHAIN: Final = "langchain_core."
"""Where tracers are from that feed the program: listeners, collectors."""


class _TracedRuns:
    """What one tracer knows of a turn: the runs that have begun, and those that have ended."""

    def __init__(self, shared: object) -> None:
        self.shared = shared
        """What tracers that were copied from each other have in common."""
        self.begun: set[tuple[UUID, str]] = set()
        self.ended: set[UUID] = set()


class _TracedTurn:
    """What is known of the runs of a turn in this process."""

    def __init__(self) -> None:
        self.begins: dict[UUID, SpanBegin] = {}
        """When they began."""
        self.sent: set[UUID] = set()
        """Those of which LangSmith knows that they began."""
        self._of_tracers: dict[int, _TracedRuns] = {}

    def known_to(self, tracer: _TracerCore) -> _TracedRuns:
        """What a tracer knows of them."""
        return self._of_tracers.setdefault(id(tracer.order_map), _TracedRuns(tracer.order_map))


_turns: WeakKeyDictionary[Turn, _TracedTurn] = WeakKeyDictionary()
_turns_by_run: WeakValueDictionary[UUID, Turn] = WeakValueDictionary()
_clients: WeakSet[Any] = WeakSet()


def _traced(turn: Turn) -> _TracedTurn:
    return _turns.setdefault(turn, _TracedTurn())


def _turn_with(run_id: UUID | None) -> Turn | None:
    """The turn that this code is of; or that the run is of, where a task ends it that is made as the turn leaves."""
    place = place_var.get()
    if place is not None:
        return turn_of(place)
    return None if run_id is None else _turns_by_run.get(run_id)


def next_run_id() -> UUID:
    """An id for a run: in a turn the same one in every replay. Its first digits are a time, as LangSmith wants it."""
    place = place_var.get()
    if place is None:
        return uuid7()
    begin = begin_span(place)
    digest = int.from_bytes(hashlib.sha256(f"langchain {begin.name}".encode()).digest()[:10], "big")
    number = (begin.told_at // 1_000_000 << 80 | digest) & ~(0xF << 76 | 0x3 << 62)
    made = UUID(int=number | 0x7 << 76 | 0x2 << 62)
    turn = turn_of(place)
    _traced(turn).begins[made] = begin
    _turns_by_run[made] = turn
    return made


def _begin_of(run_id: UUID) -> tuple[datetime, datetime] | None:
    """When a run began, and the time that has its place among others go by; None for a run of no turn."""
    turn = _turn_with(run_id)
    begin = None if turn is None else _traced(turn).begins.get(run_id)
    if begin is None:
        return None
    return datetime.fromtimestamp(begin.at / 1e9, UTC), datetime.fromtimestamp(begin.told_at / 1e9, UTC)


def _only_waits(error: object) -> bool:
    """Whether a run that raises this goes on, here or some other time."""
    return isinstance(error, Parked) or (isinstance(error, GraphInterrupt) and (is_in_turn() or is_in_thread()))


# -- what tracers are told ---------------------------------------------------------------------------------------------


def _is_tracer(handler: Any) -> bool:
    kind: Any = type(handler)
    return _are_tracers(kind)


@functools.lru_cache(maxsize=256)  # asked of each handler at each event, and abstract classes take long to tell
def _are_tracers(kind: Any) -> bool:
    if issubclass(kind, LangChainTracer):
        return True
    is_of_program = issubclass(kind, _StreamingCallbackHandler) or kind.__module__.startswith(_OF_LANGCHAIN)
    return issubclass(kind, _TracerCore) and not is_of_program


class _Silent(BaseCallbackHandler):
    """Stands for a tracer that is not told: it goes the same ways, but does nothing."""

    def __init__(self, tracer: Any) -> None:
        self.run_inline = tracer.run_inline


class _SilentAsync(AsyncCallbackHandler):
    """The same for one whose methods are coroutines. It makes as many tasks, since a turn counts them."""


async def _two_tasks(*args: Any, **options: Any) -> None:
    await asyncio.gather(_nothing(), _nothing())


async def _nothing() -> None: ...


for _kind in ("llm", "chain", "tool", "retriever"):
    for _when in ("start", "end", "error"):
        setattr(_SilentAsync, f"on_{_kind}_{_when}", staticmethod(_two_tasks))


def _chosen(handlers: list[Any], event: str, ignored: str | None, args: Any, run_id: UUID | None) -> list[Any]:
    """Who is told of what happens to a run."""
    if run_id is None or not any(map(_is_tracer, handlers)) or (turn := _turn_with(run_id)) is None:
        return handlers
    chosen = []
    for handler in handlers:
        is_other = not _is_tracer(handler) or (ignored is not None and getattr(handler, ignored))
        if is_other or _is_for(handler, turn, event, run_id, args):
            chosen.append(handler)
        elif isinstance(handler, AsyncBaseTracer):
            chosen.append(_SilentAsync())
        else:
            chosen.append(_Silent(handler))
    return chosen


def _is_for(tracer: Any, turn: Turn, event: str, run_id: UUID, args: Any) -> bool:
    """Whether a tracer is told of this. Takes note of it."""
    runs = _traced(turn).known_to(tracer)
    if turn.has_ended or (event.endswith(_END) and args and _only_waits(args[0])):
        return False
    if event.endswith(_START):  # more than once for a request, where a tracer knows only requests of text
        is_new = (run_id, event) not in runs.begun
        runs.begun.add((run_id, event))
        return is_new
    if run_id in runs.ended:
        return False
    if event.endswith(_END):
        runs.ended.add(run_id)
        if not is_told(turn) and not isinstance(tracer, LangChainTracer):
            tracer.run_map.pop(str(run_id), None)
            return False
        return True
    return turn.order.is_live


_handle: Callable[..., None] = manager.handle_event
_ahandle: Callable[..., Awaitable[None]] = manager.ahandle_event


@functools.wraps(_handle)
def _handle_event(handlers: Any, event_name: str, ignore_condition_name: Any, *args: Any, **kwargs: Any) -> None:
    chosen = _chosen(handlers, event_name, ignore_condition_name, args, kwargs.get("run_id"))
    _handle(chosen, event_name, ignore_condition_name, *args, **kwargs)


@functools.wraps(_ahandle)
async def _ahandle_event(handlers: Any, event_name: str, ignore_condition_name: Any, *args: Any, **kwargs: Any) -> None:
    chosen = _chosen(handlers, event_name, ignore_condition_name, args, kwargs.get("run_id"))
    await _ahandle(chosen, event_name, ignore_condition_name, *args, **kwargs)


def _give_times() -> None:
    start: Any = _TracerCore._start_trace

    @functools.wraps(start)
    def _start_trace(self: _TracerCore, run: Any) -> Any:
        begin = _begin_of(run.id)
        if begin is None:
            return start(self, run)
        began, run.start_time = begin
        started = start(self, run)
        run.start_time = began
        for event in run.events:
            event["time"] = began
        return started

    _TracerCore._start_trace = _start_trace  # type: ignore[method-assign]


# -- what LangSmith is sent: by its tracer, and by what is `traceable`, as LangChain's middleware is -------------------


def _send_once() -> None:
    post, patch, create_child = RunTree.post, RunTree.patch, RunTree.create_child

    @functools.wraps(post)
    def post_(self: RunTree, *args: Any, **options: Any) -> None:
        turn = _turn_with(self.id)
        if turn is not None:
            _clients.add(self.client)
            sent = _traced(turn).sent
            if self.id in sent or not is_told(turn):
                sent.add(self.id)
                return
            sent.add(self.id)
        post(self, *args, **options)

    @functools.wraps(patch)
    def patch_(self: RunTree, *args: Any, **options: Any) -> None:
        turn = _turn_with(self.id)
        if turn is None or is_told(turn):
            patch(self, *args, **options)

    @functools.wraps(create_child)
    def create_child_(self: RunTree, *args: Any, **options: Any) -> RunTree:
        if place_var.get() is None or any(options.get(name) is not None for name in ("run_id", "start_time")):
            return create_child(self, *args, **options)
        run_id = next_run_id()
        begin = _begin_of(run_id)
        assert begin is not None
        began, told_at = begin
        child = create_child(self, *args, **{**options, "run_id": run_id, "start_time": told_at})
        child.start_time = began
        return child

    RunTree.post, RunTree.patch = post_, patch_  # type: ignore[method-assign]
    RunTree.create_child = create_child_  # type: ignore[method-assign]


def _keep_open_what_waits() -> None:
    end: Any = getattr(run_helpers, "_container_end", None)
    if end is None:  # a LangSmith of before, or after: what waits is shown as failed, and then as it ended
        return

    @functools.wraps(end)
    def container_end(container: Any, outputs: Any = None, error: BaseException | None = None) -> None:
        if not _only_waits(error):
            end(container, outputs, error)

    run_helpers._container_end = container_end


def _flush() -> None:
    for client in list(_clients):
        client.flush()


def install() -> None:
    """Trace turns as they are. Outside of them nothing changes."""
    manager.handle_event = _handle_event
    manager.ahandle_event = _ahandle_event
    manager.uuid7 = lambda nanoseconds=None: next_run_id()  # type: ignore[attr-defined]
    _give_times()
    _send_once()
    _keep_open_what_waits()
    before_exit(_flush)
