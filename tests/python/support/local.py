"""Turns without a server: a journal in memory and answers from a function. For hitl's own unit tests.

>>> result = await run_locally(agent, "hello", answers=lambda ask: {"approved": True})      # doctest: +SKIP

A journal that was recorded this way can be given to another turn, whole or cut off anywhere, which then replays it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from hitl.driver.shapes import as_agent
from hitl.errors import HitlError, InterruptExpired
from hitl.journal.ports import Holder, InterruptRequest, PendingTimer, StepIdentity, Wake
from hitl.messages import ChatMessage
from hitl.turn.order import Order
from hitl.turn.places import place_var
from hitl.turn.rebound import rebind
from hitl.turn.runtime import Turn
from hitl.turn.schedule import OUTSIDE

T = TypeVar("T")

PENDING: Final = object()
"""Returned by an ``answers`` function that leaves the interrupt open."""

Answers = Callable[[InterruptRequest], Any]
"""Called for each interrupt; returns (or awaits) an answer or PENDING, or raises InterruptExpired or a HitlError, which
refuses the question."""

Journal = list[dict[str, Any]]
"""Entries as the worker protocol's ``turn`` frame has them."""


_LEFTOVER_SECONDS = 100.0


def without_rules(request: InterruptRequest) -> Any:
    """What a server that has no rules and no grants decides at once: what code did, and calls that need no approval."""
    proposed = request.get("proposed")
    if proposed is not None:
        return proposed
    return PENDING if request.get("required", True) else {"type": "approve", "by": "policy"}


@dataclass
class LocalInterrupt:
    """An interrupt in memory."""

    id: str
    step: StepIdentity
    request: InterruptRequest
    port: LocalPort
    withdrawn: bool = False
    is_settled: bool = False

    def give(self, value: Any) -> None:
        """Answer it, with a copy as JSON would make it."""
        self._settle("answer", {"value": json.loads(json.dumps(value))})

    def expire(self) -> None:
        """Nobody answered in time."""
        self._settle("expire", {})

    def _settle(self, entry: str, members: dict[str, Any]) -> None:
        if self.withdrawn or self.is_settled:
            return
        self.is_settled = True
        index, at = self.port.append({"entry": entry, "interrupt_id": self.id, **members})
        outcome = {"answer": members["value"]} if entry == "answer" else {"expired": True}
        self.port.tell(lambda order: order.answered(self.id, index, at, outcome))


