"""Other frameworks' own tests, inside of turns: `python -m tools.upstream [framework...]`, or `make test-upstream`.
`--install` fetches what they need, and runs nothing.

tests/upstream/suites.toml says which tests of which sdist, and which of them are left out and why. The sdists are
fetched with pip into target/upstream, once, and have to have the sum that is written there; of each only its tests
are unpacked. Where an sdist has no tests, some are kept in tests/upstream, as they are at a commit of a repository.
They run by `tests/upstream/inturns`, from five prefixes of a journal, or HITL_UPSTREAM_PREFIXES; with
HITL_TEST_FULL=1 all of them, from each of which a second crash follows, and those that are left out as well: one that
passes is no longer to be left out. Those that fail without a turn too run without one then, for the same reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.frameworks import environment_of, groups

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "tests" / "upstream"
UNPACKED = ROOT / "target" / "upstream"
FULL = "HITL_TEST_FULL"

LEAST = 0.9
"""How much of what is selected has to pass."""


@dataclass(frozen=True)
class LeftOut:
    """Tests that do not run, and why."""

    why: str
    tests: list[str]
    """Names of tests, parameters included."""


@dataclass(frozen=True)
class Kept:
    """Where tests are from that are in this repository, in the folder of the suite's name beside suites.toml."""

    repository: str
    commit: str
    blobs: dict[str, str]
    """Which of the folder's files are those of the commit, and what git calls the content of each."""


@dataclass(frozen=True)
class Suite:
    """The tests of a framework."""

    name: str
    """Of the module in `inturns` that knows the framework."""
    title: str
    requirement: str
    licence: str
    files: list[str]
    with_conftest: bool
    selected: int
    """How many tests the files have."""
    in_steps: int
    """How many of those that run have steps of their turn in their journal. The others need no framework's loop."""
    prefixes: int
    """From how many prefixes of their journals these run again, in all, with HITL_TEST_FULL=1."""
    left_out: list[LeftOut]
    fail_alone: list[LeftOut]
    """Those that the files have besides: they fail without a turn too, with the release that is tested here."""
    archive: str = ""
    """The sdist that has the tests; of tests that are kept here there is none."""
    sha256: str = ""
    kept: Kept | None = None

    @property
    def left(self) -> int:
        """How many tests are left out."""
        return len(names_of(self.left_out))

    @property
    def root(self) -> Path:
        """The folder that the tests are in: the archive's own, or that which is kept."""
        return HERE / self.name if self.kept is not None else UNPACKED / self.archive.removesuffix(".tar.gz")


def names_of(lists: list[LeftOut]) -> list[str]:
    """The tests that are named there."""
    return [test for each in lists for test in each.tests]


def suites() -> list[Suite]:
    """What suites.toml says."""
    found: dict[str, Any] = tomllib.loads((HERE / "suites.toml").read_text())
    return [_suite(name, **said) for name, said in found.items()]


def _suite(name: str, **said: Any) -> Suite:
    lists = {each: [LeftOut(**one) for one in said.pop(each, ())] for each in ("left_out", "fail_alone")}
    kept = said.pop("kept", None)
    return Suite(name=name, **said, **lists, kept=None if kept is None else Kept(**kept))


def sum_of(archive: Path) -> str | None:
    """Of a file; None where there is none."""
    return hashlib.sha256(archive.read_bytes()).hexdigest() if archive.exists() else None


def fetch(suite: Suite) -> None:
    """Have the suite's tests in its folder."""
    if suite.kept is not None:
        return
    stamp = suite.root / ".unpacked"
    if stamp.exists() and stamp.read_text() == suite.sha256:
        return
    UNPACKED.mkdir(parents=True, exist_ok=True)
    archive = UNPACKED / suite.archive
    if sum_of(archive) != suite.sha256:
        # What is left of a download that broke off is not taken for what was meant.
        archive.unlink(missing_ok=True)
        # By the build tools that are here, for pip reads the metadata of what it fetches by them.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        choice = ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(UNPACKED), suite.requirement]
        subprocess.run([*command, *choice], check=True)
    if (found := sum_of(archive)) != suite.sha256:
        archive.unlink(missing_ok=True)
        raise SystemExit(
            f"{suite.archive} came with the sum {found}, and not {suite.sha256}: it is not what was looked at"
        )
    _unpack(archive, f"{suite.root.name}/tests/")
    stamp.write_text(suite.sha256)


