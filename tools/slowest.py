"""The slowest tests of the last `make test`: `python tools/slowest.py`, or `make slowest`.

Reads what nextest and pytest write of their runs. `cargo test`, which stands in where nextest is not installed, writes
nothing; that is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
REPORTS = {"Rust": ROOT / "target" / "nextest" / "default" / "junit.xml", "Python": ROOT / "target" / "pytest.xml"}
LISTED = 20


def tests_of(report: Path) -> list[tuple[float, str]]:
    """Seconds and name of each test, the slowest first."""
    cases = [case.attrib for case in ElementTree.parse(report).iter("testcase")]
    return sorted(((float(case["time"]), f"{case['classname']}::{case['name']}") for case in cases), reverse=True)


def lines(reports: dict[str, Path]) -> Iterator[str]:
    """What there is to say of each report."""
    for language, report in reports.items():
        if not report.exists():
            yield f"Slowest tests, {language}: nothing was written about them"
            continue
        tests = tests_of(report)
        together = sum(took for took, _ in tests)
        yield f"Slowest tests, {language}: of {len(tests):,}, which took {together:.0f} s together"
        yield from (f"{took:8.2f} s  {name}" for took, name in tests[:LISTED])


if __name__ == "__main__":
    print("\n".join(lines(REPORTS)))
