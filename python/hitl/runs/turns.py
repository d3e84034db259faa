"""A turn on the caller's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hitl.agents.shapes import LoadedAgent
from hitl.errors import ToolRejected
from hitl.worker.channel import Sender
from hitl.worker.frames import Frame
from hitl.worker.output import original
from hitl.worker.port import ChannelPort
from hitl.worker.turns import RunningTurn

Formatter = Callable[[str, dict[str, Any], ToolRejected], str]


@dataclass
class Task:
    """One run, as its loop knows it."""

    agent: LoadedAgent
    code: str
    context: Any
    tool_error_formatter: Formatter | None
    turn_id: str = ""
    turn: RunTurn | None = None
    error: BaseException | None = None
    """What the agent raised, or why its turn cannot go on."""


class RunPort(ChannelPort):
    """Prints stay in the program that runs the agent."""

    def log(self, stream: str, text: str) -> None:
        """Only called where somebody else in this process routes its output by turn."""
        original(stream).write(text)


class RunTurn(RunningTurn):
    """See the module."""

    def __init__(self, task: Task, channel: Sender, frame: Frame) -> None:
        self._of = task
        super().__init__(
            task.agent,
            channel,
            frame,
            task.code,
            turn_id=task.turn_id,
            context=task.context,
            port=RunPort(channel, frame["turn"]),
        )
        self.turn.tool_error_formatter = task.tool_error_formatter

    def failed(self, error: BaseException) -> None:
        """The caller gets the error itself, and prints it if it wants to."""
        self._of.error = error

    async def gone(self) -> None:
        """Wait until nothing of the turn runs any more; its tasks have a few seconds to clean up."""
        await asyncio.wait([self.task])
        failure = self.turn.failure
        if failure.done():  # whatever the agent then made of being cancelled
            self._of.error = failure.result()
