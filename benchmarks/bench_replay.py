"""What the matcher costs in the replay of a ten-step turn: reading its journal, and every ask and delivery.

    python -m benchmarks.bench_replay

The agent's own code and the event loop are not in it. The goal is 50 microseconds at p50.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from hitl import _core

STEPS = 10
ROUNDS = 5_000
GOAL_US = 50.0


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
    entries: list[dict[str, Any]] = [{"entry": "start", "code": "0123456789abcdef", "python": "3.11"}]
    result = {"value": {"text": "x" * 2_000, "lines": list(range(200))}}
    entries += [{"entry": "step", "step": identity(number), "result": result} for number in range(1, STEPS + 1)]
    entries += [
        {"entry": "ask", "step": identity(STEPS + 1), "interrupt_id": "0190a5b2-0000-7000-8000-000000000000"},
        {"entry": "pause", "timers": []},
        {"entry": "answer", "interrupt_id": "0190a5b2-0000-7000-8000-000000000000", "value": result},
    ]
    return [{"at": 1_700_000_000_000 + index, **entry} for index, entry in enumerate(entries)]


def replay(entries: list[dict[str, Any]], asks: list[dict[str, Any]]) -> None:
    """One whole replay."""
    matcher = _core.Replay(entries, "0123456789abcdef")
    for ask in asks:
        matcher.ask(ask, False)
        if matcher.next()[0] != "deliver":
            raise RuntimeError(f"the replay stopped at {ask['path']}")
    if matcher.next() != ("end",):
        raise RuntimeError("the replay did not come to its end")


def main() -> None:
    """Measure and print."""
    if _core.DEBUG_BUILD:
        raise SystemExit("a debug build says nothing about speed; hint: make bench builds for speed")
    entries, asks = journal(), [identity(number) for number in range(1, STEPS + 2)]
    took: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        replay(entries, asks)
        took.append(1e6 * (time.perf_counter() - start))
    took.sort()
    p50, p99 = statistics.median(took), took[int(0.99 * len(took))]
    print(f"matcher of {STEPS} steps and a question: p50 {p50:.1f} (goal {GOAL_US:.0f}), p99 {p99:.1f} us")


if __name__ == "__main__":
    main()
