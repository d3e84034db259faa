"""A turn on the caller's own loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any

from hitl.driver.frames import Frame
from hitl.driver.output import original
from hitl.driver.port import ChannelPort
from hitl.driver.running import RunningTurn, unopened
from hitl.driver.shapes import LoadedAgent
from hitl.errors import ToolRejected
from hitl.journal.ports import StepIdentity
from hitl.runs.loop import LoopRuns
from hitl.turn.holding import DEFAULT_HOLD
from hitl.turn.places import place_var
from hitl.turn.schedule import OUTSIDE

Formatter = Callable[[str, dict[str, Any], ToolRejected], str]


class Task:
    """One run, as its loop knows it."""

    def __init__(
        self,
        runs: LoopRuns,
        agent: LoadedAgent,
        code: str,
        context: Any,
        tool_error_formatter: Formatter | None,
        *,
        is_heard: bool,
        settings: Mapping[str, Any],
        hold: float = DEFAULT_HOLD,
        replay_timeout: float = 0.0,
    ) -> None:
        self.agent = agent
        self.code = code
        self.context = context
        self.settings = settings
        self.tool_error_formatter = tool_error_formatter
        self.is_heard = is_heard
        """Whether somebody listens to what the model says."""
        self.hold = hold
        self.replay_timeout = replay_timeout
        self.token = 0
        self.turn: RunTurn | None = None
        self.error: BaseException | None = None
        """What the agent raised, or why its turn cannot go on."""
        self._runs = runs
        # Not those of a turn: what has set them there is at no place of the journal of this one.
        self._variables = contextvars.copy_context() if place_var.get() is None else OUTSIDE.copy()
        """Those of the caller, as they are at the call: what the agent sets stays its own."""
        self._acknowledged = 0
        self._stored: asyncio.Future[None] | None = None

    def all_stored(self) -> asyncio.Future[None]:
        """Done once all that the turn has said is stored, or refused. It must not say more."""
        self._stored = asyncio.get_running_loop().create_future()
        self._look_whether_stored()
        return self._stored

    def _look_whether_stored(self) -> None:
        said = 0 if self.turn is None else self.turn.port.last_call
        if self._stored is not None and not self._stored.done() and self._acknowledged >= said:
            self._stored.set_result(None)

    def send(self, frame: Frame) -> None:
        """Say something about the turn to the core."""
        self._runs.say(self.token, frame)

    def told(self, frame: Frame) -> None:
        """A frame of the core about the turn."""
        name = frame["frame"]
        turn = self.turn
        if "call" in frame:  # in the order in which they were said
            self._acknowledged = frame["call"]
            self._look_whether_stored()
        if name == "turn":
            try:
                self.turn = self._variables.run(RunTurn, self, frame)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is how this run ends
                self.error = error
                self.send(unopened(frame["turn"], error))
        elif turn is None or turn.stopped_as is not None:
            return
        elif name not in ("cancel", "park"):
            turn.receive(frame)
        elif not turn.gone.is_set():
            turn.cancel() if name == "cancel" else turn.park()


class RunPort(ChannelPort):
    """Prints stay in the program that runs the agent, and what a model says word by word where nobody listens."""

    def __init__(self, task: Task, turn_id: str) -> None:
        super().__init__(task, turn_id)
        self._is_heard = task.is_heard

    def started(self, step: StepIdentity, arguments: Mapping[str, Any] | None) -> None:
        if self._is_heard:
            super().started(step, arguments)

    def delta(self, step_id: str, attempt: int, delta: dict[str, str]) -> None:
        if self._is_heard:
            super().delta(step_id, attempt, delta)

    def log(self, stream: str, text: str) -> None:
        """Only called where somebody else in this process routes its output by turn."""
        original(stream).write(text)


class RunTurn(RunningTurn):
    """See the module."""

    def __init__(self, task: Task, frame: Frame) -> None:
        self._of = task
        port = RunPort(task, frame["turn"])
        super().__init__(
            task.agent,
            task,
            frame,
            task.code,
            context=task.context,
            port=port,
            hold=task.hold,
            replay_timeout=task.replay_timeout,
        )
        self.turn.is_own_run = True
        self.turn.tool_error_formatter = task.tool_error_formatter
        self.turn.settings = task.settings

    def failed(self, error: BaseException) -> None:
        """The caller gets the error itself, and prints it if it wants to."""
        self._of.error = error

    async def see_out(self) -> None:
        """Wait until nothing of the turn runs any more; its tasks have a few seconds to clean up."""
        await self.gone.wait()
        failure = self.turn.failure
        if failure.done():  # whatever the agent then made of being cancelled
            self._of.error = failure.result()
