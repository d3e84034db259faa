"""Which Pythons `make test-pythons` finds on a machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import other_pythons


def put(path: Path, says: str, code: int = 0) -> Path:
    """Something that is called like a Python, and what it says of itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing on PATH but `bin`, and nothing under pyenv but `pyenv`."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(sys, "version_info", (3, 11, 7, "final", 0))
    return tmp_path


def found() -> dict[str, tuple[Path, str]]:
    return other_pythons.interpreters()


def test_a_machine_without_others_has_none(machine: Path) -> None:
    put(machine / "bin" / "python3.11", "3 11 7 0")
    assert found() == {}


def test_they_are_on_path_or_under_pyenv(machine: Path) -> None:
    on_path = put(machine / "bin" / "python3.12", "3 12 4 0")
    under_pyenv = put(machine / "pyenv" / "versions" / "3.13.0" / "bin" / "python", "3 13 0 0")
    assert found() == {"3.12": (on_path, "3.12.4"), "3.13": (under_pyenv, "3.13.0")}


def test_a_command_of_pyenv_that_refuses_to_start_hides_nothing(machine: Path) -> None:
    put(machine / "bin" / "python3.13", "pyenv: python3.13: command not found", code=127)
    real = put(machine / "pyenv" / "versions" / "3.13.0" / "bin" / "python", "3 13 0 0")
    assert found() == {"3.13": (real, "3.13.0")}


def test_of_one_minor_version_the_newest_is_taken(machine: Path) -> None:
    put(machine / "bin" / "python3.12", "3 12 4 0")
    newest = put(machine / "pyenv" / "versions" / "3.12.10" / "bin" / "python", "3 12 10 0")
    assert found() == {"3.12": (newest, "3.12.10")}


def test_older_ones_and_free_threaded_builds_are_left_out(machine: Path) -> None:
    put(machine / "pyenv" / "versions" / "3.10.13" / "bin" / "python", "3 10 13 0")
    put(machine / "pyenv" / "versions" / "3.13.0t" / "bin" / "python", "3 13 0 1")
    assert found() == {}


def test_pyenv_itself_is_asked_where_its_versions_are(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYENV_ROOT")
    put(machine / "bin" / "pyenv", str(machine / "elsewhere"))
    assert other_pythons.pyenv_root() == machine / "elsewhere"


def test_they_are_a_part_of_what_has_to_pass_before_a_merge() -> None:
    ci = (other_pythons.ROOT / ".ci" / "run").read_text()
    assert any(line.startswith("make test ") for line in ci.splitlines())
    rules = (other_pythons.ROOT / "Makefile").read_text().splitlines()
    (test,) = [line for line in rules if line.startswith("test:")]
    assert "others" in test.partition("##")[0].split()
    (others,) = [rules[at + 1] for at, line in enumerate(rules) if line.startswith("others:")]
    assert "test-pythons" in others.split()


def test_environments_are_made_beside_other_work_before_their_tests(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = put(machine / "bin" / "python3.13", "3 13 0 0")
    made: list[tuple[str, Path]] = []
    monkeypatch.setattr(other_pythons, "environment_of", lambda *which: made.append(which))
    monkeypatch.setattr(other_pythons, "passes", None)
    assert other_pythons.main(["--install"]) == 0
    assert made == [("3.13", interpreter)]
