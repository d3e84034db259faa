"""Runs turns over a channel: one for a forked child, many for a pool worker or a thread of somebody's program."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import hitl
from hitl.agents.shapes import LoadedAgent
from hitl.codec import error_message
from hitl.errors import HitlError, InterruptExpired, WorkerProtocolError, error_for_refusal
from hitl.messages import ChatMessage
from hitl.ports import InterruptRequest, StepIdentity
from hitl.runtime import DEFAULT_MAX_PAYLOAD, Turn
from hitl.worker import output
from hitl.worker.channel import Channel
from hitl.worker.frames import PROTOCOL, Frame

# How long tasks that an agent left behind may take to stop before its response is sent without them, and how long a
# cancelled agent may clean up before its worker goes on.
_LEFTOVER_SECONDS = 1.0
_CLEANUP_SECONDS = 5.0
_LOG_PIECE = 1024 * 1024
_MAX_ERROR_TEXT = 8 * 1024


class SentInterrupt:
    """An ask on its way: see ``OpenInterrupt`` in hitl.runtime."""

    __slots__ = ("answer", "id", "opened", "withdrawn")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.opened: asyncio.Future[str] = loop.create_future()
        self.answer: asyncio.Future[Any] = loop.create_future()
        self.id: str | None = None
        self.withdrawn = False


class ChannelPort:
    """The ``TurnPort`` of a turn that a server gave us."""

    def __init__(self, channel: Channel, turn_id: str) -> None:
        self._channel = channel
        self._turn_id = turn_id
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._last_call = 0
        self._calls: dict[int, asyncio.Future[None] | SentInterrupt] = {}
        self._asked: dict[str, SentInterrupt] = {}
        # A client that polls can answer before the ask's own acknowledgement has been written to us.
        self._early: dict[str, Frame] = {}
        self._seen: int | None = None
        self._silent = False

    # -- TurnPort -------------------------------------------------------------------------------------------------

    def append_step(self, step: StepIdentity, result: dict[str, Any]) -> asyncio.Future[None]:
        return self._call({"frame": "step", "step": step, "result": result})

    def open_interrupt(self, step: StepIdentity, interrupt: InterruptRequest) -> SentInterrupt:
        call = self._send_call({"frame": "ask", "step": step, "interrupt": interrupt})
        sent = self._calls[call] = SentInterrupt(self._loop)
        return sent

    def withdraw(self, interrupt: Any) -> None:
        interrupt.withdrawn = True
        if interrupt.id is not None and self._asked.pop(interrupt.id, None) is not None:
            self._send({"frame": "withdraw", "interrupt_id": interrupt.id})

    def waiting(self) -> None:
        self._send({"frame": "waiting", "seen": self._seen})

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
                self._loop.call_soon_threadsafe(self._send, frame)

    # -- what the worker uses -------------------------------------------------------------------------------------

    def end(self, result: dict[str, Any]) -> asyncio.Future[None]:
        """Send the turn's outcome; done when it is committed."""
        return self._call({"frame": "end", "result": result})

    def silence(self) -> None:
        """The turn is not ours any more: send nothing."""
        self._silent = True

    def receive(self, frame: Frame) -> None:
        """A frame of the server about this turn. Replies to what nobody waits for any more are dropped."""
        name = frame["frame"]
        index = frame.get("index")
        if index is not None and (self._seen is None or index > self._seen):
            self._seen = index
        if name == "ack":
            self._acknowledged(frame)
        elif name == "refused":
            waiter = self._calls.pop(frame["call"], None)
            future = waiter.opened if isinstance(waiter, SentInterrupt) else waiter
            if future is not None and not future.done():
                future.set_exception(error_for_refusal(frame["code"], frame["message"]))
        elif (interrupt := self._asked.pop(frame["interrupt_id"], None)) is not None:
            self._settle(interrupt, frame)
        elif any(isinstance(waiter, SentInterrupt) for waiter in self._calls.values()):
            self._early[frame["interrupt_id"]] = frame

    def _settle(self, interrupt: SentInterrupt, frame: Frame) -> None:
        if interrupt.withdrawn:
            return
        if frame["frame"] == "answer":
            interrupt.answer.set_result(frame["value"])
        else:
            interrupt.answer.set_exception(InterruptExpired("nobody answered in time"))

    def _acknowledged(self, frame: Frame) -> None:
        waiter = self._calls.pop(frame["call"], None)
        if isinstance(waiter, SentInterrupt):
            interrupt_id = frame.get("interrupt_id")
            if not isinstance(interrupt_id, str):
                raise WorkerProtocolError("frame 'ack' of an ask lacks 'interrupt_id'")
            waiter.id = interrupt_id
            waiter.opened.set_result(interrupt_id)
            if (early := self._early.pop(interrupt_id, None)) is not None:
                self._settle(waiter, early)
                return
            self._asked[interrupt_id] = waiter
            if waiter.withdrawn:
                self.withdraw(waiter)
        elif waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _call(self, frame: Frame) -> asyncio.Future[None]:
        call = self._send_call(frame)
        done = self._loop.create_future()
        self._calls[call] = done
        return done

    def _send_call(self, frame: Frame) -> int:
        self._last_call += 1
        self._send({**frame, "call": self._last_call})
        return self._last_call

    def _send(self, frame: Frame) -> None:
        if not self._silent:
            self._channel.send({**frame, "turn": self._turn_id})


