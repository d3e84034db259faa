"""Where code of a turn runs: in which task, inside which step. Steps are named after it.

``0`` is the turn's root task, ``0.k`` its k-th child; ``0.1#2`` is the second step of task ``0.1``; a step inside a
step's body starts over under it: ``0#3/0#1``.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hitl.runtime import Turn


class Work:
    """Something that keeps a turn busy, unless everything it does is inside other work (``inner`` of them)."""

    __slots__ = ("done", "inner", "parent")

    def __init__(self, parent: Work | None) -> None:
        self.parent = parent
        self.inner = 0
        self.done = False


class StepScope(Work):
    """A step whose body runs."""

    __slots__ = ("attempt", "kind", "name", "once", "outer", "path")

    def __init__(
        self, parent: Work | None, outer: StepScope | None, path: str, kind: str, name: str, once: bool
    ) -> None:
        super().__init__(parent)
        self.outer = outer
        self.path = path
        self.kind = kind
        self.name = name
        self.once = once
        self.attempt = 1


class Place:
    """One task of a turn, or of a step's body. Counts the steps and the child tasks that were made in it."""

    __slots__ = ("_children", "_numbers", "_prefix", "_task", "step", "turn", "work")

    def __init__(self, turn: Turn, step: StepScope | None = None) -> None:
        self.turn = turn
        self.step = step
        self.work: Work | None = step
        self._prefix = "" if step is None else f"{step.path}/"
        self._task = "0"
        # Boxes, so that a thread that works for this task (``inside``) goes on counting where the task is.
        self._numbers = [0]
        self._children = [0]

    def next_step(self) -> str:
        """The path of the next step made here."""
        self._numbers[0] += 1
        return f"{self._prefix}{self._task}#{self._numbers[0]}"

    def next_task(self) -> Place:
        """The place of the next task made here."""
        self._children[0] += 1
        child = self._copy()
        child._task = f"{self._task}.{self._children[0]}"
        child._numbers = [0]
        child._children = [0]
        return child

    def inside(self, work: Work) -> Place:
        """This same task, while ``work`` is done for it."""
        place = self._copy()
        place.work = work
        return place

    def _copy(self) -> Place:
        place = Place.__new__(Place)
        place.turn = self.turn
        place.step = self.step
        place.work = self.work
        place._prefix = self._prefix
        place._task = self._task
        place._numbers = self._numbers
        place._children = self._children
        return place


place_var: contextvars.ContextVar[Place | None] = contextvars.ContextVar("hitl_place", default=None)
