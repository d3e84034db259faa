"""`make bench` and `make bench-full`: hitl by itself, everybody side by side, then how it grows.

    python -m benchmarks                # the short one, about ten minutes
    python -m benchmarks --full         # the one that docs/performance.md shows, an hour on a quiet machine
    python -m benchmarks --smoke        # does it work? figures mean nothing

Prints tables and goals; writes `results.json`, `results.md` and a picture for each curve into `--out`. With `--docs`
the tables and pictures go into docs/performance.md and docs/images/performance too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from benchmarks import bench_contenders, bench_growth, bench_profile, bench_server, machine
from benchmarks.page import write_page
from benchmarks.report import Report

RESULTS = machine.ROOT / "benchmarks" / "results"


PARTS = ("server", "profile", "contenders", "growth")


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


def measure(parts: Sequence[str], name: str, only: str | None, environments: Path) -> Iterator[Report]:
    """Those parts, at that size: what there is after each of them, since a full run of an hour may be cut short."""
    entries = bench_contenders.chosen(only)  # a name that nobody has is told of now, not after the first parts
    size, described = SIZES[name], machine.describe()
    report = Report("", data={"machine": described, "sizes": {"contenders": asdict(size.contenders)}})

    def so_far() -> Report:
        machine.end(described)
        report.machine = f"in a {name} run, {machine.in_words(described)}"
        return report

    if "server" in parts:
        figures = bench_server.measure(size.runs, size.turns, size.seconds)
        report.tables.append(figures.table())
        report.goals += figures.goals()
        report.data["server"] = figures.data()
        yield so_far()
    if "profile" in parts:
        report.tables.append(bench_profile.measure(size.seconds))
        yield so_far()
    if "contenders" in parts:
        with tempfile.TemporaryDirectory(dir=machine.scratch(), prefix="bench-") as scratch:
            measured = bench_contenders.compare(entries, environments, Path(scratch), size.contenders)
        report.tables += bench_contenders.tables(measured, size.contenders)
        report.data["contenders"] = measured
        report.goals += bench_contenders.goals(measured)
        yield so_far()
    if "growth" in parts:
        paused, report.curves = bench_growth.measure(size.growth)
        report.tables += [bench_growth.table(paused), *bench_growth.tables_of(report.curves)]
        report.goals += bench_growth.goals(paused)
        report.data["paused"] = [asdict(each) for each in paused]
        yield so_far()


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
    chosen = "full" if options.full else "smoke" if options.smoke else "short"
    try:
        for report in measure(options.part or PARTS, chosen, options.only, options.environments):
            report.write(options.out)
            if options.docs:
                write_page(report, machine.ROOT / "docs")
    except bench_contenders.TooNoisyError as noisy:
        raise SystemExit(str(noisy)) from noisy
    print(report.text())
    print(f"\nwritten to {options.out}")


if __name__ == "__main__":
    main()
