"""Other frameworks' own tests, inside of turns: `python -m tools.upstream [framework...]`, or `make test-upstream`.
`--install` fetches what they need, and runs nothing.

tests/upstream/suites.toml says which tests of which sdist, and which of them are left out and why. The sdists are
fetched with pip into target/upstream, once, and have to have the sum that is written there; of each only its tests
are unpacked. They run by `tests/upstream/inturns`, from five prefixes of a journal, or HITL_UPSTREAM_PREFIXES;
with HITL_TEST_FULL=1 all of them, and those that are left out as well: one that passes is no longer to be left out.
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
KEPT = ROOT / "target" / "upstream"
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
class Suite:
    """The tests of a framework."""

    name: str
    """Of the module in `inturns` that knows the framework."""
    title: str
    requirement: str
    archive: str
    sha256: str
    licence: str
    files: list[str]
    with_conftest: bool
    selected: int
    """How many tests the files have."""
    in_steps: int
    """How many of those that run have steps of their turn in their journal. The others need no framework's loop."""
    left_out: list[LeftOut]

    @property
    def left(self) -> int:
        """How many tests are left out."""
        return sum(len(each.tests) for each in self.left_out)

    @property
    def root(self) -> Path:
        """The folder that the archive has in it."""
        return KEPT / self.archive.removesuffix(".tar.gz")


def suites() -> list[Suite]:
    """What suites.toml says."""
    found: dict[str, Any] = tomllib.loads((HERE / "suites.toml").read_text())
    return [
        Suite(name=name, **{**said, "left_out": [LeftOut(**each) for each in said.get("left_out", ())]})
        for name, said in found.items()
    ]


def sum_of(archive: Path) -> str | None:
    """Of a file; None where there is none."""
    return hashlib.sha256(archive.read_bytes()).hexdigest() if archive.exists() else None


def fetch(suite: Suite) -> None:
    """Have the suite's tests in its folder."""
    stamp = suite.root / ".unpacked"
    if stamp.exists() and stamp.read_text() == suite.sha256:
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    archive = KEPT / suite.archive
    if sum_of(archive) != suite.sha256:
        # What is left of a download that broke off is not taken for what was meant.
        archive.unlink(missing_ok=True)
        # By the build tools that are here, for pip reads the metadata of what it fetches by them.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        choice = ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(KEPT), suite.requirement]
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
            target = KEPT / each.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())


def start(suite: Suite, *arguments: str) -> subprocess.Popen[bytes]:
    """Begin to run a suite; its results will be in `target/upstream/<name>.json`."""
    own = groups().get(suite.name)
    python = sys.executable if own is None else str(environment_of(suite.name, own))
    results(suite).unlink(missing_ok=True)
    left = [test for each in suite.left_out for test in each.tests]
    paths = [suite.root, HERE, ROOT / "python"]
    environment = {
        **os.environ,
        "HITL_UPSTREAM_CAMP": suite.name,
        "HITL_UPSTREAM_LEFT_OUT": json.dumps([] if os.environ.get(FULL) else left),
        "HITL_UPSTREAM_RESULTS": str(results(suite)),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # none of ours is for these tests, and each costs time
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONHASHSEED": "0",  # as workers have it
    }
    command = [python, "-m", "pytest", "-q", "-c", str(HERE / "pytest.ini"), "--rootdir", str(suite.root)]
    alone = [] if suite.with_conftest else ["--noconftest"]
    return subprocess.Popen(
        [*command, "-p", "inturns.plugin", *alone, *suite.files, *arguments],
        cwd=suite.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def results(suite: Suite) -> Path:
    """Where what came of a suite's tests is written."""
    return KEPT / f"{suite.name}.json"


def judge(suite: Suite, found: list[dict[str, Any]], *, is_full: bool) -> list[str]:
    """What is wrong with what came of a suite."""
    wrong = []
    left = {test for each in suite.left_out for test in each.tests}
    if is_full:
        passed = [each["test"] for each in found if each["outcome"] == "passed" and each["test"] in left]
        wrong += [f"{test} is left out, but passes" for test in passed]
        found = [each for each in found if each["test"] not in left]
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
        counts = {what: sum(each[what] for each in found) for what in ("steps", "questions", "replays")}
        print(f"{suite.title}: {len(found)} tests in turns, {suite.left} left out, {counts}", flush=True)
        if wrong:
            failed = True
            print(said, *wrong, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
