"""Where ``print`` goes when several turns share a process: to the server, with the turn that printed.

``sys.stdout`` and ``sys.stderr`` are replaced by routers. Inside a turn, found by its context variable and so right in
tasks and threads alike, whole lines go to the turn's port; outside of turns everything goes where it always went, so
that a program which serves an agent in a thread keeps its output. Handlers of ``logging`` have the stream that was
there when they were made, as by ``basicConfig()`` at an import: they get the router instead of it.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from hitl.turn.places import place_var
from hitl.turn.runtime import Turn, turn_of

# A line longer than this is sent in pieces: a program may print for ever without ending one.
_MAX_LINE = 64 * 1024


class OutputRouter(io.TextIOBase):
    """Stands in for one of the two streams; what it does not define is the original's."""

    def __init__(self, stream: str, original: TextIO) -> None:
        super().__init__()
        self.original = original
        self._stream = stream
        self._lines: WeakKeyDictionary[Turn, str] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self.is_of_parent = False
        """This process was forked from that of the turns: what it prints goes where its output goes."""

    def write(self, text: str, /) -> int:
        place = place_var.get()
        if place is None or place.turn.closed or self.is_of_parent:
            return self.original.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        turn = turn_of(place)
        with self._lock:
            pending = self._lines.get(turn, "") + text
            whole, newline, rest = pending.rpartition("\n")
            if not newline and len(rest) > _MAX_LINE:
                whole, rest = rest, ""
            self._lines[turn] = rest
        if whole or newline:
            turn.port.log(self._stream, whole + newline)
        return len(text)

    def finish(self, turn: Turn) -> None:
        """Send the last line of a turn that did not end it."""
        with self._lock:
            rest = self._lines.pop(turn, "")
        if rest:
            turn.port.log(self._stream, f"{rest}\n")

    def flush(self) -> None:
        if self._is_outside() and not self.original.closed:
            self.original.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._is_outside() and self.original.isatty()

    def _is_outside(self) -> bool:
        return place_var.get() is None or self.is_of_parent

    def fileno(self) -> int:
        return self.original.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.original.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.original.errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


_routers: list[OutputRouter] = []
_users = 0
_lock = threading.Lock()


def _leave_to_parent() -> None:
    for router in _routers:
        router.is_of_parent = True


os.register_at_fork(after_in_child=_leave_to_parent)


def install() -> None:
    """Route this process's output by turn, until as many ``uninstall`` calls."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            for stream in ("stdout", "stderr"):
                router = OutputRouter(stream, getattr(sys, stream))
                _routers.append(router)
                setattr(sys, stream, router)
                _hand_over(router.original, router)


def uninstall() -> None:
    """Put the streams back, unless somebody else has replaced them meanwhile."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            for stream, router in zip(("stdout", "stderr"), _routers, strict=True):
                if getattr(sys, stream) is router:
                    setattr(sys, stream, router.original)
                _hand_over(router, router.original)
            _routers.clear()


def _hand_over(before: TextIO | OutputRouter, after: TextIO | OutputRouter) -> None:
    """Let handlers of logging that write to one stream write to another."""
    known: Any = logging
    for reference in tuple(known._handlerList):  # all there are; loggers know those alone that were added to them
        handler: Any = reference()
        if isinstance(handler, logging.StreamHandler) and getattr(handler, "stream", None) is before:
            handler.setStream(after)


def finish(turn: Turn) -> None:
    """Send what a turn printed and did not end with a newline."""
    for router in tuple(_routers):
        router.finish(turn)


def original(stream: str) -> TextIO:
    """Where ``stream`` went before it was routed by turn."""
    current: Any = getattr(sys, stream)
    found: TextIO = current.original if isinstance(current, OutputRouter) else current
    return found
