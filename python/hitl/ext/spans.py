"""Spans that a framework traces by itself in a turn. A replay begins and ends them again: with the names and times that
they had, so that what another process has exported has its place among them, and without exporting them again."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from typing import Final
from weakref import WeakKeyDictionary

from hitl.turn.places import Place, StepScope
from hitl.turn.runtime import Turn, turn_of

_RERUN: Final = re.compile(r"#!\d+")
"""What tells the places of a body's later run from those of its first: its spans are the same."""

_begun: WeakKeyDictionary[Turn, Counter[str]] = WeakKeyDictionary()
_lock = threading.Lock()  # plain functions of a turn run in threads


def begin_span(place: Place) -> tuple[str, float]:
    """What names a span that begins there, and when it does, in seconds since 1970: the same in every replay."""
    turn, scope = turn_of(place), place.step
    is_free = scope is not None and not scope.ordered
    # A request to a model never goes on where it was: what runs there again is another one.
    is_request = scope is not None and scope.kind == "model" and is_free
    where = f"{place.path}/{scope.attempt}" if scope is not None and is_request else place.path
    with _lock:
        numbers = _begun.setdefault(turn, Counter())
        numbers[where] += 1
        number = numbers[where]
    # A body begins as soon as the turn is told of what was before it; how long it then runs freely, nothing records.
    is_known = not is_free or (number == 1 and not is_request and _is_main_task(place, scope))
    at = round(turn.order.wall_time, 3) if is_known else time.time()
    return f"{turn.turn_id}/{_RERUN.sub('', where)}/{number}", at


def _is_main_task(place: Place, scope: StepScope | None) -> bool:
    return scope is not None and _RERUN.sub("", place.path.removeprefix(f"{scope.path}/")) == "0"


def is_told(turn: Turn) -> bool:
    """Whether what happens now has not happened before, and has not only left memory."""
    return turn.order.is_live and not turn.has_ended
