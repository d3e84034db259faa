"""What is selected of other frameworks' tests, what is left out, and what of that the docs say."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools import upstream

SUITES = upstream.suites()
PAGE = (upstream.ROOT / "docs" / "upstream.md").read_text()
LINES = re.sub(r"\n *", " ", PAGE)

each_suite = pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
each_kept = pytest.mark.parametrize("suite", [suite for suite in SUITES if suite.kept], ids=lambda suite: suite.name)


@each_suite
def test_it_is_of_the_version_that_everything_else_runs_on(suite: upstream.Suite) -> None:
    declared = tomllib.loads((upstream.ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert suite.requirement in [*declared["dev"], *declared.get(suite.name, ())]


@each_suite
def test_what_is_left_out_is_named_once_with_a_reason_and_is_little(suite: upstream.Suite) -> None:
    lists = [*suite.left_out, *suite.fail_alone]
    names = upstream.names_of(lists)
    assert len(names) == len(set(names))
    assert all(name.partition("::")[0] in suite.files for name in names)
    assert all(each.why for each in lists)
    assert suite.selected - suite.left >= upstream.LEAST * suite.selected


@each_suite
def test_the_page_has_its_counts_and_every_reason(suite: upstream.Suite) -> None:
    run = suite.selected - suite.left
    counts = f"{suite.selected} | {run} | {suite.in_steps} | {suite.prefixes:,}"
    assert f"| {suite.title} | `{suite.requirement}` | {counts} |" in PAGE
    for each in suite.left_out:
        assert f"- {suite.title}, {len(each.tests)}: {each.why}." in LINES
    if suite.fail_alone:
        number = len(upstream.names_of(suite.fail_alone))
        all_ = suite.selected + number
        assert f"{number} of the {all_} tests of {suite.title}'s file fail without a turn too" in LINES
    for each in suite.fail_alone:
        assert f"- {len(each.tests)}: {each.why}." in LINES


@each_suite
def test_it_is_of_an_sdist_or_kept_here(suite: upstream.Suite) -> None:
    assert bool(suite.archive and suite.sha256) != bool(suite.kept)


@each_kept
def test_what_is_kept_is_as_it_is_at_the_commit_and_beside_its_licence(suite: upstream.Suite) -> None:
    """By what git calls the content, so that whoever has the repository can compare them."""
    assert suite.kept is not None
    for name, blob in suite.kept.blobs.items():
        content = (suite.root / name).read_bytes()
        assert hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == blob, name
    assert {"LICENSE", *suite.files} <= suite.kept.blobs.keys()
    assert suite.licence in (suite.root / "LICENSE").read_text()
    kept = {str(path.relative_to(suite.root)) for path in suite.root.rglob("*") if path.suffix != ".pyc"}
    assert kept - suite.kept.blobs.keys() <= {"tests", "tests/__pycache__", "tests/conftest.py"}


@each_kept
def test_the_page_says_where_what_is_kept_is_from(suite: upstream.Suite) -> None:
    assert suite.kept is not None
    assert f"<{suite.kept.repository}>, commit `{suite.kept.commit}`, licence {suite.licence}" in LINES


@each_kept
def test_what_is_kept_is_not_fetched(suite: upstream.Suite, served: list[bytes]) -> None:
    upstream.fetch(suite)
    assert served == []  # or it would have been asked for one more


def result(test: str, outcome: str = "passed", steps: int = 1) -> dict[str, Any]:
    return {"test": test, "outcome": outcome, "steps": steps, "replays": 2 * steps}


def suite_of(*left_out: str) -> upstream.Suite:
    left = [upstream.LeftOut("why", list(left_out))] if left_out else []
    return replace(SUITES[0], selected=2 + len(left_out), in_steps=1, prefixes=2, left_out=left, fail_alone=[])


GOOD = [result("a"), result("b", steps=0)]


def test_a_suite_that_comes_to_what_is_written_is_well() -> None:
    assert upstream.judge(suite_of(), GOOD, is_full=False) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([result("a"), result("b", "failed", steps=0)], "b: failed"),
        ([result("a"), result("b", "skipped", steps=0)], "b: skipped"),
        ([result("a")], "1 tests ran and 0 are left out"),
        ([result("a"), result("b")], "2 tests have steps in their journals, and not 1"),
        ([result("a", steps=0), result("b", steps=0)], "0 tests have steps"),
    ],
)
def test_a_suite_that_does_not_is_not(found: list[dict[str, Any]], said: str) -> None:
    assert said in upstream.judge(suite_of(), found, is_full=False)[0]


def test_a_full_run_is_from_each_prefix() -> None:
    assert upstream.judge(suite_of(), GOOD, is_full=True) == []
    five = [{**each, "replays": 0} for each in GOOD]
    assert upstream.judge(suite_of(), five, is_full=False) == []
    assert upstream.judge(suite_of(), five, is_full=True) == ["the tests ran again from 0 prefixes, and not 2"]


def test_a_suite_of_which_much_is_left_out_is_not() -> None:
    assert "less than 90% of what is selected runs" in upstream.judge(suite_of("c"), GOOD, is_full=False)


def test_what_is_left_out_and_passes_has_to_come_back() -> None:
    wrong = upstream.judge(suite_of("c"), [*GOOD, result("c")], is_full=True)
    assert "c is left out, but passes" in wrong
    still = upstream.judge(suite_of("c"), [*GOOD, result("c", "failed")], is_full=True)
    assert not any("c is" in each or "prefixes" in each for each in still)


def test_what_is_said_to_fail_without_a_turn_and_passes_has_to_come_back() -> None:
    suite = replace(suite_of(), fail_alone=[upstream.LeftOut("why", ["c"])])
    assert upstream.judge(suite, GOOD, is_full=False) == []
    assert upstream.judge(suite, [*GOOD, result("c", "failed", steps=0)], is_full=True) == []
    wrong = upstream.judge(suite, [*GOOD, result("c", steps=0)], is_full=True)
    assert wrong == ["c is said to fail without a turn, but passes"]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What pip gets from the index, one thing after the other."""
    given: list[bytes] = []
    monkeypatch.setattr(upstream, "UNPACKED", tmp_path)
    archive = tmp_path / SUITES[0].archive
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: archive.write_bytes(given.pop(0)))
    return given


