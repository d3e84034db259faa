"""Who runs the agent of a cell, and answers it as people would: question by question."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import hitl
from hitl import RunState
from tests.python.support.api import Api, ok
from tests.python.support.served import Served
from tests.python.support.waiting import pauses
from tests.python.waiting.agent import agent
from tests.python.waiting.befores import READ_FOR_EVER
from tests.python.waiting.cells import SECONDS, answers, check_ledger, holds, open_at_once
from tests.python.waiting.ledger import Cell
from tests.python.waiting.peers import Peers

HOLD_SECONDS = 1
"""After this long a turn is paused that only waits of which nobody can tell keep busy: the reader of a websocket."""

# For turns that nothing of the kind keeps: one that is taken for busy does not come back in the time of its cell.
_LONG_HOLD_SECONDS = 3600
# For turns that a step at work keeps, for as long as it takes: one whose work is taken for anything less comes back.
_SHORT_HOLD_SECONDS = 0.01

AGENT = "tests.python.waiting.agent:agent"


def label(asked: Any) -> str:
    """Which question of its ask that is."""
    payload = asked["payload"] if isinstance(asked, dict) else asked.payload
    name: str = payload["tool_args"]["name"] if payload["type"] == "tool_approval" else payload["about"]
    return name


# -- hitl.run ----------------------------------------------------------------------------------------------------------


async def run_cell(cell: Cell, peers: Peers) -> None:
    """From the message to the response, by `hitl.run`; the state is a text in between."""
    result = await _run(cell, peers, cell.message(), [])
    answered: list[str] = []
    while result.status == "interrupted":
        asked = sorted(result.interrupts, key=label)
        if not answered:
            assert len(asked) == open_at_once(cell)
        assert result.state is not None
        state = RunState.from_string(agent, result.state.to_string())
        first = next(one for one in state.interrupts if one.id == asked[0].id)
        name = label(first)
        answered.append(name)
        state = state.approve(first) if first.tool_name else state.answer(first, f"answer {name}")
        result = await _run(cell, peers, state, answered)
    assert result.status == "idle", result.error
    assert json.loads(result.output or "") == answers(cell)
    check_ledger(cell)


async def _run(cell: Cell, peers: Peers, input: Any, answered: list[str]) -> Any:
    running = asyncio.ensure_future(hitl.run(agent, input, hold=_hold(cell, answered)))
    held = holds(cell, answered)
    try:
        async with asyncio.timeout(SECONDS):
            if held is not None:
                await asyncio.to_thread(peers.wait_for_arrival, held, SECONDS)
                await _another_run(cell)
                assert not running.done(), "it came back while a step was at work"
                peers.release(held)
            return await running
    except TimeoutError:
        where = f"after the answers to {answered}" if answered else "before its first answer"
        raise AssertionError(f"hitl.run did not come back in {SECONDS:g} s, {where}") from None
    finally:
        running.cancel()
        await asyncio.wait([running], timeout=5)


def _hold(cell: Cell, answered: list[str]) -> float:
    if cell.before not in READ_FOR_EVER and holds(cell, answered) is not None:
        return _SHORT_HOLD_SECONDS
    return HOLD_SECONDS if cell.before in READ_FOR_EVER else _LONG_HOLD_SECONDS


async def _another_run(cell: Cell) -> None:
    """A whole run beside it: in that time a turn that is thought to wait comes back."""
    other = Cell(f"{cell.name} beside", "nothing", "plain", f"{cell.ledger}.beside", cell.ports)
    paused = await hitl.run(agent, other.message())
    assert paused.state is not None
    assert (await hitl.run(agent, paused.state.answer(paused.interrupts[0], "answer a"))).status == "idle"


# -- a server ----------------------------------------------------------------------------------------------------------


def serve(store: str, isolation: str, **options: Any) -> Served:
    """A server of the agent. The variable is a flag, and older versions do not mind it."""
    environment = {"HITL_HOLD": str(HOLD_SECONDS)}
    return Served(AGENT, store=store, isolation=isolation, environment=environment, **options)


@dataclass
class Conversation:
    """One cell on a server, from its message to its response. Nothing else runs there between `begin` and `go_on`."""

    api: Api
    cell: Cell
    peers: Peers
    session_id: str = ""
    answered: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Send the message."""
        self.session_id = self.api.create()
        assert self.api.send(self.session_id, self.cell.message()).status_code == 202

    def begin(self) -> None:
        """Send the message; returns once the turn waits, and holds nothing."""
        with self._parks():
            self.start()

    def go_on(self) -> None:
        """Answer question by question, up to the response."""
        while (session := self.session())["status"] == "interrupted":
            if not self.answered:
                assert len(session["interrupts"]) == open_at_once(self.cell)
            with self._parks():
                self.answer_next(session)
        self.check(session)

    def check(self, session: dict[str, Any]) -> None:
        """What came of it."""
        assert session["status"] == "idle", session.get("error")
        assert json.loads(session["response"]["content"]) == answers(self.cell)
        check_ledger(self.cell)

    def session(self) -> dict[str, Any]:
        return self.api.session(self.session_id)

    def answer_next(self, session: dict[str, Any]) -> str | None:
        """Answer the first open question that is not answered yet; gives what is then in flight."""
        asked = [one for one in session["interrupts"] if label(one) not in self.answered]
        if not asked:
            return None
        first = min(asked, key=label)
        value = {"approved": True} if first["type"] == "tool_approval" else f"answer {label(first)}"
        self.answered.append(label(first))
        ok(self.api.resume(self.session_id, first["interrupt_id"], value))
        return holds(self.cell, self.answered)

    @contextmanager
    def _parks(self) -> Iterator[None]:
        """Within: bring it on. Then it comes to rest, not before what it has in flight is done."""
        parked = metric(self.api, "hitl_turns_parked_total")
        yield
        held = holds(self.cell, self.answered)
        if held is not None:
            self.peers.wait_for_arrival(held, SECONDS)
            until(lambda: self.session()["status"], "interrupted", "the session")
            self._another_session()
            parked = metric(self.api, "hitl_turns_parked_total")
            at_work = ok(self.api.get("/health"))["running_workers"], metric(self.api, "hitl_turns_in_memory")
            assert at_work == (1, 1), "it was paused while a step was at work"
            self.peers.release(held)
        until(lambda: self._unrest(parked), None, f"the turn after the answers to {self.answered}")

    def _unrest(self, parked: float) -> str | None:
        """None when it is parked or over; else what it does."""
        status = self.session()["status"]
        places = ok(self.api.get("/health"))["running_workers"]
        in_memory = metric(self.api, "hitl_turns_in_memory")
        if status == "running" or places or in_memory:
            return f"{status}, takes {places} places, {in_memory:g} turns in memory"
        if status == "interrupted" and metric(self.api, "hitl_turns_parked_total") == parked:
            return "not begun"
        return None

    def _another_session(self) -> None:
        """A whole one beside it: in that time a turn that is thought to wait is parked."""
        name = f"{self.cell.name} beside"
        other = Cell(name, "nothing", "plain", f"{self.cell.ledger}.beside", self.cell.ports)
        session_id = self.api.create()
        assert self.api.send(session_id, other.message()).status_code == 202
        asked = self.api.wait(session_id, SECONDS)["interrupts"][0]
        ok(self.api.resume(session_id, asked["interrupt_id"], "answer a"))
        assert self.api.wait(session_id, SECONDS)["status"] == "idle"
        until(lambda: metric(self.api, "hitl_turns_in_memory"), 1, "turns in memory")


def metric(api: Api, name: str) -> float:
    """One sample of /metrics."""
    for line in api.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no metric {name}")


def until(look: Callable[[], Any], expected: Any, what: str, seconds: float = SECONDS) -> None:
    """Wait for what has no event."""
    deadline = time.monotonic() + seconds
    between = pauses()
    while (seen := look()) != expected:
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: still {seen!r} after {seconds:g} s, expected {expected!r}")
        time.sleep(next(between))
