"""``hitl.run_sync`` and ``hitl.stream_sync``: the same for programs without an event loop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from hitl.driver.shapes import Agent, TypedAgent
from hitl.runs.interrupts import Interrupt
from hitl.runs.results import OutputT, RunResult
from hitl.runs.running import Input, RunOptions, run
from hitl.runs.stores import Store
from hitl.runs.streaming import RunEvent, RunStream, stream
from hitl.runs.thread_loop import block_on as block_on
from hitl.runs.thread_loop import refuse_on_a_loop
from hitl.runs.turns import Formatter
from hitl.turn.holding import DEFAULT_HOLD

if TYPE_CHECKING:
    from hitl.model_settings import ModelSettings


@overload
def run_sync(agent: TypedAgent[OutputT], input: Input, **options: Unpack[RunOptions]) -> RunResult[OutputT]: ...  # type: ignore[overload-overlap]  # the first that fits counts
@overload
def run_sync(agent: Agent, input: Input, **options: Unpack[RunOptions]) -> RunResult: ...
def run_sync(
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
) -> RunResult[Any]:
    """``hitl.run`` that blocks. RuntimeError where an event loop runs: ``await hitl.run(...)`` there.

    Example:
        result = hitl.run_sync(agent, "hello")
        print(result.output)
    """
    refuse_on_a_loop("hitl.run_sync()", "await hitl.run(...)")
    coroutine = run(
        agent,
        input,
        context=context,
        resources=resources,
        settings=settings,
        store=store,
        session=session,
        tool_error_formatter=tool_error_formatter,
        hold=hold,
        replay_timeout=replay_timeout,
    )
    return block_on(coroutine)


@overload
def stream_sync(agent: TypedAgent[OutputT], input: Input, **options: Unpack[RunOptions]) -> SyncRunStream[OutputT]: ...  # type: ignore[overload-overlap]  # the first that fits counts
@overload
def stream_sync(agent: Agent, input: Input, **options: Unpack[RunOptions]) -> SyncRunStream: ...
def stream_sync(
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
) -> SyncRunStream[Any]:
    """``hitl.stream`` as a plain iterator of RunEvent; then ``.result``. RuntimeError where an event loop runs.

    Example:
        print([event.type for event in hitl.stream_sync(agent, "hello")])
    """
    refuse_on_a_loop("hitl.stream_sync()", "hitl.stream(...)")
    return SyncRunStream(
        stream(
            agent,
            input,
            context=context,
            resources=resources,
            settings=settings,
            store=store,
            session=session,
            tool_error_formatter=tool_error_formatter,
            hold=hold,
            replay_timeout=replay_timeout,
        )
    )


class SyncRunStream(Generic[OutputT]):
    """The events of one run, in order: ``for event in stream``; then ``stream.result``.

    The run goes on while the iteration waits for an event, and stands still between them: its loop is this thread's.
    What ``hitl.run`` raises, the iteration raises. Leaving it early stops nothing for good: ``close()`` does, as
    ``with`` at its end.

    Example:
        with hitl.stream_sync(agent, "hello") as stream:
            for event in stream:
                print(event.type)
        print(stream.result.status)
    """

    def __init__(self, stream: RunStream[OutputT]) -> None:
        """Not for users: see ``hitl.stream_sync``."""
        self._stream = stream

    def __iter__(self) -> SyncRunStream[OutputT]:
        return self

    def __next__(self) -> RunEvent:
        refuse_on_a_loop("hitl.stream_sync()", "hitl.stream(...)")
        event = block_on(self._next())
        if event is None:
            raise StopIteration
        return event

    async def _next(self) -> RunEvent | None:
        return await anext(self._stream, None)

    def __enter__(self) -> SyncRunStream[OutputT]:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the run, if it goes on."""
        refuse_on_a_loop("close()", "hitl.stream(...) and its aclose()")
        block_on(self._stream.aclose())

    @property
    def result(self) -> RunResult[OutputT]:
        """How the run came out; RuntimeError while it has not, and for one that was stopped before."""
        return self._stream.result

    @property
    def interrupts(self) -> list[Interrupt]:
        """What is asked at the end."""
        return self._stream.interrupts
