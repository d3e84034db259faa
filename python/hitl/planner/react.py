"""`ReactPlanner`: runs that end with an answer, or with a pause and a token."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from hitl.agents.react import MaxStepsExceeded, ReActAgent
from hitl.errors import AlreadyResolved, HitlError
from hitl.models.chat_client import ChatClient
from hitl.planner.catalog import NodeSpec
from hitl.planner.context import INTERRUPT_TYPE, PauseReason, make_tool, plain_object
from hitl.planner.pauses import MemoryKey, Pauses, Record, SupportsPlannerState

if TYPE_CHECKING:
    from hitl.runs.interrupts import Interrupt
    from hitl.runs.results import RunResult
    from hitl.runs.states import RunState
    from hitl.runs.stores import Store

logger = logging.getLogger("hitl.planner")

FinishReason = Literal["answer_complete", "budget_exhausted"]


@dataclass(frozen=True)
class PlannerFinish:
    """A run that is over."""

    reason: FinishReason
    """`answer_complete`, or `budget_exhausted` where the model was asked too often."""

    payload: Any = None
    """The answer, a str."""


@dataclass(frozen=True)
class PlannerPause:
    """A run that waits for a person."""

    reason: PauseReason
    payload: dict[str, Any]
    """What the tool wants to be shown."""

    resume_token: str = field(repr=False)
    """Whoever has it may resume, once. Not in `repr()`, so that it does not get into logs."""


@dataclass(frozen=True)
class PlannerEvent:
    """Something that happened in a run; never with a token or with what people said."""

    event_type: Literal["pause", "resume", "finish"]
    ts: float
    """Seconds since 1970."""

    trajectory_step: int
    """How often the model has been asked."""

    node_name: str | None = None
    """The tool that paused."""

    latency_ms: float | None = None
    """Of `resume`: since the pause."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """`reason`: of the pause, or of the finish."""

    def to_payload(self) -> dict[str, Any]:
        """What is known, for a structured log."""
        payload: dict[str, Any] = {"event": self.event_type, "ts": self.ts, "step": self.trajectory_step}
        for name in ("node_name", "latency_ms"):
            if (value := getattr(self, name)) is not None:
                payload[name] = value
        return {**payload, **self.extra}


class ReactPlanner:
    """A model that works with a catalog of tools, which may pause.

    One planner serves any number of runs at once; it keeps nothing between them but open pauses.

    Example:
        made = ReactPlanner("gpt-4.1", build_catalog([Node(write_line)], registry))
        pause = await made.run("write hello", tool_context={})
        if isinstance(pause, PlannerPause):
            finish = await made.resume(pause.resume_token, user_input="go on", tool_context={"approved": True})
    """

    def __init__(
        self,
        llm: str | ChatClient,
        catalog: Iterable[NodeSpec],
        state_store: SupportsPlannerState | None = None,
        event_callback: Callable[[PlannerEvent], None] | None = None,
        pause_enabled: bool = True,
    ) -> None:
        """
        Args:
            llm: A model's name (asked through `OpenAIChatClient`), or a chat client.
            catalog: What `build_catalog` made.
            state_store: Where pauses are kept, so that another process can resume; one without
                `save_planner_state` keeps none, and pauses end with this process. One that also has
                `claim_planner_state` is safe where several processes may resume the same token at once.
            event_callback: Called with each `PlannerEvent`; what it raises is logged.
            pause_enabled: False makes `ctx.pause` a tool error.

        Raises:
            TypeError: For what is no model, no catalog or no callback.
        """
        if not isinstance(llm, str) and not callable(getattr(llm, "complete", None)):
            raise TypeError(f"ReactPlanner: llm is the name of a model, or a chat client; got {llm!r}")
        specs = list(catalog)
        for spec in specs:
            if not isinstance(spec, NodeSpec):
                raise TypeError(f"catalog is what build_catalog() returns, got {spec!r} in it")
        if event_callback is not None and not callable(event_callback):
            raise TypeError(f"event_callback must be callable or None, got {event_callback!r}")
        self._agent = ReActAgent(
            client=None if isinstance(llm, str) else llm,
            model_name=llm if isinstance(llm, str) else None,
            name="planner",
            tools=[make_tool(spec, bool(pause_enabled)) for spec in specs],
        )
        self._event_callback = event_callback
        self._pauses = Pauses(state_store)

    async def run(
        self, query: str, *, tool_context: Mapping[str, Any] | None = None, memory_key: MemoryKey | None = None
    ) -> PlannerFinish | PlannerPause:
        """Work on a query until there is an answer, or a tool pauses.

        Args:
            query: What to do.
            tool_context: What tools see as `ctx.tool_context`: a dict of JSON values, kept over pauses.
            memory_key: Whose run it is.

        Raises TypeError for a tool_context that is not JSON, and what the model's client and the state store raise.
        """
        # Late: a worker that serves the agent runs its turns by itself, and needs none of it.
        from hitl.runs.running import run

        context = plain_object(tool_context, "tool_context")
        return await self._outcome(await run(self._agent, query, context=context), memory_key)

    async def resume(
        self,
        token: str,
        user_input: Any = None,
        tool_context: Mapping[str, Any] | None = None,
        memory_key: MemoryKey | None = None,
    ) -> PlannerFinish | PlannerPause:
        """Go on with a paused run: the model is told `user_input`, and decides.

        Where several tools of one message have paused, the next of these pauses is returned, and the model is asked
        after the last.

        Args:
            token: `PlannerPause.resume_token`.
            user_input: What the person said; any JSON value.
            tool_context: In the place of what was kept with the pause; None keeps that.
            memory_key: As given to `run`, or None.

        Raises:
            KeyError: The token is unknown, was used before, or is of another memory key.
            TypeError: `tool_context` or `user_input` is not JSON. The token stays usable.
            Exception: What the state store raises; what the model's client raises. The token stays usable (in this
                process, where the store says who was first), unless the model's client failed after an answer. Where
                the store could not keep the next pause, the same answer has to be given again.
            asyncio.CancelledError: The token is given back first, with what was done until then: to resume with the
                same answer goes on from there. A state store that is waited for is waited for to the end.
            AlreadyResolved: Another answer than before to a pause whose resume was cancelled.
        """
        # Late, as in `run`.
        from hitl.runs.running import run
        from hitl.runs.states import RunState
        from hitl.runs.stores import Store

        context = None if tool_context is None else plain_object(tool_context, "tool_context")
        record = await self._pauses.look(token, memory_key)
        state = RunState.from_string(
            self._agent,
            json.dumps(record.run_state),
            context=context,
            context_strategy="merge" if context is None else "replace",
        )
        _answer(state, record, user_input)
        store: Store | None = None
        taking = asyncio.ensure_future(self._pauses.take(token))
        try:
            await _whole(taking)
            now = time.time()
            latency = max(0.0, now - record.paused_at) * 1000
            extra = {"reason": record.reason}
            self._emit(PlannerEvent("resume", now, record.step, record.tool, latency_ms=latency, extra=extra))
            store = Store()
            result = await run(self._agent, state, store=store)
            if result.status == "error" and _steps(result) == record.step:
                # The model could not be asked, so nothing came of the answer yet: it can be given again.
                await self._pauses.give_back(token, record)
            try:
                return await self._outcome(result, record.memory_key or memory_key)
            except Exception:
                if result.status == "interrupted":  # the next pause could not be kept, and has no token
                    await _whole(asyncio.ensure_future(self._keep(token, record, store, state.session_id)))
                raise
        except asyncio.CancelledError:
            if taking.exception() is None:
                await _whole(asyncio.ensure_future(self._keep(token, record, store, state.session_id)))
            raise

    async def _keep(self, token: str, record: Record, store: Store | None, session: str) -> None:
        """Give back the token of a resume that was cancelled, or whose next pause could not be kept, with the run as it
        is in ``store`` by now."""
        # Late, as in `run`.
        from hitl.runs.states import RunState

        if store is not None:
            state = await RunState.from_store(self._agent, store, session)
            if state is None:
                return  # it came to its end, and what it did must not be done again
            record = replace(record, run_state=json.loads(state.to_string()))
        await self._pauses.give_back(token, record)

    async def _outcome(self, result: RunResult, memory_key: MemoryKey | None) -> PlannerFinish | PlannerPause:
        step = _steps(result)
        if result.status == "interrupted":
            return await self._paused(result, step, memory_key)
        if result.status == "idle":
            return self._finished(PlannerFinish("answer_complete", result.output), step)
        if result.error_code == MaxStepsExceeded.code:
            return self._finished(PlannerFinish("budget_exhausted"), step)
        if result.exception is not None:
            raise result.exception
        raise HitlError(result.error or "the run failed", code=result.error_code)

    async def _paused(self, result: RunResult, step: int, memory_key: MemoryKey | None) -> PlannerPause:
        assert result.state is not None
        first = result.interrupts[0]
        reason, payload = _shown(first)
        now = time.time()
        run_state = json.loads(result.state.to_string())
        record = Record(run_state, first.id, first.tool_name, reason, step, now, memory_key)
        token = await self._pauses.issue(record)
        self._emit(PlannerEvent("pause", now, step, first.tool_name, extra={"reason": reason}))
        return PlannerPause(reason, payload, token)

    def _finished(self, finish: PlannerFinish, step: int) -> PlannerFinish:
        self._emit(PlannerEvent("finish", time.time(), step, extra={"reason": finish.reason}))
        return finish

    def _emit(self, event: PlannerEvent) -> None:
        if self._event_callback is None:
            return
        try:
            self._event_callback(event)
        except Exception:  # a broken observer must not cost a token or an answer
            logger.exception("event_callback failed for a %s event", event.event_type)


def _answer(state: RunState, record: Record, user_input: Any) -> None:
    """Answer the pause of `record`, unless a resume that was cancelled has: then the answer must be the same."""
    taken = [
        entry["value"]
        for entry in record.run_state["journal"]
        if entry.get("interrupt_id") == record.interrupt_id and entry["entry"] == "answer"
    ]
    if not taken:
        asked = state.interrupt(record.interrupt_id)
        state.answer(asked, {"user_input": user_input} if asked.type == INTERRUPT_TYPE else user_input)
    elif taken[0] not in ({"user_input": user_input}, user_input):
        raise AlreadyResolved("this pause was answered otherwise before, by a resume that was cancelled since")


async def _whole(task: asyncio.Future[None]) -> None:
    """Wait for `task` to the end, also where the caller is cancelled meanwhile; then raise what is to be raised."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _steps(result: RunResult) -> int:
    """How often the model has answered."""
    return int(result.usage.get("requests", 0))


def _shown(asked: Interrupt) -> tuple[PauseReason, dict[str, Any]]:
    """An interrupt of the run as a pause; one that no `ctx.pause` asked waits for input."""
    if asked.type == INTERRUPT_TYPE:
        return asked.payload["reason"], asked.payload["payload"]
    return "await_input", asked.payload
