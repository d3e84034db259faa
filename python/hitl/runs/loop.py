"""What one event loop needs to run turns: the core's bridge, which the loop drives itself.

Made at the first run on a loop, kept on the loop object, closed with it. What is said to the core is passed on, and
what came of it fetched, once in a round of the loop: all that a turn says in one round is one commit. Where something
has to be waited for, the core writes a byte to a socket when it is there; its threads never run Python.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from hitl import _core
from hitl.driver.frames import Frame, encode_body
from hitl.pythons import require_tested
from hitl.turn.forked import leave_to_parent
from hitl.turn.rebound import rebind
from hitl.turn.resources import END_SECONDS, close_all, has_open
from hitl.turn.schedule import OUTSIDE, install

Listener = Callable[[str, bytes], None]
"""Hears the name and the data (JSON) of an event."""

_ATTRIBUTE = "_hitl_runs"
PYTHON = ".".join(map(str, sys.version_info[:2]))


class TurnHolder(Protocol):
    """Whoever has the turn of a run."""

    def told(self, frame: Frame) -> None:
        """A frame of the core about the turn."""


class LoopRuns:
    """See the module."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        require_tested()
        self.core = _core.RunBridge()  # first: in a forked process this is where it ends
        rebind()
        install(loop)
        self._loop = loop
        self._tokens = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[int, Listener] = {}
        self._holders: dict[int, TurnHolder] = {}
        self._is_fetching = False
        self._closed = False
        self._bell = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=self.core.open())
        self._bell.setblocking(False)
        OUTSIDE.copy().run(loop.add_reader, self._bell, self._rung)
        self._close_with(loop)

    @staticmethod
    def here() -> LoopRuns:
        """Those of the running loop."""
        loop = asyncio.get_running_loop()
        runs: LoopRuns | None = getattr(loop, _ATTRIBUTE, None)
        if runs is None:
            runs = LoopRuns(loop)
            setattr(loop, _ATTRIBUTE, runs)
        return runs

    def ask(
        self, begin: Callable[[int], Any], holder: TurnHolder | None = None, listener: Listener | None = None
    ) -> tuple[int, Any, asyncio.Future[Any]]:
        """Have the core do something: its number, what ``begin(number)`` returned, and its value, when it is done."""
        token = next(self._tokens)
        done: asyncio.Future[Any] = self._loop.create_future()
        begun = begin(token)
        self._waiting[token] = done
        if holder is not None:
            self._holders[token] = holder
        if listener is not None:
            self._listeners[token] = listener
        self.fetch_soon()
        return token, begun, done

    async def wait(self, begin: Callable[[int], Any]) -> Any:
        """Have the core do something, and wait for it."""
        return await self.ask(begin)[2]

    def say(self, token: int, frame: Frame) -> None:
        """Say something about the turn of a run. TypeError or ValueError for what is no JSON."""
        if self._closed:
            return
        if not self.core.hear(token, frame):
            self.core.hear_json(token, encode_body(frame))
        self.fetch_soon()

    def over(self, token: int) -> asyncio.Future[Any]:
        """Done when the core is through with a run whose caller does not wait for it any more."""
        over: asyncio.Future[Any] = self._loop.create_future()
        if token in self._waiting:
            self._waiting[token] = over
        else:
            over.set_result(None)
        return over

    def stop(self, token: int) -> None:
        """Let go of a run. What is on its way to the store may still come there until it is ``over``."""
        self.leave(token)
        self.core.stop(token)
        self.fetch_soon()

    def leave(self, token: int) -> None:
        """Nobody has the turn of this run any more."""
        self._holders.pop(token, None)
        self._listeners.pop(token, None)

    def fetch_soon(self) -> None:
        """Pass on what was said, and hear what came of it, in this round of the loop."""
        if not self._is_fetching and not self._closed:
            self._is_fetching = True
            # In a context of its own: it must not be that of a turn.
            self._loop.call_soon(self._fetch, context=OUTSIDE.copy())

    # -- from the core --------------------------------------------------------------------------------------------

    def _rung(self) -> None:
        try:
            self._bell.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        self._fetch()

    def _fetch(self) -> None:
        self._is_fetching = False
        if self._closed:
            return
        for token, what, value in self.core.fetch():
            try:
                self._pass_on(token, what, value)
            except Exception as error:  # noqa: BLE001 - it is that run's, and no reason to keep their news from the others
                self._complete(token, "error", error)

    def _pass_on(self, token: int, what: str, value: Any) -> None:
        if what == "told":
            if (holder := self._holders.get(token)) is not None:
                holder.told(value)
        elif what == "event":
            if (listener := self._listeners.get(token)) is not None:
                listener(*value)
        else:
            self._complete(token, what, value)

    def _complete(self, token: int, what: str, value: Any) -> None:
        done = self._waiting.pop(token, None)
        if done is None or done.done():
            return
        if what == "error":
            done.set_exception(value)
        else:
            done.set_result(value)

    # -- the end ----------------------------------------------------------------------------------------------------

    def _close_with(self, loop: asyncio.AbstractEventLoop) -> None:
        close, pid = loop.close, os.getpid()

        def close_with_runs() -> None:
            if not loop.is_running():
                if pid != os.getpid():
                    leave_to_parent(loop)
                    return
                if has_open(loop) and not loop.is_closed():
                    loop.run_until_complete(close_all(END_SECONDS))
                self._close()
            close()

        loop.close = close_with_runs  # type: ignore[method-assign]  # a loop tells nobody that it is closed

    def _close(self) -> None:
        if getattr(self._loop, _ATTRIBUTE, None) is self:
            delattr(self._loop, _ATTRIBUTE)
            self._closed = True
            self._loop.remove_reader(self._bell)
            self._bell.close()
