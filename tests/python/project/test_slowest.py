"""Which tests `make slowest` names."""

from __future__ import annotations

from pathlib import Path

from tools import slowest


def report(path: Path, **seconds: float) -> Path:
    """As nextest and pytest write it, of tests with these names."""
    cases = "".join(f'<testcase classname="unit" name="{name}" time="{took}"/>' for name, took in seconds.items())
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def test_the_slowest_come_first(tmp_path: Path) -> None:
    written = report(tmp_path / "report.xml", quick=0.25, slow=10.5, middling=2)
    assert list(slowest.lines({"Rust": written})) == [
        "Slowest tests, Rust: of 3, which took 13 s together",
        "   10.50 s  unit::slow",
        "    2.00 s  unit::middling",
        "    0.25 s  unit::quick",
    ]


def test_there_are_twenty_of_each_language(tmp_path: Path) -> None:
    written = report(tmp_path / "report.xml", **{f"test_{number}": number for number in range(30)})
    head, *named = slowest.lines({"Python": written})
    assert head == "Slowest tests, Python: of 30, which took 435 s together"
    assert [line.rpartition("_")[2] for line in named] == [str(number) for number in range(29, 9, -1)]


def test_a_run_that_wrote_nothing_is_told(tmp_path: Path) -> None:
    assert list(slowest.lines({"Rust": tmp_path / "none.xml"})) == [
        "Slowest tests, Rust: nothing was written about them"
    ]
