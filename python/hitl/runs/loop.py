"""What one event loop needs to run turns: a channel to the core, and a way to hear what it is done with.

Made at the first run on a loop, kept on the loop object, closed with it. The core's threads never run Python: they put
what is done into a queue and write a byte, and the loop fetches it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import hitl
from hitl import _core
from hitl.errors import HitlError, UnreadableJournal
from hitl.rebound import rebind
from hitl.runs.channel import LoopChannel
from hitl.runs.turns import RunTurn, Task
from hitl.schedule import OUTSIDE, install
from hitl.worker.frames import PROTOCOL, Frame
from hitl.worker.turns import describe_error

Listener = Callable[[str, bytes], None]
"""Hears the name and the data (JSON) of an event."""

_ATTRIBUTE = "_hitl_runs"
PYTHON = ".".join(map(str, sys.version_info[:2]))


class LoopRuns:
    """See the module."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.core = _core.RunDesk()  # first: in a forked process this is where it ends
        rebind()
        install(loop)
        self._loop = loop
        self._tokens = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[int, Listener] = {}
        self._tasks: dict[str, Task] = {}
        """Runs by what the core calls them."""
        channel, bell = self.core.open()
        self._bell = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=bell)
        self._bell.setblocking(False)
        OUTSIDE.copy().run(loop.add_reader, self._bell, self._rung)
        self._channel = LoopChannel(loop, channel, self._received, self._lost)
        self._channel.send(
            {
                "frame": "hello",
                "protocol": PROTOCOL,
                "pid": os.getpid(),
                "python": ".".join(map(str, sys.version_info[:3])),
                "library": hitl.__version__,
                "code": "",
                "replay": True,
            }
        )
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
        self, begin: Callable[[int], Any], listener: Listener | None = None
    ) -> tuple[int, Any, asyncio.Future[Any]]:
        """Have the core do something: its number, what ``begin(number)`` returned, and its value, when it is done."""
        token = next(self._tokens)
        done: asyncio.Future[Any] = self._loop.create_future()
        begun = begin(token)
        self._waiting[token] = done
        if listener is not None:
            self._listeners[token] = listener
        return token, begun, done

    async def wait(self, begin: Callable[[int], Any]) -> Any:
        """Have the core do something, and wait for it."""
        return await self.ask(begin)[2]

    def enter(self, alias: str, task: Task) -> None:
        """A run begins."""
        self._tasks[alias] = task

    def leave(self, alias: str) -> None:
        """A run is over."""
        self._tasks.pop(alias, None)

    # -- from the core --------------------------------------------------------------------------------------------

    def _rung(self) -> None:
        try:
            self._bell.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        for token, is_event, error, value in self.core.completed():
            if is_event:
                listener = self._listeners.get(token)
                if listener is not None:
                    listener(*value)
                continue
            self._listeners.pop(token, None)
            done = self._waiting.pop(token, None)
            if done is None or done.done():
                continue
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(value)

    def _received(self, frame: Frame) -> None:
        name = frame["frame"]
        if name == "turn":
            self._start(frame)
        elif name == "ping":
            self._channel.send({"frame": "pong"})
        elif "turn" in frame:
            task = self._tasks.get(frame["turn"])
            turn = task.turn if task is not None else None
            if turn is not None and turn.stopped_as is None and name not in ("cancel", "park"):
                turn.receive(frame)
            elif name in ("cancel", "park"):
                if turn is None or turn.task.done():
                    self._dropped(frame["turn"], "parked", 0)
                elif turn.stopped_as is None:
                    turn.cancel() if name == "cancel" else turn.park()

    def _start(self, frame: Frame) -> None:
        alias = frame["turn"]
        task = self._tasks.get(alias)
        if task is None:
            return
        try:
            turn = task.turn = RunTurn(task, self._channel, frame)
        except UnreadableJournal as error:
            task.error = error
            end = {"frame": "end", "turn": alias, "call": 1, "result": {"error": describe_error(error)}}
            self._channel.send(end)
            return
        turn.task.add_done_callback(lambda _: self._ended(alias, turn), context=OUTSIDE.copy())

    def _ended(self, alias: str, turn: RunTurn) -> None:
        if turn.stopped_as is not None:
            self._dropped(alias, turn.stopped_as, turn.left)

    def _dropped(self, alias: str, how: str, left: int) -> None:
        # The core waits for this; what goes on all the same is its caller's, and not a reason to end the loop.
        self._channel.send({"frame": how, "turn": alias, "left": 0})

    def _lost(self, error: Exception | None) -> None:
        """The core is gone, or does not speak our language: nothing that waits will come."""
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            if not done.done():
                done.set_exception(HitlError(f"the channel to hitl's core is closed: {error}", code="worker_lost"))

    # -- the end ----------------------------------------------------------------------------------------------------

    def _close_with(self, loop: asyncio.AbstractEventLoop) -> None:
        close = loop.close

        def close_all() -> None:
            if not loop.is_running():
                self._close()
            close()

        loop.close = close_all  # type: ignore[method-assign]  # a loop tells nobody that it is closed

    def _close(self) -> None:
        if getattr(self._loop, _ATTRIBUTE, None) is self:
            delattr(self._loop, _ATTRIBUTE)
            self._channel.close()
            self._loop.remove_reader(self._bell)
            self._bell.close()
