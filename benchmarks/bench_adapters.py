"""What hitl costs beside a framework by itself: CPU for each call of a model or a tool.

    python -m benchmarks.bench_adapters [--framework pydantic_ai] [--rounds 9] [--calls 20]

The same agent (benchmarks/adapters), the same turn: so many calls of a tool one after the other, and a request to the
model before each and after the last. The framework runs it by itself, `hitl.run` does, and a server does whose store
is in memory, in this process, with its client. All of this process's CPU is counted, threads of the core too. They
take turns, and each turn is measured beside one without calls, so that what a turn costs in any case is not counted
among its calls. Strands is measured in the environment that `tools/frameworks.py` makes for it.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec

from benchmarks import machine
from benchmarks.report import Goal, Table

FRAMEWORKS = {"pydantic_ai": "pydantic_ai", "openai_agents": "agents", "langgraph": "langchain", "strands": "strands"}
"""The frameworks, by the package that has to be here."""
GOAL_MS = 1.0


def here() -> list[str]:
    """The frameworks that this environment has."""
    return [framework for framework, package in FRAMEWORKS.items() if find_spec(package) is not None]


def cpu_ms() -> float:
    """What this process has used so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return 1000 * (used.ru_utime + used.ru_stime)


def measure(framework: str, rounds: int, calls: int, times: int = 5) -> dict[str, float]:
    """Milliseconds of CPU for one call: of the framework by itself, and of what each way through hitl adds to it.

    The median of so many rounds; in each, every way makes ``times`` turns with ``calls`` calls of the tool and as many
    without.
    """
    import hitl
    from hitl.client import Client

    module = import_module(f"benchmarks.adapters.{framework}")
    agent = module.make()

    def alone(number: int) -> str:
        said: str = asyncio.run(module.alone(agent, number))
        return said

    def run(number: int) -> str | None:
        result = hitl.run_sync(_served(framework, agent, calls), str(number))
        assert result.status == "idle", result.error
        return result.output

    with ExitStack() as stack:
        server = stack.enter_context(
            hitl.Server(_served(framework, agent, calls), port=0, store="memory", log_level="error")
        )
        client = stack.enter_context(Client(server.url))

        def served(number: int) -> str | None:
            session = client.ask(client.create_session().session_id, str(number))
            assert session.response is not None, session.error
            return session.response.content

        ways: dict[str, Callable[[int], str | None]] = {"alone": alone, "hitl.run": run, "served": served}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                each = (_of_turns(way, calls, times) - _of_turns(way, 0, times)) / (2 * calls)
                if number:  # the first warms up
                    taken[name].append(each)
    middle = {name: statistics.median(each) for name, each in taken.items()}
    return {name: each if name == "alone" else each - middle["alone"] for name, each in middle.items()}


def _of_turns(way: Callable[[int], str | None], calls: int, times: int) -> float:
    """Milliseconds of CPU of one turn, of so many."""
    before = cpu_ms()
    for _ in range(times):
        said = way(calls)
        assert said == "done", said
    return (cpu_ms() - before) / times


def _served(framework: str, agent: object, calls: int) -> object:
    """The agent for hitl, with room for the calls."""
    if framework != "openai_agents":
        return agent
    from hitl.ext.openai_agents import as_agent

    return as_agent(agent, max_turns=calls + 1)  # type: ignore[arg-type]


def table(measured: dict[str, dict[str, float]]) -> Table:
    """A row for each framework."""
    head = ["CPU of a call of a model or a tool", "by itself", "hitl.run adds", "a server adds"]
    rows = [
        [framework, *(f"{cost[way]:.2f} ms" for way in ("alone", "hitl.run", "served"))]
        for framework, cost in measured.items()
    ]
    return Table("What an adapter costs", head, [list(row) for row in rows])


def goals(measured: dict[str, dict[str, float]]) -> list[Goal]:
    """What has to hold of each framework."""
    return [
        Goal(f"{framework}: hitl.run, CPU of a call", GOAL_MS, "ms", cost["hitl.run"])
        for framework, cost in measured.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--framework", choices=FRAMEWORKS, action="append", help="only this; may be given again")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=20, help="of the tool, in a turn")
    parser.add_argument("--debug-build", action="store_true", help="measure a debug build too, which is slower")
    options = parser.parse_args()
    if not options.debug_build:
        machine.refuse_debug_build()
    load = machine.load_average()
    measured = {name: measure(name, options.rounds, options.calls) for name in options.framework or here()}
    print(table(measured).text())
    print()
    for goal in goals(measured):
        print("  ".join(str(cell) for cell in goal.row()))
    print(f"\nload average {load:.2f} before, {machine.load_average():.2f} after")


if __name__ == "__main__":
    main()
