"""Spans that a framework traces by itself in a turn. A replay begins and ends them again: with the names and times that
they had, so that what another process has exported has its place among them, and without exporting them again."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from hitl.turn.places import Place
from hitl.turn.runtime import Turn, turn_of

_RERUN: Final = re.compile(r"#!\d+")
"""What tells the places of a body's later run from those of its first: its spans are the same."""


class SpanBegin(NamedTuple):
    """Where and when a span begins; times in nanoseconds since 1970."""

    name: str
    """Unlike that of any other, and the same in every replay."""
    at: int
    """When it begins. Of a body that ran freely, and runs again, the time when it began to run."""
    told_at: int
    """When the turn was told of what was before it: the same in every replay, and no later."""


_begun: WeakKeyDictionary[Turn, tuple[Counter[str], dict[str, SpanBegin]]] = WeakKeyDictionary()
"""How many have begun in each place of a turn, and those that are known, by name."""
_lock = threading.Lock()  # plain functions of a turn run in threads


def begin_span(place: Place) -> SpanBegin:
    """Begin one there. In a body that runs several times from its top, it is the one that it was in the first run."""
    turn, scope = turn_of(place), place.step
    is_free = scope is not None and not scope.ordered
    # A request to a model never goes on where it was: what runs there again is another one.
    is_request = scope is not None and scope.kind == "model" and is_free
    where = f"{place.path}/{scope.attempt}" if scope is not None and is_request else place.path
    with _lock:
        begun = _begun.get(turn)
        if begun is None:
            begun = _begun[turn] = Counter(), {}
        numbers, known = begun
        numbers[where] += 1
        number = numbers[where]
    name = f"{turn.turn_id}/{_RERUN.sub('', where) if '#!' in where else where}/{number}"
    told_at = round(turn.order.wall_time * 1000) * 1_000_000  # a journal has milliseconds
    begin = SpanBegin(name, time.time_ns() if is_free else told_at, told_at)
    return known.setdefault(name, begin)


def is_told(turn: Turn) -> bool:
    """Whether what happens now has not happened before, and has not only left memory."""
    return turn.order.is_live and not turn.has_ended
