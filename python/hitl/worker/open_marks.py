"""Which children have no turn and something open that is to be closed: those are not killed at once.

A server kills its workers when it ends. One that still runs a turn has to be gone at that moment, as somebody else may
have the turn already; one that runs none, and closes its connections, can be given the time. The child says so in a
byte of a page that it shares with the process it was forked from: whoever kills it need not ask it.
"""

from __future__ import annotations

from collections.abc import Callable

_PAGE = 4096


class OpenMarks:
    """One byte for each child, up to 4,096 at once; those beyond have none, and are killed at once."""

    def __init__(self) -> None:
        # Late: only a process that forks workers needs it.
        import mmap

        self._page = mmap.mmap(-1, _PAGE)
        self._places: dict[int, int] = {}
        """By the number of the child."""
        self._unused = list(range(_PAGE))

    def add(self, child: int) -> Callable[[bool], None] | None:
        """Give a child that is about to be forked a byte: what it says in it by."""
        if not self._unused:
            return None
        place = self._places[child] = self._unused.pop()
        page = self._page
        page[place] = 0

        def say(is_open: bool) -> None:
            page[place] = is_open

        return say

    def has_open(self, child: int) -> bool:
        """Whether it has said so last."""
        place = self._places.get(child)
        return place is not None and self._page[place] != 0

    def remove(self, child: int) -> None:
        """It has ended, or was never forked."""
        place = self._places.pop(child, None)
        if place is not None:
            self._unused.append(place)
