"""The ``TurnPort`` of a turn that a server gave us: records become frames, frames what the turn's order is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from hitl.driver.frames import Frame, Sender
from hitl.errors import HitlError, WorkerProtocolError, error_for_refusal
from hitl.journal.ports import Holder, InterruptRequest, PendingTimer, StepIdentity, Wake
from hitl.turn.order import Order
from hitl.turn.schedule import OUTSIDE

_LOG_PIECE = 1024 * 1024


class ChannelPort:
    """See the module."""

    def __init__(self, channel: Sender, turn_id: str) -> None:
        self._channel = channel
        self._turn_id = turn_id
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.last_call = 0
        """The number of what was said last that is to be acknowledged."""
        self._end: tuple[int, Callable[[HitlError | None], None]] | None = None
        self._silent = False

    # -- TurnPort -------------------------------------------------------------------------------------------------

    def step(self, step: StepIdentity, result: dict[str, Any]) -> int:
        return self._call({"frame": "step", "step": step, "result": result})

    def intent(self, step: StepIdentity, arguments: Mapping[str, Any] | None = None) -> int:
        frame: Frame = {"frame": "intent", "step": step}
        try:
            return self._call(frame if arguments is None else {**frame, "arguments": arguments})
        except (TypeError, ValueError):  # the call is what counts; what cannot be sent is not shown
            return self._call(frame)

    def started(self, step: StepIdentity, arguments: Mapping[str, Any] | None) -> None:
        frame: Frame = {"frame": "started", "step_id": step["path"], "name": step["name"]}
        if "tool_call_id" in step:
            frame["tool_call_id"] = step["tool_call_id"]
        try:
            self._send(frame if arguments is None else {**frame, "arguments": arguments})
        except (TypeError, ValueError):
            self._send(frame)

    def ask(self, step: StepIdentity, interrupt: InterruptRequest) -> int:
        return self._call({"frame": "ask", "step": step, "interrupt": interrupt})

    def timer(self, path: str, due: int) -> int:
        return self._call({"frame": "timer", "path": path, "due": due})

    def withdraw(self, interrupt_id: str) -> None:
        self._send({"frame": "withdraw", "interrupt_id": interrupt_id})

    def wakes(self, wakes: list[Wake]) -> None:
        self._send({"frame": "wakes", "wakes": wakes})

    def waiting(self, seen: int | None, timers: list[PendingTimer], context: Any) -> None:
        waiting = {"frame": "waiting", "seen": seen, "timers": timers}
        self._send(waiting if context is None else {**waiting, "context": context})

    def held(self, by: list[Holder], *, at_work: bool, is_replay: bool) -> None:
        self._send({"frame": "held", "by": by, "at_work": at_work, "replay": is_replay})

    def replayed(self, warnings: list[str]) -> None:
        self._send({"frame": "replayed", "warnings": warnings})

    def delta(self, step_id: str, attempt: int, delta: dict[str, str]) -> None:
        self._send({"frame": "delta", "step_id": step_id, "attempt": attempt, "delta": delta})

    def log(self, stream: str, text: str) -> None:
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()
        for start in range(0, len(text), _LOG_PIECE):
            frame = {"frame": "log", "stream": stream, "text": text[start : start + _LOG_PIECE]}
            if threading.get_ident() == self._thread:
                self._send(frame)
            elif not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._send, frame, context=OUTSIDE.copy())

    # -- what the worker uses -------------------------------------------------------------------------------------

    def end(self, result: dict[str, Any], settled: Callable[[HitlError | None], None]) -> None:
        """Send the turn's outcome; ``settled`` is told once that it is committed, or the refusal."""
        self._end = (self._call({"frame": "end", "result": result}), settled)

    def silence(self) -> None:
        """The turn is not ours any more: send nothing, and wait for nothing that was sent."""
        self._silent = True
        if self._end is not None:
            self._ends(self._end[0], None)

    def receive(self, frame: Frame, order: Order) -> None:
        """A frame of the server about this turn."""
        receiver = _RECEIVERS.get(frame["frame"])
        if receiver is None:
            raise WorkerProtocolError(f"an unexpected frame {frame['frame']!r}")
        receiver(self, frame, order)

    def _acknowledged(self, frame: Frame, order: Order) -> None:
        if self._ends(frame["call"], None):
            return
        order.acknowledged(frame["call"], frame["index"], frame["at"], frame.get("interrupt_id"))

    def _refused(self, frame: Frame, order: Order) -> None:
        error = error_for_refusal(frame["code"], frame["message"])
        if not self._ends(frame["call"], error):
            order.refused(frame["call"], error)

    def _answered(self, frame: Frame, order: Order) -> None:
        self._tell_outcome(frame, order, {"answer": frame["value"]})

    def _expired(self, frame: Frame, order: Order) -> None:
        self._tell_outcome(frame, order, {"expired": True})

    def _tell_outcome(self, frame: Frame, order: Order, outcome: dict[str, Any]) -> None:
        interrupt_id, index, at = frame["interrupt_id"], frame["index"], frame["at"]
        if (watcher := order.turn.watcher) is not None:
            watcher.answered(interrupt_id, index, at, outcome, frame.get("by"))
        order.answered(interrupt_id, index, at, outcome)

    def _ends(self, call: int, error: HitlError | None) -> bool:
        if self._end is None or self._end[0] != call:
            return False
        settled = self._end[1]
        self._end = None
        settled(error)
        return True

    def _call(self, frame: Frame) -> int:
        self.last_call += 1
        frame["call"] = self.last_call
        self._send(frame)
        return self.last_call

    def _send(self, frame: Frame) -> None:
        if not self._silent:
            frame["turn"] = self._turn_id
            self._channel.send(frame)


_RECEIVERS: dict[str, Callable[[ChannelPort, Frame, Order], None]] = {
    "ack": ChannelPort._acknowledged,
    "refused": ChannelPort._refused,
    "answer": ChannelPort._answered,
    "expired": ChannelPort._expired,
}