def _unpack(archive: Path, begin: str) -> None:
    """The files whose names begin so. Not by ``extractall(filter=...)``, which Python 3.11 has from 3.11.4 on."""
    with tarfile.open(archive) as opened:
        for each in opened:
            content = opened.extractfile(each) if each.isfile() and each.name.startswith(begin) else None
            if content is None:
                continue
            if ".." in Path(each.name).parts:
                raise SystemExit(f"{archive.name} has a file outside of itself: {each.name!r}")
            target = UNPACKED / each.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())


def start(suite: Suite, *arguments: str) -> subprocess.Popen[bytes]:
    """Begin to run a suite; its results will be in `target/upstream/<name>.json`."""
    own = groups().get(suite.name)
    python = sys.executable if own is None else str(environment_of(suite.name, own))
    results(suite).unlink(missing_ok=True)
    left, alone = names_of(suite.left_out), names_of(suite.fail_alone)
    is_full = bool(os.environ.get(FULL))
    paths = [suite.root, HERE, ROOT / "python"]
    environment = {
        **os.environ,
        "HITL_UPSTREAM_FRAMEWORK": suite.name,
        "HITL_UPSTREAM_LEFT_OUT": json.dumps([] if is_full else left + alone),
        "HITL_UPSTREAM_ALONE": json.dumps(alone),
        "HITL_UPSTREAM_RESULTS": str(results(suite)),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # none of ours is for these tests, and each costs time
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONHASHSEED": "0",  # as workers have it
    }
    command = [python, "-m", "pytest", "-q", "-c", str(HERE / "pytest.ini"), "--rootdir", str(suite.root)]
    without = [] if suite.with_conftest else ["--noconftest"]
    return subprocess.Popen(
        [*command, "-p", "inturns.plugin", *without, *suite.files, *arguments],
        cwd=suite.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def results(suite: Suite) -> Path:
    """Where what came of a suite's tests is written."""
    return UNPACKED / f"{suite.name}.json"


def in_turns(suite: Suite, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came of those tests that are to pass in turns."""
    others = {*names_of(suite.left_out), *names_of(suite.fail_alone)}
    return [each for each in found if each["test"] not in others]


def judge(suite: Suite, found: list[dict[str, Any]], *, is_full: bool) -> list[str]:
    """What is wrong with what came of a suite."""
    wrong = []
    left, alone = set(names_of(suite.left_out)), set(names_of(suite.fail_alone))
    if is_full:
        passed = {each["test"] for each in found if each["outcome"] == "passed"}
        wrong += [f"{test} is left out, but passes" for test in sorted(passed & left)]
        wrong += [f"{test} is said to fail without a turn, but passes" for test in sorted(passed & alone)]
        found = in_turns(suite, found)
        if (prefixes := sum(each["replays"] for each in found)) != suite.prefixes:
            wrong.append(f"the tests ran again from {prefixes} prefixes, and not {suite.prefixes}")
    if len(found) + len(left) != suite.selected:
        wrong.append(f"{len(found)} tests ran and {len(left)} are left out, which is not the {suite.selected} selected")
    wrong += [f"{each['test']}: {each['outcome']}" for each in found if each["outcome"] != "passed"]
    if (steps := sum(each["steps"] > 0 for each in found)) != suite.in_steps:
        wrong.append(f"{steps} tests have steps in their journals, and not {suite.in_steps}")
    if len(found) < LEAST * suite.selected:
        wrong.append(f"less than {LEAST:.0%} of what is selected runs")
    return wrong


def main(names: list[str]) -> int:
    """Run the suites, all at once; the exit code. With `--install` alone they are fetched, and not run."""
    if is_install := names == ["--install"]:
        names = []
    chosen = [suite for suite in suites() if not names or suite.name in names]
    for suite in chosen:
        fetch(suite)
    if is_install:
        return 0
    failed = False
    for suite, process in [(suite, start(suite)) for suite in chosen]:
        said = process.communicate()[0].decode(errors="replace")
        if not results(suite).exists():
            print(said)
            return 1
        found = json.loads(results(suite).read_text())
        wrong = judge(suite, found, is_full=bool(os.environ.get(FULL)))
        ran = in_turns(suite, found)
        counts = {what: sum(each[what] for each in ran) for what in ("steps", "questions", "replays", "second")}
        print(f"{suite.title}: {len(ran)} tests in turns, {suite.left} left out, {counts}", flush=True)
        if wrong:
            failed = True
            print(said, *wrong, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