class Worker:
    """Speaks the worker protocol over one channel.

    ``single``: one turn, then done. ``on_lost`` is called when the channel is gone, with what went wrong or None at its
    end: the turns are not this worker's any more.
    """

    def __init__(self, agent: LoadedAgent, *, single: bool, on_lost: Callable[[Exception | None], None]) -> None:
        self._agent = agent
        self._single = single
        self._on_lost = on_lost
        self._turns: dict[str, _RunningTurn] = {}
        self._served_one = False
        self._ending = False
        self._done = asyncio.get_running_loop().create_future()
        self._channel: Channel | None = None

    async def serve(self, fd: int) -> None:
        """Run turns until the server says shutdown, or after the one turn of a ``single`` worker."""
        self._channel = await Channel.open(fd, self._received, self._on_lost)
        self._channel.send(
            {
                "frame": "hello",
                "protocol": PROTOCOL,
                "pid": os.getpid(),
                "python": ".".join(map(str, sys.version_info[:3])),
                "library": hitl.__version__,
            }
        )
        await self._done
        self._channel.close()

    async def abandon(self) -> None:
        """Stop every turn without another word to the server."""
        running = list(self._turns.values())
        for turn in running:
            turn.cancel()
        if running:
            await asyncio.wait([turn.task for turn in running])
        self._finish()

    def _received(self, frame: Frame) -> None:
        name = frame["frame"]
        if name == "turn":
            self._start(frame)
        elif name == "shutdown":
            self._ending = True
            self._finish_if_over()
        elif (turn := self._turns.get(frame["turn"])) is not None:
            if name == "cancel":
                turn.cancel()
            else:
                turn.port.receive(frame)

    def _start(self, frame: Frame) -> None:
        if frame["turn"] in self._turns or (self._single and self._served_one):
            raise WorkerProtocolError(f"an unexpected turn frame, for {frame['turn']}")
        assert self._channel is not None
        self._served_one = True
        turn = _RunningTurn(self._agent, self._channel, frame)
        self._turns[frame["turn"]] = turn
        turn.task.add_done_callback(lambda task: self._ended(frame["turn"], task))

    def _ended(self, turn_id: str, task: asyncio.Task[None]) -> None:
        turn = self._turns.pop(turn_id)
        if turn.is_cancelled and self._channel is not None:
            # The server waits for this: a worker that does not say it has a blocked loop.
            self._channel.send({"frame": "cancelled", "turn": turn_id, "left": turn.left})
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.print_exception(error)
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if not self._turns and (self._ending or (self._single and self._served_one)):
            self._finish()

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


