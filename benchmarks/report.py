"""What comes out: tables, goals and curves, as text, Markdown, JSON and pictures."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.plot import Curve, svg

Cell = str | float | None


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99, by the nearest rank."""
    ordered = sorted(milliseconds)
    return {f"p{part}": ordered[max(0, math.ceil(part / 100 * len(ordered)) - 1)] for part in (50, 95, 99)}


def middle(values: Iterable[float]) -> float | None:
    """The median; None of nothing."""
    listed = list(values)
    return statistics.median(listed) if listed else None


@dataclass(frozen=True)
class Goal:
    """What has to hold, and what was measured; None was not measured."""

    what: str
    limit: float
    unit: str
    measured: float | None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """met, missed or not measured."""
        if self.measured is None:
            return "not measured"
        if self.at_least:
            return "met" if self.measured >= self.limit else "missed"
        return "met" if self.measured <= self.limit else "missed"

    def row(self) -> list[Cell]:
        """One line of the table."""
        bound = "at least" if self.at_least else "at most"
        measured = "" if self.measured is None else f"{number(self.measured)} {self.unit}".rstrip()
        return [self.what, f"{bound} {number(self.limit)} {self.unit}".rstrip(), measured, self.verdict]


@dataclass
class Table:
    """Rows under a title; `notes` stand below."""

    title: str
    head: list[str]
    rows: list[list[Cell]]
    notes: str = ""

    def markdown(self, heading: bool = True) -> str:
        lines = [f"| {' | '.join(cells)} |" for cells in self._cells()]
        lines.insert(1, f"|{'---|' * len(self.head)}")
        if heading:
            lines = [f"### {self.title}", "", *lines]
        return "\n".join(lines) + (f"\n\n{self.notes}" if self.notes else "")

    def text(self) -> str:
        cells = self._cells()
        widths = [max(len(row[index]) for row in cells) for index in range(len(self.head))]
        lines = [
            "  ".join(
                cell.ljust(width) if index == 0 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        return "\n".join([self.title, *lines]) + (f"\n{self.notes}" if self.notes else "")

    def _cells(self) -> list[list[str]]:
        return [self.head] + [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in self.rows]


@dataclass
class Report:
    """Everything of one part; `data` is what the JSON has besides."""

    machine: str
    title: str
    tables: list[Table] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def all_tables(self) -> list[Table]:
        """The goals first."""
        verdicts = [goal.verdict for goal in self.goals]
        counted = ", ".join(f"{verdicts.count(word)} {word}" for word in ("met", "missed", "not measured"))
        head = ["what", "goal", "measured", ""]
        goals = Table(f"Goals: {self.title}", head, [goal.row() for goal in self.goals], f"{counted}.")
        return [goals, *self.tables] if self.goals else self.tables

    def text(self) -> str:
        """For the terminal."""
        return "\n\n".join([self.title, *(table.text() for table in self.all_tables()), self.machine])

    def markdown(self, pictures: str) -> str:
        """`pictures` is where they are, from where this is written to."""
        parts = [f"## {self.title}", f"Measured {self.machine}."]
        parts += [table.markdown(table.title != self.title) for table in self.all_tables()]
        if self.curves:
            parts.append("### Curves")
            parts += [f"![{curve.title}]({pictures}{curve.name}.svg)" for curve in self.curves]
        return "\n\n".join(parts) + "\n"

    def write(self, directory: Path) -> None:
        """`results.json`, `results.md` and a picture for each curve."""
        directory.mkdir(parents=True, exist_ok=True)
        goals = [
            {"what": goal.what, "limit": goal.limit, "unit": goal.unit, "at_least": goal.at_least}
            | {"measured": goal.measured, "verdict": goal.verdict}
            for goal in self.goals
        ]
        curves = {
            curve.name: {"title": curve.title, "x": curve.x, "y": curve.y, **curve.series} for curve in self.curves
        }
        document = {"goals": goals, "curves": curves, **self.data}
        (directory / "results.json").write_text(json.dumps(document, indent=1) + "\n")
        (directory / "results.md").write_text(self.markdown(""))
        for curve in self.curves:
            (directory / f"{curve.name}.svg").write_text(svg(curve))


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