def packed(root: Path, suite: upstream.Suite, name: str = "test_it.py") -> bytes:
    """An archive with one test."""
    test = root / "test_it.py"
    test.write_text("def test_it(): ...")
    with tarfile.open(root / "packed", "w:gz") as archive:
        archive.add(test, f"{suite.root.name}/tests/{name}")
    return (root / "packed").read_bytes()


def test_what_is_left_of_a_download_that_broke_off_is_fetched_anew(served: list[bytes], tmp_path: Path) -> None:
    whole = packed(tmp_path, SUITES[0])
    suite = replace(SUITES[0], sha256=hashlib.sha256(whole).hexdigest())
    (tmp_path / suite.archive).write_bytes(whole[:10])
    served.append(whole)
    upstream.fetch(suite)
    assert (suite.root / "tests" / "test_it.py").exists()
    # And what is whole is not.
    upstream.fetch(suite)


def test_what_has_another_sum_is_refused_and_not_kept(served: list[bytes], tmp_path: Path) -> None:
    served.append(b"another")
    with pytest.raises(SystemExit, match=f"{SUITES[0].archive} came with the sum"):
        upstream.fetch(SUITES[0])
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_written_elsewhere_is_refused(served: list[bytes], tmp_path: Path) -> None:
    archive = packed(tmp_path, SUITES[0], "../../../elsewhere.py")
    served.append(archive)
    with pytest.raises(SystemExit, match="has a file outside of itself"):
        upstream.fetch(replace(SUITES[0], sha256=hashlib.sha256(archive).hexdigest()))
    assert not (tmp_path.parent / "elsewhere.py").exists()
