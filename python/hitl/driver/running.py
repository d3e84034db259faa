"""A turn at work, from its frame to the acknowledgement of its end; in a worker, and in a run without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hitl.driver import output
from hitl.driver.frames import Frame, Sender
from hitl.driver.port import ChannelPort
from hitl.driver.remembered import GivenState
from hitl.driver.shapes import LoadedAgent
from hitl.errors import RETRIABLE_ERRORS, HitlError, ReplayMismatch, UnreadableJournal
from hitl.journal.codec import decode
from hitl.journal.error_codec import error_message
from hitl.messages import ChatMessage
from hitl.turn.forked import end_in_fork
from hitl.turn.holding import DEFAULT_HOLD
from hitl.turn.limits import uncaught
from hitl.turn.reporting import raised_here, report, report_error
from hitl.turn.runtime import DEFAULT_MAX_PAYLOAD, Turn
from hitl.turn.schedule import OUTSIDE
from hitl.turn.watching import watcher_of

# How long tasks that an agent left behind may take to stop before its response is sent without them, and how long a
# cancelled agent may clean up before its worker goes on.
_LEFTOVER_SECONDS = 1.0
_CLEANUP_SECONDS = 5.0
_MAX_ERROR_TEXT = 8 * 1024

DROPPED = {"cancel": "cancelled", "park": "parked"}
"""What says that we obeyed, also where there was nothing left to drop."""


class RunningTurn:
    """One turn, from its frame to the acknowledgement of its end.

    ``port`` where it is not a ``ChannelPort`` that its records go to. ``hold`` and ``replay_timeout``: see
    ``hitl.turn.holding``; a server's turns have the one of their frame, and end by the server's ``--timeout``.
    ``on_gone`` is called when the turn is ``gone``.
    """

    def __init__(
        self,
        agent: LoadedAgent,
        channel: Sender,
        frame: Frame,
        code: str,
        *,
        context: Any = None,
        port: ChannelPort | None = None,
        hold: float | None = None,
        replay_timeout: float = 0.0,
        on_gone: Callable[[RunningTurn], None] | None = None,
    ) -> None:
        self._agent = agent
        self._frame = frame
        self._on_gone = on_gone
        self.gone = asyncio.Event()
        """Nothing of the turn is left to do here: its end is committed, or was not ours to say."""
        self._is_leaving = False
        self.has_ended = False
        """Its end is committed. Where it is ``gone`` without, and was not taken from us, nobody knows that it is."""
        self._has_failed = False
        self._said: dict[str, Any] = {}
        """What the turn came to, as it was said last."""
        self._patience: asyncio.TimerHandle | None = None
        """Ends the time that the agent of a turn that was taken from us has for its cleanup."""
        self._stopping: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        self._raised: BaseException | None = None
        """What the agent raised."""
        self.stopped_as: str | None = None
        """How the server took the turn from us, as the frame that says we obeyed: ``cancelled`` or ``parked``."""
        self.port = port or ChannelPort(channel, frame["turn"])
        self.turn = Turn(
            self.port,
            turn_id=frame["turn"],
            session_id=frame["session_id"],
            agent=agent.name,
            context=context_of(frame["journal"]) if context is None else context,
            resources=agent.resources,
            resources_are_given=agent.resources_are_given,
            max_payload=frame.get("max_payload", DEFAULT_MAX_PAYLOAD),
            journal=frame["journal"],
            epoch=frame.get("epoch", 1),
            code=code,
            sent_by=frame.get("sent_by"),
            hold=frame.get("hold", DEFAULT_HOLD) if hold is None else hold,
            replay_timeout=replay_timeout,
        )
        self.turn.watcher = watcher_of(self.turn, frame["journal"], frame.get("answered_by"))
        self._agent_task = self.turn.start(self._outcome)
        self._agent_task.add_done_callback(self._is_over, context=OUTSIDE.copy())
        self.turn.failure.add_done_callback(self._is_over, context=OUTSIDE.copy())
        self.turn.order.deliver_next()

    @property
    def left(self) -> int:
        """How many tasks of the agent go on although they were cancelled, its main one included."""
        return len(self.turn.tasks)

    def receive(self, frame: Frame) -> None:
        """A frame of the server about this turn."""
        self.port.receive(frame, self.turn.order)

    def cancel(self, *, is_settled: bool = True) -> None:
        """The session is settled without us: stop the agent and say nothing more. Where it is not, the turn goes on
        elsewhere."""
        self._stop(DROPPED["cancel"])
        if is_settled:
            self.turn.order.records.tell_past()  # nothing of it is repeated any more
            if self.turn.watcher is not None:
                self.turn.watcher.cancelled()
        self.turn.close()
        self._agent_task.cancel()

    def park(self) -> None:
        """The turn goes on some other time, from its journal: drop it."""
        self._stop(DROPPED["park"])
        self.turn.park()

    def leave_behind(self) -> bool:
        """The turn goes on in another process, and this one is about to end: see ``Turn.stand_still``."""
        self.stopped_as = DROPPED["park"]
        self.port.silence()
        return self.turn.stand_still()

    def _stop(self, how: str) -> None:
        self.stopped_as = how
        if not self._is_leaving:
            self._patience = self.turn.loop.call_later(_CLEANUP_SECONDS, self._leave, context=OUTSIDE.copy())
        self.port.silence()

    def _is_over(self, _: object) -> None:
        """The agent has returned, or the turn cannot go on."""
        if self.stopped_as is None or self._agent_task.done():
            self._leave()

    def _leave(self) -> None:
        """Take what the turn came to, and say it once nothing of the turn runs any more. Most leave nothing behind: no
        task is made for them that would only wait."""
        if self._is_leaving:
            return
        self._is_leaving = True
        if self._patience is not None:
            self._patience.cancel()
        with self._gone_at_error():
            result = self._result()
            if result is not None:
                self.turn.order.records.flush()
            self.turn.close()
            if self.turn.tasks:
                self._stopping = self.turn.loop.create_task(self._clear_up(result), context=OUTSIDE.copy())
            else:
                self._end(result)

    async def _clear_up(self, result: dict[str, Any] | None) -> None:
        with self._gone_at_error():
            await _stop_leftovers(self.turn)
            self._end(result)

    @contextmanager
    def _gone_at_error(self) -> Iterator[None]:
        """A mistake of ours on the way out is said, and the turn is gone: its worker tells, or ends with it, and the
        server, which heard no end of the turn, takes it for lost."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody else would let the turn go
            report_error(error)
            try:
                self.turn.close()
            finally:
                self._finish()

    def _end(self, result: dict[str, Any] | None) -> None:
        output.finish(self.turn)
        if result is None or self.stopped_as is not None:
            self._finish()
        else:
            self._say_end(result)

    def _say_end(self, result: dict[str, Any]) -> None:
        try:
            self._said = result
            self.port.end(result, self._end_answered)
        except Exception as unsendable:  # noqa: BLE001 - too large, no JSON, or what nobody has thought of
            self._end_answered(unsendable)

    def _end_answered(self, refusal: Exception | None) -> None:
        """The end is committed, or cannot be: then the turn fails with that."""
        if refusal is None:
            self.has_ended = True
            if self.stopped_as is None:
                if (self._said.get("error") or {}).get("code") not in RETRIABLE_ERRORS:  # else it is not over
                    self.turn.order.records.tell_past()
                if self.turn.watcher is not None:
                    self.turn.watcher.ended(self._said)
            self._finish()
        elif self._has_failed:
            report_error(refusal)
            self._finish()
        else:
            self._has_failed = True
            self._say_end({"error": describe_error(refusal)})

    def _finish(self) -> None:
        self.gone.set()
        if self._on_gone is not None:
            self._on_gone(self)

    def _result(self) -> dict[str, Any] | None:
        """How the turn ended; None when it did not end, but was taken from us."""
        if self.stopped_as is not None:
            return None
        if (unreadable := self._unreadable()) is not None:  # and so it asked for nothing more that the journal holds
            return {"error": describe_error(unreadable)}
        failure = self.turn.failure.result() if self.turn.failure.done() else self.turn.order.returned()
        if failure is not None:
            return {"error": self._described(failure)}
        return self._agent_task.result()

    def _described(self, failure: BaseException) -> dict[str, Any]:
        """A failure. Where the code asks for something else than the journal holds, that may be a framework's code: its
        version is told."""
        described = describe_error(failure)
        described["message"] += why_it_ended(failure, self._raised)
        distribution = getattr(self._agent.target, "distribution", None)
        if isinstance(failure, ReplayMismatch) and distribution is not None:
            # Late: it takes longer to import than a turn may wait, and is for errors only.
            from importlib.metadata import version

            described["message"] += f"\n\nhere is {distribution} {version(distribution)}"
        return described

    async def _outcome(self) -> dict[str, Any]:
        """What the agent made of the message; every way to fail is an outcome too."""
        frame = self._frame
        try:
            message = ChatMessage.from_dict(frame["message"])
            given = GivenState(frame["state"])
            self.turn.conversation = (*given.messages, message)
            response, state = await self._agent.run(message, given.messages)
            end_in_fork(self.turn.pid)
            self.turn.unawaited.refuse(self.turn.tasks)
            said = [item.to_dict() for item in state]
            kept = given.kept(said)
            return {"response": response.to_dict(), "kept": kept, "state": said[kept:]}
        except BaseException as error:  # noqa: BLE001 - an agent that raises SystemExit ends its turn, not the worker
            end_in_fork(self.turn.pid, error)
            if self.stopped_as is None:
                uncaught(self.turn, error)
                self._raised = error
                self.failed(error)
            return {"error": describe_error(error)}

    def failed(self, error: BaseException) -> None:
        """The agent raised, or was cancelled because its turn cannot go on: then that is what is told."""
        says_all = isinstance(error, HitlError) and error.says_all
        if isinstance(error, asyncio.CancelledError) and self.turn.failure.done():
            error, says_all = self.turn.failure.result(), True
        self.error = error
        for told in tuple(raised_here):
            told(self._frame["session_id"], error)
        if says_all:
            said = " ".join(error_message(error).split("\n\n"))
            report(f"{type(error).__name__}: {said}\n")
        else:
            report_error(error)

    def _unreadable(self) -> UnreadableJournal | None:
        """What the agent could not read of the journal, where it ended with that: frameworks wrap errors."""
        error = self._raised
        while error is not None and not isinstance(error, UnreadableJournal):
            error = error.__cause__
        return error


