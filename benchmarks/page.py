"""docs/performance.md: what a reader needs to judge the figures, around those of the last full run."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.plot import svg
from benchmarks.report import Report

BEGIN, END = "<!-- figures: written by `python -m benchmarks --full --docs` -->", "<!-- end of figures -->"
PICTURES = "images/performance"


def write_page(report: Report, docs: Path) -> None:
    """Put the figures between the two marks of the page, and the pictures beside it; ValueError without the marks."""
    pictures = docs / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    for curve in report.curves:
        (pictures / f"{curve.name}.svg").write_text(svg(curve))
    page = docs / "performance.md"
    between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    text = page.read_text()
    if not between.search(text):
        raise ValueError(f"{page} has no place for figures: {BEGIN} ... {END}")
    figures = f"{BEGIN}\n\n{report.markdown(f'{PICTURES}/')}\n{END}"
    page.write_text(between.sub(lambda _: figures, text))
