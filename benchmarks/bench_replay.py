"""What it costs to replay a ten-step turn.

    python -m benchmarks.bench_replay

Two figures, both in a process that has everything imported and on one core: the matcher alone (reading the journal, and
every ask and delivery), and a whole turn in a warm worker, from its journal to where it waits for a person (agent,
event loop and matcher). Goals: 50 us of the matcher, 0.3 ms of CPU of the turn. What else the machine does shows in the
second: the median and the best of many rounds are printed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import hitl
from hitl import _core
from hitl.journal.ports import PendingTimer
from hitl.turn.runtime import Turn
from hitl.worker.loops import new_loop
from tests.python.support.local import PENDING, LocalPort, LocalTurn

STEPS = 10
MATCHES = 5_000
MATCH_GOAL_US = 50.0
ROUNDS = 30
TURNS = 100
"""Replays of a round, one after the other."""
TURN_GOAL_MS = 0.3
CODE = "0123456789abcdef"


def identity(number: int) -> dict[str, Any]:
    """A tool call with three arguments."""
    return {
        "path": f"0#{number}",
        "key": None,
        "kind": "tool",
        "name": "write_file",
        "location": "agent.py:42",
        "arguments": dict.fromkeys(("path", "content", "mode"), f"{number:032x}"),
    }


def journal() -> list[dict[str, Any]]:
    """Ten finished steps, then a question that was answered; results of some size, which nobody reads."""
    entries: list[dict[str, Any]] = [{"entry": "start", "code": CODE, "python": "3.11"}]
    result = {"value": {"text": "x" * 2_000, "lines": list(range(200))}}
    entries += [{"entry": "step", "step": identity(number), "result": result} for number in range(1, STEPS + 1)]
    entries += [
        {"entry": "ask", "step": identity(STEPS + 1), "interrupt_id": "0190a5b2-0000-7000-8000-000000000000"},
        {"entry": "pause", "timers": []},
        {"entry": "answer", "interrupt_id": "0190a5b2-0000-7000-8000-000000000000", "value": result},
    ]
    return [{"at": 1_700_000_000_000 + index, **entry} for index, entry in enumerate(entries)]


def match(entries: list[dict[str, Any]], asks: list[dict[str, Any]]) -> None:
    """One whole replay, as far as the matcher is concerned."""
    matcher = _core.Replay(entries, CODE)
    for ask in asks:
        matcher.ask(ask, False)
        if matcher.next()[0] != "deliver":
            raise RuntimeError(f"the replay stopped at {ask['path']}")
    if matcher.next() != ("end",):
        raise RuntimeError("the replay did not come to its end")


async def double(number: int) -> int:
    """A step's body."""
    return 2 * number


async def agent() -> None:
    """Ten steps, then a question."""
    for number in range(STEPS):
        await hitl.step(double, number)
    await hitl.interrupt({"type": "color_picker"})


class Warm(LocalPort):
    """Says when the turn stands where it stood."""

    def __init__(self) -> None:
        super().__init__()
        self.stands = asyncio.get_running_loop().create_future()

    def waiting(self, seen: int | None, timers: list[PendingTimer], context: Any) -> None:
        """The turn waits for a person again."""
        self.stands.set_result(None)


async def replay_turn(recorded: list[dict[str, Any]]) -> None:
    """One replay as a worker does it."""
    port = Warm()
    turn = Turn(port, turn_id="turn-1", session_id="session-1", journal=recorded, epoch=2, code=CODE)
    task = turn.start(agent)
    turn.order.deliver_next()
    await port.stands
    turn.close()
    task.cancel()


async def measure_turns() -> list[float]:
    """Milliseconds of CPU of a replay, one figure for each round."""
    local = LocalTurn(lambda ask: PENDING, code=CODE)
    task = local.start(agent)
    asked = asyncio.Event()
    local.port.on_waiting = asked.set
    await asked.wait()
    local.turn.close()
    task.cancel()
    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(TURNS):
            await replay_turn(local.port.journal)
        took.append(1e3 * (time.process_time() - start) / TURNS)
    return took


def measure_matcher() -> list[float]:
    """Microseconds of each replay."""
    entries, asks = journal(), [identity(number) for number in range(1, STEPS + 2)]
    took: list[float] = []
    for _ in range(MATCHES):
        start = time.perf_counter()
        match(entries, asks)
        took.append(1e6 * (time.perf_counter() - start))
    return sorted(took)


def main() -> None:
    """Measure and print."""
    if _core.DEBUG_BUILD:
        raise SystemExit("a debug build says nothing about speed; hint: make bench builds for speed")
    matcher = measure_matcher()
    p50, p99 = statistics.median(matcher), matcher[int(0.99 * len(matcher))]
    print(f"matcher of {STEPS} steps and a question: p50 {p50:.1f} (goal {MATCH_GOAL_US:.0f}), p99 {p99:.1f} us")
    turns = new_loop().run_until_complete(measure_turns())
    print(
        f"the whole turn in a warm worker: median {statistics.median(turns):.3f} (goal {TURN_GOAL_MS}), "
        f"best round {min(turns):.3f} ms of CPU"
    )


if __name__ == "__main__":
    main()
