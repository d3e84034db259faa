"""Speaks the worker protocol: one turn for a forked child, many for a pool worker or a thread of somebody's program."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

import hitl
from hitl.driver.flushing import flush_all
from hitl.driver.frames import PROTOCOL, Frame
from hitl.driver.running import DROPPED, RunningTurn, unopened
from hitl.driver.shapes import LoadedAgent
from hitl.errors import WorkerProtocolError
from hitl.turn.resources import END_SECONDS, close_all, has_open, when_opened
from hitl.worker.channel import Channel

_LEAST_FLUSH_SECONDS = 0.2
"""What is left for handing over what was traced, where resources take all of ``END_SECONDS`` to be closed."""


class Worker:
    """Speaks the worker protocol over one channel.

    ``code`` is the code version of the agent. ``single``: one turn, then done. ``on_lost`` is called when the channel
    is gone, with what went wrong or None at its end: the turns are not this worker's any more. ``mark_open`` is
    called with whether it has no turn, and something open that is to be closed: see ``hitl.worker.open_marks``.
    """

    def __init__(
        self,
        agent: LoadedAgent,
        *,
        single: bool,
        code: str,
        on_lost: Callable[[Exception | None], None],
        mark_open: Callable[[bool], None] | None = None,
    ) -> None:
        self._agent = agent
        self._code = code
        self._single = single
        self._on_lost = on_lost
        self._mark_open = mark_open
        self._turns: dict[str, RunningTurn] = {}
        self._let_go: set[str] = set()
        """Turns that were said to be dropped although nobody had asked for that. An order that crossed this has its
        answer by it: frames tell nothing of epochs, and another would be taken for one about the turn's next run."""
        self._unopened: set[str] = set()
        """Turns that could not be opened, whose end says so and is not known to be stored."""
        self._served_one = False
        self._left_behind: RunningTurn | None = None
        """The turn of a ``single`` worker that was parked. Kept: tasks that are forgotten run their ``finally``."""
        self._ending = False
        self._done = asyncio.get_running_loop().create_future()
        self._channel: Channel | None = None

    async def serve(self, fd: int) -> None:
        """Run turns until the server says shutdown, or after the one turn of a ``single`` worker."""
        self._channel = Channel(fd, self._received, self._lost)
        when_opened(asyncio.get_running_loop(), self._tell_opened)
        try:
            self._channel.send(
                {
                    "frame": "hello",
                    "protocol": PROTOCOL,
                    "pid": os.getpid(),
                    "python": ".".join(map(str, sys.version_info[:3])),
                    "library": hitl.__version__,
                    "agent": self._agent.name,
                    "code": self._code,
                    "replay": self._agent.options.replay,
                    "pin": self._agent.options.pin,
                }
            )
            await self._done
            # Before the channel's end, at which the server ends the process.
            until = time.monotonic() + END_SECONDS
            await close_all(END_SECONDS)
            if self._single or self._ending:
                flush_all(max(until - time.monotonic(), _LEAST_FLUSH_SECONDS))
        finally:
            self._channel.close()

    async def abandon(self) -> None:
        """Stop every turn without another word to the server."""
        running = list(self._turns.values())
        for turn in running:
            turn.cancel(is_settled=False)
        for turn in running:
            await turn.gone.wait()
        self._finish()

    def hear_rest(self) -> None:
        """Hear what the server has said by now, such as that the end of a turn is stored."""
        if self._channel is not None:
            self._channel.hear_rest()

    def _lost(self, error: Exception | None) -> None:
        # A server lets go of a worker that has nothing left to do; what is open is closed all the same.
        if error is None and not self._turns and has_open(asyncio.get_running_loop()):
            self._finish()
        elif not self._done.done():
            self._on_lost(error)

    def _received(self, frame: Frame) -> None:
        name = frame["frame"]
        if name == "turn":
            self._start(frame)
        elif name == "ping":
            assert self._channel is not None
            self._channel.send({"frame": "pong"})
        elif name == "shutdown":
            self._ending = True
            self._finish_if_over()
        elif (turn := self._turns.get(frame["turn"])) is not None:
            if name == "cancel":
                turn.cancel()
            elif name == "park" and self._single:
                self._leave_behind(turn)
            elif name == "park":
                turn.park()
            else:
                turn.receive(frame)
        elif frame["turn"] in self._unopened and name == "refused":
            # Nothing else can be said of it. Who drops it tries anew, at another worker perhaps.
            self._unopened.discard(frame["turn"])
            self._let_go.add(frame["turn"])
            self._say_dropped(frame["turn"], DROPPED["cancel"], 0)
        elif name in DROPPED:
            self._unopened.discard(frame["turn"])
            if frame["turn"] in self._let_go:
                self._let_go.discard(frame["turn"])
            else:
                self._say_dropped(frame["turn"], DROPPED[name], 0)

    def _start(self, frame: Frame) -> None:
        if frame["turn"] in self._turns or (self._single and self._served_one):
            raise WorkerProtocolError(f"an unexpected turn frame, for {frame['turn']}")
        assert self._channel is not None
        self._served_one = True
        self._let_go.discard(frame["turn"])  # no order crossed it
        self._unopened.discard(frame["turn"])
        if self._mark_open is not None:
            self._mark_open(False)
        try:
            turn = RunningTurn(self._agent, self._channel, frame, self._code, on_gone=self._gone)
        except Exception as error:  # noqa: BLE001 - one turn that cannot be opened is no matter of the others
            if not self._single:  # of a child, the end of its process says the rest
                self._unopened.add(frame["turn"])
            self._channel.send(unopened(frame["turn"], error))
            self._update_mark()
            asyncio.get_running_loop().call_soon(self._finish_if_over)
            return
        self._turns[frame["turn"]] = turn

    def _gone(self, turn: RunningTurn) -> None:
        turn_id = turn.turn.turn_id
        del self._turns[turn_id]
        self._update_mark()
        if turn.stopped_as is not None:
            self._say_dropped(turn_id, turn.stopped_as, turn.left)
        elif not turn.has_ended and not self._single:  # of a child, the end of its process says so
            self._let_go.add(turn_id)
            self._say_dropped(turn_id, DROPPED["cancel"], turn.left)
        self._finish_if_over()

    def _leave_behind(self, turn: RunningTurn) -> None:
        if not turn.leave_behind():
            self._on_lost(None)  # it is at work after all, and may be elsewhere already
            return
        self._left_behind = turn
        self._turns.clear()
        self._update_mark()
        self._finish()

    def _tell_opened(self) -> None:
        # From now on the server lets this worker go, and does not kill it, where no turn is at work here.
        if self._channel is not None:
            self._channel.send({"frame": "opened"})

    def _update_mark(self) -> None:
        if self._mark_open is not None and not self._turns:
            self._mark_open(has_open(asyncio.get_running_loop()))

    def _say_dropped(self, turn_id: str, how: str, left: int) -> None:
        # The server waits for this: a worker that does not say it has a blocked loop.
        if self._channel is not None:
            self._channel.send({"frame": how, "turn": turn_id, "left": left})

    def _finish_if_over(self) -> None:
        if not self._turns and (self._ending or (self._single and self._served_one)):
            self._finish()

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)
