"""A run without a server, side by side: pause, keep, decide, go on, done.

    python -m benchmarks.bench_runs [--rounds 5] [--times 100] [--environments DIRECTORY]

The same scripted agent everywhere (contenders/approval/job.py): a message, a call of a tool that needs approval, the
pause, kept so that another process could go on from it, the approval, the tool, the last word. LangGraph's prebuilt
agent with approval over its SQLite saver, the OpenAI Agents SDK with its run state as a string, and ours both ways.
Each contender is a process in an environment of its own (environments.py); they take turns, so that what else the
machine does hits all of them. The goal is to be five times as fast as each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine
from benchmarks.environments import interpreter

APPROVAL = Path(__file__).parent / "contenders" / "approval"
GOAL = 5.0


class Contender(NamedTuple):
    """Who does the job: ``environment`` is where it lives, None is ours."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    environment: str | None = None


CONTENDERS = (
    Contender("hitl, state as a string", "hitl_job.py", ("string",)),
    Contender("hitl, SQLite store", "hitl_job.py", ("store",)),
    Contender("openai-agents, state as a string", "openai_agents_job.py", environment="openai_agents"),
    Contender("langgraph, SQLite saver", "langgraph_job.py", environment="langgraph"),
)
AGAINST = (
    ("openai-agents, state as a string", "hitl, state as a string"),
    ("langgraph, SQLite saver", "hitl, state as a string"),
    ("langgraph, SQLite saver", "hitl, SQLite store"),
)
"""Who is compared with which of ours. A graph cannot pause without a saver; a run of ours with a store has every step
on disk before the next, where the graph, as it comes, writes one while the next runs."""


def run(contender: Contender, directory: Path, times: int) -> tuple[list[float], float]:
    """Milliseconds of each job, and of CPU for one."""
    command = [interpreter(contender.environment, directory), contender.script, str(times), *contender.arguments]
    done = subprocess.run(command, cwd=APPROVAL, stdout=subprocess.PIPE, check=True)
    measured = json.loads(done.stdout)
    return measured["ms"], measured["cpu_ms"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=100, help="jobs of each contender in a round")
    parser.add_argument(
        "--environments", "--peers", type=Path, default=machine.ROOT / ".contenders", help="where contenders live"
    )
    options = parser.parse_args()
    machine.refuse_debug_build()
    for contender in CONTENDERS:
        interpreter(contender.environment, options.environments)

    took: dict[str, list[float]] = {contender.name: [] for contender in CONTENDERS}
    medians: dict[str, list[float]] = {contender.name: [] for contender in CONTENDERS}
    cpu: dict[str, list[float]] = {contender.name: [] for contender in CONTENDERS}
    print(f"load average {os.getloadavg()[0]:.2f}")
    for _ in range(options.rounds):
        for contender in CONTENDERS:
            each, of_cpu = run(contender, options.environments, options.times)
            took[contender.name] += each
            medians[contender.name].append(statistics.median(each))
            cpu[contender.name].append(of_cpu)
    print(f"load average {os.getloadavg()[0]:.2f}; {options.rounds} rounds of {options.times}\n")

    print(f"{'pause, keep, decide, go on, done':36}{'p50':>10}{'p99':>10}{'CPU':>10}")
    for name, each in took.items():
        p99 = sorted(each)[int(0.99 * len(each))]
        print(f"{name:36}{statistics.median(each):7.2f} ms{p99:7.2f} ms{statistics.median(cpu[name]):7.2f} ms")
    print()
    for name, ours in AGAINST:
        ratios = [theirs / own for theirs, own in zip(medians[name], medians[ours], strict=True)]
        middle, spread = statistics.median(ratios), f"{min(ratios):.1f} to {max(ratios):.1f}"
        print(f"{name} / {ours}: {middle:.1f} (goal {GOAL:.0f}; rounds {spread})")


if __name__ == "__main__":
    main()
