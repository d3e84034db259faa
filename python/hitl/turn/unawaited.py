"""Questions and steps whose `await` was forgotten: nobody was asked, nothing was done, and the code goes on.

Python only warns of such a coroutine, on standard error, once it is gone. A gate that was not awaited would stand
open, so the turn ends with an error that says where.
"""

from __future__ import annotations

import inspect
from asyncio import Task
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

NOBODY_ASKED = "was never awaited, and nobody was asked"


class Unawaited:
    """What the code of one turn has made to ask or to do, and not begun yet."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[Coroutine[Any, Any, Any], str]] = {}
        self._most = 16

    def made(self, mark: object, coroutine: Coroutine[Any, Any, T], what: str) -> Coroutine[Any, Any, T]:
        """`coroutine`, which may say `begun(mark)` first of all; `what` says that it was left out, and where."""
        self._made[mark] = coroutine, what
        if len(self._made) > self._most:
            self._made = {mark: made for mark, made in self._made.items() if _is_new(made[0])}
            self._most = 2 * len(self._made) + 16
        return coroutine

    def begun(self, mark: object) -> None:
        """It is awaited."""
        self._made.pop(mark, None)

    def refuse(self, tasks: Iterable[Task[Any]]) -> None:
        """RuntimeError that names the first that nobody has awaited. What was cancelled before it began is none, nor is
        what one of the turn's `tasks` is about to begin."""
        forgotten = [made for made in self._made.values() if _is_new(made[0])]
        self._made.clear()
        if forgotten:
            begin = {id(task.get_coro()) for task in tasks}
            forgotten = [made for made in forgotten if id(made[0]) not in begin]
        for coroutine, _ in forgotten:
            coroutine.close()  # else Python warns of it as well, under a name of ours
        if forgotten:
            raise RuntimeError(f"{forgotten[0][1]}\n\nhint: write await before it")


def _is_new(coroutine: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