class _RunningTurn:
    """One turn, from its frame to the acknowledgement of its end."""

    def __init__(self, agent: LoadedAgent, channel: Channel, frame: Frame) -> None:
        self._agent = agent
        self._frame = frame
        self._cancelled = asyncio.Event()
        self.port = ChannelPort(channel, frame["turn"])
        self._turn = Turn(
            self.port,
            turn_id=frame["turn"],
            session_id=frame["session_id"],
            agent=agent.name,
            max_payload=frame.get("max_payload", DEFAULT_MAX_PAYLOAD),
        )
        self._agent_task = asyncio.Task(self._outcome(), context=self._turn.enter(), name=f"hitl turn {frame['turn']}")
        self.task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_cancelled(self) -> bool:
        """Whether the server has settled the turn without us."""
        return self._cancelled.is_set()

    @property
    def left(self) -> int:
        """How many tasks of the agent go on although they were cancelled, its main one included."""
        return len(self._turn.tasks) + (not self._agent_task.done())

    def cancel(self) -> None:
        """The session is settled without us: stop the agent and say nothing more."""
        self._cancelled.set()
        self.port.silence()
        self._turn.close()
        self._agent_task.cancel()

    async def _run(self) -> None:
        cancelled = asyncio.create_task(self._cancelled.wait())
        await asyncio.wait([self._agent_task, cancelled], return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        if self._cancelled.is_set():
            await asyncio.wait([self._agent_task], timeout=_CLEANUP_SECONDS)
        self._turn.close()
        await _stop_leftovers(self._turn)
        output.finish(self._turn)
        if self._cancelled.is_set():
            return
        result = self._agent_task.result()
        try:
            await self.port.end(result)
        except (HitlError, TypeError, ValueError) as error:  # too large, no JSON, or refused: the turn fails with that
            await self.port.end({"error": describe_error(error)})

    async def _outcome(self) -> dict[str, Any]:
        """What the agent made of the message; every way to fail is an outcome too."""
        frame = self._frame
        try:
            if frame["journal"]:
                raise HitlError("this worker cannot continue a turn from its journal", code="replay_unsupported")
            message = ChatMessage.from_dict(frame["message"])
            state = [ChatMessage.from_dict(item) for item in frame["state"]]
            response, state = await self._agent.run(message, state)
            return {"response": response.to_dict(), "state": [item.to_dict() for item in state]}
        except BaseException as error:  # noqa: BLE001 - an agent that raises SystemExit ends its turn, not the worker
            if not self._cancelled.is_set():
                traceback.print_exception(error)
            return {"error": describe_error(error)}


async def _stop_leftovers(turn: Turn) -> None:
    """Cancel what the agent left behind, oldest first; what it starts meanwhile too."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LEFTOVER_SECONDS
    while turn.tasks and (left := deadline - loop.time()) > 0:
        tasks = list(turn.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=left)
    for task in turn.tasks:
        sys.stderr.write(f"hitl: {task.get_name()} goes on after its turn, although it was cancelled\n")


def describe_error(error: BaseException) -> dict[str, Any]:
    """``{"type", "message", "code"?}`` of an error, for clients: no traceback, at most 8 KiB.

    A group of one error, which is what a TaskGroup raises, is that error; a larger one lists its members.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = error_message(error)
    if isinstance(error, BaseExceptionGroup):
        members = "; ".join(f"{type(member).__name__}: {error_message(member)}" for member in error.exceptions)
        text = f"{text}: {members}"
    if len(text) > _MAX_ERROR_TEXT:
        text = f"{text[:_MAX_ERROR_TEXT]}..."
    described = {"type": type(error).__name__, "message": text}
    if isinstance(error, HitlError):
        described["code"] = error.code
    return described
