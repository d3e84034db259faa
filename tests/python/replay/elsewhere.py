"""Generated agents in a process of their own: ``record FIRST COUNT`` writes runs as JSON, ``replay`` reads them and
crashes each after every entry. Needs nothing but the standard library and hitl, so that any Python can run it."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import asdict
from typing import Any

from tests.python.replay.crashes import Report, Run, replay, run, together
from tests.python.replay.loops import on_own_loop
from tests.python.replay.programs import generate


async def _record(seed: int, found: list[dict[str, Any]]) -> Report:
    program = generate(seed)
    first = await run(program, random.Random(f"{seed} first"))
    error = None if first.error is None else repr(first.error)
    found.append({"seed": seed, "program": program, "journal": first.journal, "trace": first.trace, "error": error})
    return Report(agents=1)


async def _replay(recorded: dict[str, Any]) -> Report:
    if recorded["error"] is not None:
        return Report(agents=1, problems=[f"seed {recorded['seed']} cannot be recorded: {recorded['error']}"])
    first = Run(recorded["journal"], recorded["trace"], [])
    report = Report(agents=1)
    report.add(await replay(recorded["seed"], recorded["program"], first, range(2, len(first.journal) + 1)))
    return report


def main(command: str, *arguments: str) -> None:
    """Do what the command line says; the result is one JSON document on standard output."""
    if command == "record":
        start, count = map(int, arguments)
        found: list[dict[str, Any]] = []
        on_own_loop(together(_record(seed, found) for seed in range(start, start + count)))
        json.dump(found, sys.stdout)
    else:
        json.dump(asdict(on_own_loop(together(map(_replay, json.load(sys.stdin))))), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
