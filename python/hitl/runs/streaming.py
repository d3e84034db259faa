"""``hitl.stream``: a run that tells what happens while it goes."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from hitl.driver.shapes import Agent, TypedAgent
from hitl.runs.interrupts import Interrupt
from hitl.runs.results import OutputT, RunResult
from hitl.runs.running import Input, RunOptions, run_with
from hitl.runs.stores import Store
from hitl.runs.turns import Formatter
from hitl.turn.holding import DEFAULT_HOLD

if TYPE_CHECKING:
    from hitl.model_settings import ModelSettings


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened: type and data, as the event stream of a server has them.

    ``message.delta`` (``delta``: ``{"content": str}`` or ``{"reasoning": str}``, with ``step_id`` and ``attempt``),
    ``message.completed``, ``tool.started``, ``tool.finished``, ``interrupt.created``, ``interrupt.resolved``,
    ``interrupt.expired``, ``interrupt.cancelled``, ``session.running``,
    ``session.interrupted``, ``session.idle``, ``session.error``.

    Example:
        async for event in hitl.stream(agent, "hello"):
            if event.interrupt is not None:
                print(event.type, event.interrupt.tool_name)
    """

    type: str
    data: dict[str, Any]

    @property
    def interrupt(self) -> Interrupt | None:
        """The interrupt that the event is about."""
        return Interrupt.of(self.data) if self.type.startswith("interrupt.") and "payload" in self.data else None

    @property
    def delta(self) -> dict[str, str]:
        """What the model said, for a ``message.delta``: ``{"content": str}`` or ``{"reasoning": str}``; else empty."""
        delta = self.data.get("delta")
        return delta if isinstance(delta, dict) else {}

    @property
    def message(self) -> dict[str, Any] | None:
        """What a model has said, whole, for a ``message.completed``: a ``ChatMessage`` as JSON without nulls."""
        return self.data.get("message") if self.type == "message.completed" else None

    @property
    def tool_name(self) -> str | None:
        """The tool, for a ``tool.started`` (with ``args``) or ``tool.finished`` (with ``result`` or ``error``, and
        ``attachments`` where it returned some)."""
        return self.data.get("name") if self.type.startswith("tool.") else None

    @property
    def tool_call_id(self) -> str | None:
        """The call of a model's message that the event is about."""
        return self.data.get("tool_call_id")


class RunStream(Generic[OutputT]):
    """The events of one run, in order: ``async for event in stream``; then ``stream.result``.

    The run begins with the first step of the iteration. What ``hitl.run`` raises, the iteration raises. Leaving it
    early does not stop the run: ``aclose()`` does, as ``async with`` at its end.

    Example:
        async with hitl.stream(agent, "delete the old logs file") as stream:
            async for event in stream:
                print(event.type)
        print(stream.result.status)
    """

    def __init__(self, agent: Agent, input: Input, options: dict[str, Any]) -> None:
        """Not for users: see ``hitl.stream``."""
        self._begin = (agent, input, options)
        self._events: deque[RunEvent] = deque()
        self._news = asyncio.Event()
        self._task: asyncio.Task[RunResult[OutputT]] | None = None
        self._is_closed = False

    def __aiter__(self) -> RunStream[OutputT]:
        return self

    async def __anext__(self) -> RunEvent:
        if self._task is None and not self._is_closed:
            agent, input, options = self._begin
            running = run_with(agent, input, **options, on_event=self._heard)
            self._task = asyncio.get_running_loop().create_task(running, name="hitl stream")
            self._task.add_done_callback(lambda _: self._news.set())
        while not self._events:
            if self._task is None or self._is_stopped:
                raise StopAsyncIteration
            if self._task.done():
                self._task.result()
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()

    async def __aenter__(self) -> RunStream[OutputT]:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the run, if it goes on."""
        self._is_closed = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def _is_stopped(self) -> bool:
        """Whether ``aclose`` has ended the run, or kept it from beginning. Whoever asks is not cancelled with it."""
        return self._is_closed and (self._task is None or self._task.cancelled())

    @property
    def result(self) -> RunResult[OutputT]:
        """How the run came out; RuntimeError while it has not, and for one that was stopped before."""
        if self._is_stopped:
            raise RuntimeError("the stream was closed before its run had come to an end, so there is no result")
        if self._task is None or not self._task.done():
            raise RuntimeError("the stream has not come to its end; iterate it first")
        return self._task.result()

    @property
    def interrupts(self) -> list[Interrupt]:
        """What is asked at the end."""
        return self.result.interrupts

    def _heard(self, name: str, data: bytes) -> None:
        self._events.append(RunEvent(name, json.loads(data)))
        self._news.set()


@overload
def stream(agent: TypedAgent[OutputT], input: Input, **options: Unpack[RunOptions]) -> RunStream[OutputT]: ...  # type: ignore[overload-overlap]  # the first that fits counts
@overload
def stream(agent: Agent, input: Input, **options: Unpack[RunOptions]) -> RunStream: ...
def stream(
    agent: Agent,
    input: Input,
    *,
    context: Any = None,
    resources: Any = None,
    settings: ModelSettings | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    session: str | None = None,
    tool_error_formatter: Formatter | None = None,
    hold: float = DEFAULT_HOLD,
    replay_timeout: float = 0.0,
) -> RunStream[Any]:
    """``hitl.run`` as an async iterator of RunEvent, what the model says included; then ``.result``.

    Example:
        async for event in hitl.stream(agent, "hello"):
            print(event.delta.get("content", ""), end="")
    """
    options = {
        "context": context,
        "resources": resources,
        "settings": settings,
        "store": store,
        "session": session,
        "tool_error_formatter": tool_error_formatter,
        "hold": hold,
        "replay_timeout": replay_timeout,
    }
    return RunStream(agent, input, options)
