"""Ids of spans: those of a turn follow from its id, so that processes that run parts of it come to the same ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextvars import ContextVar
from typing import Final
from weakref import WeakKeyDictionary

from opentelemetry.sdk.trace.id_generator import IdGenerator

from hitl.turn.places import AnyTurn, Place, place_var

TURN: Final = "turn"
"""What a turn's own span is called among its parts; a step is called by its path, a wait by ``wait/`` and its path."""

given_ids: ContextVar[tuple[int, int] | None] = ContextVar("hitl_given_ids", default=None)
"""The ids of trace and span that the next span gets."""


def trace_id_of(turn_id: str) -> int:
    """The trace of a turn that is no part of another one."""
    return int.from_bytes(hashlib.sha256(f"hitl trace {turn_id}".encode()).digest()[:16], "big")


def span_id_of(turn_id: str, part: str) -> int:
    """The span of a part of a turn."""
    return int.from_bytes(hashlib.sha256(f"hitl span {turn_id} {part}".encode()).digest()[:8], "big")


class TurnIds(IdGenerator):
    """Ids as they are given; else, in a turn, by where in it the span begins; else those of ``inner``."""

    def __init__(self, inner: IdGenerator) -> None:
        self.inner = inner
        self._made: WeakKeyDictionary[AnyTurn, Counter[str]] = WeakKeyDictionary()

    def generate_trace_id(self) -> int:
        given = given_ids.get()
        return self.inner.generate_trace_id() if given is None else given[0]

    def generate_span_id(self) -> int:
        given = given_ids.get()
        if given is not None:
            return given[1]
        place = place_var.get()
        return self.inner.generate_span_id() if place is None else self._span_at(place)

    def is_trace_id_random(self) -> bool:
        # What follows from an id that is a UUID is as good as random, but nobody has to rely on it.
        return given_ids.get() is None and self.inner.is_trace_id_random()

    def _span_at(self, place: Place) -> int:
        """Of a span that the agent's own code begins. A replay comes to it again, and it is the same one; a body that
        runs once more after a crash is another run."""
        scope = place.step
        run = 1 if scope is None or scope.ordered else scope.attempt
        made = self._made.setdefault(place.turn, Counter())
        where = f"own/{run}/{place.path}"
        made[where] += 1
        return span_id_of(place.turn.turn_id, f"{where}/{made[where]}")