@dataclass
class LocalPort:
    """A ``TurnPort`` that keeps what it is given, and commits it one round of the loop later."""

    answers: Answers | None = None
    journal: Journal = field(default_factory=list)
    interrupts: list[LocalInterrupt] = field(default_factory=list)
    deltas: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    starts: list[tuple[str, str, Mapping[str, Any] | None]] = field(default_factory=list)
    """Tools that began and may run twice: path, name and what is shown of the arguments."""
    logs: list[tuple[str, str]] = field(default_factory=list)
    waits: int = 0
    """How often the turn said that it awaits nothing but interrupts and timers."""
    seen: int = -1
    """The last entry that it had received when it said so."""
    holders: list[list[Holder]] = field(default_factory=list)
    """What was said to hold the turn."""
    replays: list[list[str]] = field(default_factory=list)
    """The warnings of each replay."""
    on_waiting: Callable[[], None] | None = None
    refuse_steps: HitlError | None = None
    """Refuse the next step with this."""
    decide_at_once: Callable[[InterruptRequest], Any] = without_rules
    """The decision about a request that needs nobody, or PENDING."""
    order: Order | None = None
    _calls: int = 0
    _answering: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def steps(self) -> list[tuple[StepIdentity, dict[str, Any]]]:
        """The recorded steps with their results."""
        return [(entry["step"], entry["result"]) for entry in self.journal if entry["entry"] == "step"]

    def paths(self) -> list[str]:
        """The paths of the recorded steps, in the order in which they finished."""
        return [step["path"] for step, _ in self.steps]

    def append(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Write an entry: its index and time."""
        at = time.time_ns() // 1_000_000
        self.journal.append(json.loads(json.dumps({"at": at, **entry}, allow_nan=False)))
        return len(self.journal) - 1, at

    def tell(self, what: Callable[[Order], None]) -> None:
        """Tell the turn something; not at once: a commit is never there before the loop has gone round."""
        asyncio.get_running_loop().call_soon(self._tell, what, context=OUTSIDE.copy())

    def _tell(self, what: Callable[[Order], None]) -> None:
        if self.order is not None:
            what(self.order)

    # -- TurnPort -------------------------------------------------------------------------------------------------

    def step(self, step: StepIdentity, result: dict[str, Any]) -> int:
        if self.refuse_steps is not None:
            refusal, self.refuse_steps = self.refuse_steps, None
            return self._refused(refusal)
        return self._committed({"entry": "step", "step": step, "result": result})

    def intent(self, step: StepIdentity, arguments: Mapping[str, Any] | None = None) -> int:
        return self._committed({"entry": "intent", "step": step} | ({"arguments": arguments} if arguments else {}))

    def started(self, step: StepIdentity, arguments: Mapping[str, Any] | None) -> None:
        self.starts.append((step["path"], step["name"], arguments))

    def timer(self, path: str, due: int) -> int:
        return self._committed({"entry": "timer", "path": path, "due": due})

    def ask(self, step: StepIdentity, interrupt: InterruptRequest) -> int:
        request = json.loads(json.dumps(interrupt, allow_nan=False))
        asked = LocalInterrupt(f"interrupt-{len(self.journal)}", step, request, self)
        try:
            value = self.decide_at_once(request)
            if value is PENDING and self.answers is not None:
                value = self.answers(request)
        except InterruptExpired:
            call = self._opened(asked)
            asked.expire()
            return call
        except HitlError as refusal:
            self.interrupts.append(asked)
            return self._refused(refusal)
        call = self._opened(asked)
        self._answer_with(asked, value)
        return call

    def reopen(self, asked: LocalInterrupt) -> None:
        """A question of a recorded journal that is still open: whoever answers is asked again."""
        self.interrupts.append(asked)
        if self.answers is not None:
            try:
                self._answer_with(asked, self.answers(asked.request))
            except InterruptExpired:
                asked.expire()

    def _answer_with(self, asked: LocalInterrupt, value: Any) -> None:
        if inspect.isawaitable(value):
            task = asyncio.Task(self._answer(asked, value), loop=asyncio.get_running_loop(), context=OUTSIDE.copy())
            self._answering.append(task)
        elif value is not PENDING:
            asked.give(value)

    async def _answer(self, asked: LocalInterrupt, value: Awaitable[Any]) -> None:
        try:
            given = await value
        except InterruptExpired:
            asked.expire()
        else:
            if given is not PENDING:
                asked.give(given)

    def _opened(self, asked: LocalInterrupt) -> int:
        self.interrupts.append(asked)
        return self._committed({"entry": "ask", "step": asked.step, "interrupt_id": asked.id}, asked.id)

    def _committed(self, entry: dict[str, Any], interrupt_id: str | None = None) -> int:
        self._calls += 1
        call = self._calls
        index, at = self.append(entry)
        self.tell(lambda order: order.acknowledged(call, index, at, interrupt_id))
        return call

    def _refused(self, error: HitlError) -> int:
        self._calls += 1
        call = self._calls
        self.tell(lambda order: order.refused(call, error))
        return call

    def withdraw(self, interrupt_id: str) -> None:
        for asked in self.interrupts:
            if asked.id == interrupt_id:
                asked.withdrawn = True
        self.append({"entry": "withdraw", "interrupt_id": interrupt_id})

    def wakes(self, wakes: list[Wake]) -> None:
        self.append({"entry": "wakes", "wakes": wakes})

    def waiting(self, seen: int | None, timers: list[PendingTimer], context: Any) -> None:
        self.waits += 1
        self.seen = -1 if seen is None else seen
        if self.on_waiting is not None:
            self.on_waiting()

    def held(self, by: list[Holder], *, at_work: bool, is_replay: bool) -> None:
        self.holders.append(by)

    def replayed(self, warnings: list[str]) -> None:
        self.replays.append(warnings)

    def delta(self, step_id: str, attempt: int, delta: dict[str, str]) -> None:
        self.deltas.append((step_id, attempt, delta))

    def log(self, stream: str, text: str) -> None:
        self.logs.append((stream, text))


class LocalTurn:
    """A turn on the running loop. ``await turn.run(function, *args)`` runs code inside it, as often as wanted.

    ``journal``: what was recorded before, by the ``port.journal`` of another turn; it is copied.
    """

    def __init__(
        self,
        answers: Answers | None = None,
        *,
        turn_id: str = "turn-1",
        context: Any = None,
        agent: str | None = None,
        journal: Journal | None = None,
        code: str = "code-1",
        hold: float = 0.0,
        replay_timeout: float = 0.0,
    ) -> None:
        """``hold``, ``replay_timeout``: see ``hitl.turn.holding``; here both are without limit."""
        rebind()
        self.port = LocalPort(answers)
        if journal:
            self.port.journal.extend(json.loads(json.dumps(journal)))
        else:
            self.port.append({"entry": "start", "code": code, "python": "3.11"})
        self.turn = Turn(
            self.port,
            turn_id=turn_id,
            session_id="session-1",
            agent=agent,
            context=context,
            journal=list(self.port.journal),
            epoch=2 if journal else 1,
            code=code,
            hold=hold,
            replay_timeout=replay_timeout,
        )
        self.port.order = self.turn.order
        self._context = self.turn.enter()
        place = self._context[place_var]
        assert place is not None
        self._place = place
        if journal:
            self._reopen(journal)

    def _reopen(self, journal: Journal) -> None:
        """The questions of a recorded journal that nobody has settled."""
        settled = {entry["interrupt_id"] for entry in journal if entry["entry"] in ("answer", "expire", "withdraw")}
        for entry in journal:
            if entry["entry"] == "ask" and entry["interrupt_id"] not in settled:
                request: Any = {"type": entry["step"]["name"]}
                self.port.reopen(LocalInterrupt(entry["interrupt_id"], entry["step"], request, self.port))

    def start(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> asyncio.Task[T]:
        """A task inside the turn, at its root."""

        async def main() -> T:
            self.turn.is_over = False
            try:
                return await function(*args, **kwargs)
            finally:
                self.turn.agent_returned()

        with self.turn.order.inside():
            task = asyncio.Task(main(), loop=self.turn.loop, context=self._context)
        self.turn.adopt(task, self._place)
        return task

    async def run(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function inside the turn and return what it returns; what makes the turn fail is raised."""
        task = self.start(function, *args, **kwargs)
        endings: list[asyncio.Future[Any]] = [task, self.turn.failure]
        await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        if self.turn.failure.done():
            await self.end()
            raise self.turn.failure.result()
        mismatch = self.turn.order.returned()
        if mismatch is not None:
            raise mismatch
        return task.result()

    async def end(self) -> None:
        """End the turn as a worker does: nothing more is recorded, and what the agent left behind is cancelled."""
        self.turn.order.records.flush()
        self.turn.close()
        async with asyncio.timeout(_LEFTOVER_SECONDS):
            while self.turn.tasks:
                tasks = list(self.turn.tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


@dataclass
class LocalResult:
    """What ``run_locally`` returns."""

    response: ChatMessage
    state: list[ChatMessage]
    port: LocalPort

    @property
    def requests(self) -> list[InterruptRequest]:
        """What people were asked, in order."""
        return [asked.request for asked in self.port.interrupts]


async def run_locally(
    agent: Any,
    message: ChatMessage | str,
    state: list[ChatMessage] | None = None,
    answers: Answers | None = None,
    *,
    context: Any = None,
) -> LocalResult:
    """One turn of any accepted agent, errors raised as they are."""
    loaded = as_agent(agent)
    local = LocalTurn(answers, context=context, agent=loaded.name)
    if isinstance(message, str):
        message = ChatMessage.user_message(content=message)
    try:
        local.turn.conversation = (*(state or ()), message)
        response, after = await local.run(loaded.run, message, list(state or []))
    finally:
        local.turn.close()
    return LocalResult(response, after, local.port)