def context_of(journal: list[dict[str, Any]]) -> Any:
    """The context of a run that was begun elsewhere, as it was at its last pause; UnreadableJournal where it cannot be
    made."""
    for entry in reversed(journal):
        if entry["entry"] == "pause" and entry.get("context") is not None:
            try:
                return decode(entry["context"])
            except Exception as error:
                raise UnreadableJournal(f"the context of the run cannot be made here: {error}") from error
    return None


def why_it_ended(failure: BaseException, raised: BaseException | None) -> str:
    """What is to be said beside a failure of an agent that asks for nothing more because it ``raised`` something."""
    if not isinstance(failure, ReplayMismatch) or raised is None or isinstance(raised, asyncio.CancelledError):
        return ""
    described = describe_error(raised)
    return f"\n\nthe agent raised {described['type']}: {described['message']}"


def unopened(turn_id: str, error: Exception) -> Frame:
    """The end of a turn that could not be opened. Nothing of it ran: its journal is kept for who can."""
    if not isinstance(error, UnreadableJournal):
        report_error(error)  # a mistake of ours
    described = {"code": UnreadableJournal.code, **describe_error(error)}
    return {"frame": "end", "turn": turn_id, "call": 1, "result": {"error": described}}


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
        report(f"hitl: {task.get_name()} goes on after its turn, although it was cancelled\n")


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
