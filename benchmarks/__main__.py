"""`make bench` and `make bench-full`: hitl by itself, everybody side by side, then how it grows.

    python -m benchmarks                # the short one, about ten minutes
    python -m benchmarks --full         # the one that docs/performance.md shows, an hour on a quiet machine
    python -m benchmarks --smoke        # does it work? figures mean nothing

Prints tables and goals; writes `results.json`, `results.md` and a picture for each curve into a directory of `--out`
for each part. With `--docs` tables and pictures go into docs/performance.md and docs/images/performance too, where what
was not measured stays as it is.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from benchmarks import bench_contenders, bench_growth, bench_profile, bench_server, machine
from benchmarks.contenders.table import Entry
from benchmarks.page import write_page
from benchmarks.report import Report

RESULTS = machine.ROOT / "benchmarks" / "results"

PARTS = {
    "server": bench_server.TITLE,
    "profile": bench_profile.TITLE,
    "contenders": bench_contenders.TITLE,
    "growth": bench_growth.TITLE,
}
"""Each part and its title, in the order of the page."""


class Size(NamedTuple):
    """How much of each part."""

    contenders: bench_contenders.Size
    growth: bench_growth.Size
    runs: int
    turns: int
    seconds: float


SIZES = {
    "short": Size(bench_contenders.SHORT, bench_growth.SHORT, runs=1, turns=100, seconds=2),
    "full": Size(bench_contenders.FULL, bench_growth.FULL, runs=3, turns=300, seconds=5),
    "smoke": Size(bench_contenders.SMOKE, bench_growth.SMOKE, runs=1, turns=2, seconds=0.2),
}


def measure(part: str, name: str, entries: Sequence[Entry], environments: Path) -> Report:
    """That part, at that size."""
    size, described = SIZES[name], machine.describe()
    report = Report("", PARTS[part], data={"machine": described})
    match part:
        case "server":
            figures = bench_server.measure(size.runs, size.turns, size.seconds)
            report.tables.append(figures.table())
            report.goals += figures.goals()
            report.data["server"] = figures.data()
        case "profile":
            report.tables.append(bench_profile.measure(size.seconds))
        case "contenders":
            with tempfile.TemporaryDirectory(dir=machine.scratch(), prefix="bench-") as scratch:
                measured = bench_contenders.compare(entries, environments, Path(scratch), size.contenders)
            report.tables += bench_contenders.tables(measured, size.contenders)
            report.data |= {"contenders": measured, "sizes": {"contenders": asdict(size.contenders)}}
            report.goals += bench_contenders.goals(measured)
        case "growth":
            paused, report.curves = bench_growth.measure(size.growth)
            report.tables += [bench_growth.table(paused), *bench_growth.tables_of(report.curves)]
            report.goals += bench_growth.goals(paused)
            report.data["paused"] = [asdict(each) for each in paused]
    machine.end(described)
    report.machine = f"in a {name} run, {machine.in_words(described)}"
    return report


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="more rounds, longer ones, up to 1,000,000 paused sessions")
    size.add_argument("--smoke", action="store_true", help="a few of everything, to see that it works")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; can be given again")
    parser.add_argument("--only", help="contenders, by parts of their names, with semicolons between")
    parser.add_argument("--environments", type=Path, default=machine.ROOT / ".contenders", help="where contenders live")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--docs", action="store_true", help="write docs/performance.md anew, too")
    options = parser.parse_args()
    if not options.smoke:
        machine.refuse_debug_build()
    size_name = "full" if options.full else "smoke" if options.smoke else "short"
    entries = bench_contenders.chosen(options.only)  # a name that nobody has is told of before anything is measured
    for part in options.part or PARTS:
        try:
            report = measure(part, size_name, entries, options.environments)
        except bench_contenders.TooNoisyError as noisy:
            raise SystemExit(str(noisy)) from noisy
        # At once, since a full run of an hour may be cut short.
        report.write(options.out / part)
        if options.docs:
            write_page(part, report, machine.ROOT / "docs")
        print(report.text(), end="\n\n", flush=True)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
