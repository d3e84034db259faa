"""docs/performance.md: what a reader needs to judge the figures, around those of the last full run of each part."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.plot import svg
from benchmarks.report import Report

PICTURES = "images/performance"


def marks(part: str) -> tuple[str, str]:
    """Between which lines of the page the figures of a part stand."""
    return f"<!-- {part}: written by `python -m benchmarks --full --docs` -->", f"<!-- end of {part} -->"


def write_page(part: str, report: Report, docs: Path) -> None:
    """Put a part's figures between its marks of the page, and its pictures beside it; ValueError without the marks."""
    pictures = docs / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    for curve in report.curves:
        (pictures / f"{curve.name}.svg").write_text(svg(curve))
    page = docs / "performance.md"
    begin, end = marks(part)
    between = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    text = page.read_text()
    if not between.search(text):
        raise ValueError(f"{page} has no place for the figures of {part}: {begin} ... {end}")
    figures = f"{begin}\n\n{report.markdown(f'{PICTURES}/')}\n{end}"
    page.write_text(between.sub(lambda _: figures, text))
