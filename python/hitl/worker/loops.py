"""The event loop of a worker: ours, so that tasks are numbered and no agent can end it."""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from hitl.turn.forked import end_on_loop
from hitl.turn.rebound import rebind
from hitl.turn.reporting import report, report_error
from hitl.turn.schedule import OUTSIDE, install

_MOST_UNASKED = 8
"""Rounds in a row that may go by before the system is asked, where callbacks make each other ready without end."""


_open: list[WorkerLoop] = []


def _end_forked() -> None:
    for loop in _open:
        loop.end_forked()


os.register_at_fork(after_in_child=_end_forked)


class WorkerLoop(asyncio.SelectorEventLoop):
    """A selector loop that keeps the order of turns. The system knows nothing of it before ``open()``.

    So it can be made before a fork, once for all children: until it is open it has no descriptor that a child and its
    parent would share.
    """

    def __init__(self) -> None:
        rebind()
        self._is_open = False
        super().__init__(_Unopened())
        install(self)

    def open(self) -> None:
        """Make what the loop waits with, and let it be this thread's."""
        self._selector = self._rounds = _Rounds(self._ready)  # type: ignore[attr-defined]
        self._is_open = True
        self._make_self_pipe()
        asyncio.set_event_loop(self)
        _open.append(self)

    def close(self) -> None:
        if self in _open and not self.is_running():
            _open.remove(self)
        super().close()

    def end_forked(self) -> None:
        """This process was forked. Where that was done on this loop, end it as soon as it comes back: before any other
        callback of what are turns of the parent's."""
        if self._thread_id == threading.get_ident():  # type: ignore[attr-defined]
            self._ready.appendleft(asyncio.Handle(end_on_loop, (), self, OUTSIDE.copy()))  # type: ignore[attr-defined]

    def at_end_of_round(self, callback: Callable[[], None]) -> None:
        """Call it once the callbacks of this round have run, outside of every turn. It must not raise."""
        self._rounds.due.append(callback)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        try:
            super().call_exception_handler(context)
        except Exception as error:  # noqa: BLE001 - raised here it would end the loop, and all turns with it
            raised = context.get("exception")
            report(f"{context.get('message')}\n")
            report_error(raised if isinstance(raised, BaseException) else error)

    # The methods and attributes of asyncio that hold descriptors and callbacks; every Python since 3.4 has them.

    def _make_self_pipe(self) -> None:
        if self._is_open:
            super()._make_self_pipe()  # type: ignore[misc]

    def _close_self_pipe(self) -> None:
        if self._is_open:
            super()._close_self_pipe()  # type: ignore[misc]


class _Rounds(selectors.DefaultSelector):
    """asyncio's own, with less to do in a round of the loop: while ``ready``, its callbacks, holds some, nobody has to
    ask the system for more. In a turn that is so in every round but the last of each thing that it is told.
    """

    def __init__(self, ready: deque[Any]) -> None:
        super().__init__()
        self.due: list[Callable[[], None]] = []
        self._ready = ready
        self._unasked = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.due:
            due, self.due = self.due, []
            for callback in due:
                callback()
        if self._ready:
            timeout = 0
            self._unasked += 1
            if self._unasked < _MOST_UNASKED:
                return []
        self._unasked = 0
        return super().select(timeout)


class _Unopened(selectors.BaseSelector):
    """Waits for nothing."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise RuntimeError("the loop is not open")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise RuntimeError("the loop is not open")

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise RuntimeError("the loop is not open")

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}


def new_loop() -> WorkerLoop:
    """An open loop."""
    loop = WorkerLoop()
    loop.open()
    return loop


def run(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` to its end.

    A SystemExit or KeyboardInterrupt that some task of an agent raises is that task's result, as any exception; asyncio
    also lets it fly out of the loop, which then goes on here.
    """
    task = loop.create_task(main)
    task.add_done_callback(lambda _: loop.stop())
    while not task.done():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
    task.result()
