"""Would the turns that wait in a store fit the code at hand? Each is replayed up to where it stands, and no further.

No step begins, nothing is written, nobody is asked. What does run is the agent's code between its steps. A step whose
body asked for something (a tool that asks, an agent as a tool) would run again from its top, with its effects: it is
left out, and the verdict says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from hitl.driver.running import context_of, why_it_ended
from hitl.driver.shapes import LoadedAgent
from hitl.errors import UnreadableJournal
from hitl.journal.ports import Holder, PendingTimer, StepIdentity, Wake
from hitl.messages import ChatMessage
from hitl.turn.runtime import Turn
from hitl.turn.schedule import OUTSIDE


@dataclass(frozen=True)
class OpenTurn:
    """A turn that waits in a store: what a worker would be given."""

    session_id: str
    turn_id: str
    message: dict[str, Any]
    state: list[dict[str, Any]]
    journal: list[dict[str, Any]]
    has_failed: bool = False
    """Whether it is one that a retry would take up, under this code or another."""


@dataclass
class Verdict:
    """What became of one replay: ``error`` is None where the turn would go on, as far as it was checked."""

    session_id: str
    turn_id: str
    error: str | None = None
    code: str | None = None
    """The error's code, such as ``replay_mismatch``."""
    warnings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """Steps whose insides were left out."""
    has_failed: bool = False
    """As its ``OpenTurn`` says."""

    @property
    def word(self) -> str:
        """``goes on``, ``breaks``, or ``unchecked`` where what decides may lie inside of a step that was left out."""
        if self.error is not None:
            return "breaks"
        return "unchecked" if self.unchecked else "goes on"


class _Stop:
    """A ``TurnPort`` that ends the turn where it would go on by itself."""

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self.warnings: list[str] = []
        self.stands: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def replayed(self, warnings: list[str]) -> None:
        self.warnings = warnings
        if self.turn is not None:
            self.turn.close()
        self.stands.set_result(None)

    def _never(self, *_: Any) -> NoReturn:
        raise RuntimeError("a replay that only checks must not record anything")

    step = intent = ask = timer = withdraw = _never

    def wakes(self, wakes: list[Wake]) -> None:
        """Raw I/O runs again; its marks are the journal's already."""

    def held(self, by: list[Holder], *, at_work: bool, is_replay: bool) -> None:
        """The check has its own patience."""

    def waiting(self, seen: int | None, timers: list[PendingTimer], context: Any) -> None:
        """A turn that has only begun, and waits."""

    def started(self, step: StepIdentity, arguments: Mapping[str, Any] | None) -> None:
        """No tool runs."""

    def delta(self, step_id: str, attempt: int, delta: dict[str, str]) -> None:
        """No model runs."""

    def log(self, stream: str, text: str) -> None:
        """What the agent prints goes where this process prints."""


async def check_turns(
    agent: LoadedAgent, turns: Iterable[OpenTurn], *, code: str, patience: float = 10.0
) -> list[Verdict]:
    """One verdict for each turn. ``code`` is the agent's code version; ``patience`` in seconds is for each turn, whose
    raw I/O may take that long. Must run on a loop of ``hitl.worker.loops``, or any ``hitl.turn.schedule`` is on."""
    return [await _check(agent, turn, code, patience) for turn in turns]


async def _check(agent: LoadedAgent, waiting: OpenTurn, code: str, patience: float) -> Verdict:
    verdict = Verdict(waiting.session_id, waiting.turn_id, has_failed=waiting.has_failed)
    if len(waiting.journal) < 2:  # it has not begun: there is nothing that it must fit
        return verdict
    port = _Stop()
    try:
        turn = Turn(
            port,
            turn_id=waiting.turn_id,
            session_id=waiting.session_id,
            agent=agent.name,
            context=context_of(waiting.journal),
            resources=agent.resources,
            resources_are_given=agent.resources_are_given,
            journal=waiting.journal,
            code=code,
            run_bodies=False,
        )
    except UnreadableJournal as unreadable:
        return _failed(verdict, unreadable)
    port.turn = turn
    message = ChatMessage.from_dict(waiting.message)
    state = [ChatMessage.from_dict(item) for item in waiting.state]
    task = turn.start(partial(agent.run, message, state))
    endings: list[asyncio.Future[Any]] = [task, turn.failure, port.stands]
    await asyncio.wait(endings, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    verdict.warnings, verdict.unchecked = port.warnings, turn.unchecked
    failure = turn.failure.result() if turn.failure.done() else None
    raised = task.exception() if task.done() and not task.cancelled() else None
    if failure is None and task.done():
        failure = turn.order.returned()
    if failure is not None:
        _failed(verdict, failure)
        verdict.error = f"{verdict.error}{why_it_ended(failure, raised)}"
    elif not (task.done() or port.stands.done()):
        verdict.error = f"it did not come to where it stands within {patience:g} s: it waits for raw I/O, or computes"
        verdict.code = "replay_timeout"
    turn.close()
    left = list(turn.tasks)
    for leftover in left:
        leftover.cancel()
    if left:
        await asyncio.Task(asyncio.wait(left, timeout=1.0), loop=turn.loop, context=OUTSIDE.copy())
    return verdict


def _failed(verdict: Verdict, failure: BaseException) -> Verdict:
    verdict.error = str(failure)
    verdict.code = getattr(failure, "code", "replay_mismatch")
    return verdict
