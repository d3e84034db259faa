"""What every contender does, and how it is timed. Needs nothing but Python: each runs it in its own environment."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

TOOL = "delete_file"
CALL_ARGS = {"path": "/tmp/report.txt"}
DONE = "done"

WARM_UP = 10


def time_jobs(job: Callable[[int], str], times: int) -> None:
    """Run ``job`` ``times`` times after a warm-up, and print milliseconds of each and of CPU for one, as JSON.

    A job: a message, a model's call of a tool that needs approval, the pause, kept so that another process could go
    on from it, the approval, the tool, the model's last word.
    """
    for number in range(WARM_UP):
        check(job(number))
    took, cpu = [], time.process_time()
    for number in range(WARM_UP, WARM_UP + times):
        start = time.perf_counter()
        said = job(number)
        took.append(1e3 * (time.perf_counter() - start))
        check(said)
    json.dump({"ms": took, "cpu_ms": 1e3 * (time.process_time() - cpu) / times}, sys.stdout)


def check(said: str) -> None:
    """The agent came to its end."""
    if said != DONE:
        raise RuntimeError(f"the agent said {said!r} instead of {DONE!r}")
