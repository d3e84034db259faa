"""Cargo.toml: the package as the tests use it and the tests of the core are built over the same crates, each once.

Cargo builds a crate anew wherever its features differ, and with it all that depends on it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def features(*options: str) -> dict[str, str]:
    """The features of each crate of a build, by name and version."""
    command = ["cargo", "tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return dict(line.removesuffix(" (*)").split("|") for line in listed.splitlines())


def test_what_tests_are_built_with_changes_no_crate_of_the_package() -> None:
    package = features("--edges", "normal,build", "--features", "failpoints")
    tests = features("--edges", "normal,build,dev", "--no-default-features", "--features", "failpoints")
    shared = {name for name in package.keys() & tests.keys() if not name.startswith("hitl ")}
    assert len(shared) > 100
    assert {name: (package[name], tests[name]) for name in shared if package[name] != tests[name]} == {}


def test_the_lints_of_the_package_as_released_look_at_the_crates_of_the_tests() -> None:
    released = features("--edges", "normal,build", "--features", "shared-crates")
    tested = features("--edges", "normal,build", "--features", "failpoints")
    assert {name for name in released.keys() | tested.keys() if released.get(name) != tested.get(name)} == {
        name for name in released if name.startswith("hitl ")
    }
