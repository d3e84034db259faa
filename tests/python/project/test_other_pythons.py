"""Which Pythons `make test-pythons` finds on a machine."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

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


def package(folder: Path, name: str, tag: str, *files: str) -> Distribution:
    """An installed package, and what its wheel was for."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file)
    named = [*files, f"{info.name}/METADATA", f"{info.name}/WHEEL"]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in named))
    return Distribution.at(info)


@pytest.mark.parametrize(
    ("tag", "anywhere"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-manylinux_2_17_x86_64", True),
        ("cp39-abi3-manylinux_2_17_x86_64", True),
        ("cp311-cp311-manylinux_2_17_x86_64", False),
        ("cp311-none-any", False),
    ],
)
def test_what_is_built_for_one_python_is_taken_to_no_other(tmp_path: Path, tag: str, anywhere: bool) -> None:
    assert other_pythons.runs_anywhere(package(tmp_path, "some", tag)) is anywhere


def test_what_any_python_runs_is_copied_without_bytecode_and_scripts(tmp_path: Path) -> None:
    files = ("some/__init__.py", "some/py.typed", "some/__pycache__/__init__.cpython-311.pyc", "../bin/some")
    here, there = tmp_path / "here" / "site", tmp_path / "there" / "site"
    other_pythons.copy(package(here, "some", "py3-none-any", *files), there)
    copied = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    kept = {"some/__init__.py", "some/py.typed", "some-1.dist-info/METADATA", "some-1.dist-info/WHEEL"}
    assert copied == kept
    assert not (there.parent / "bin").exists()


def test_what_packages_need_on_another_python_is_taken_from_here_as_far_as_it_is_here() -> None:
    here, missing = other_pythons.needed(["pydantic==2", "pytest-xdist==3", "of-nobody==1"], "3.13")
    names = {canonicalize_name(each.name) for each in here}
    assert {"pydantic", "pydantic-core", "typing-extensions", "pytest", "execnet"} <= names
    built = {canonicalize_name(each.name) for each in here if not other_pythons.runs_anywhere(each)}
    assert "pydantic-core" in built
    assert not {"pydantic", "pytest"} & built
    assert missing == ["of-nobody==1"]


def test_what_is_for_older_pythons_or_for_an_extra_alone_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        name = "only-here"
        requires = ("packaging; python_version < '3.12'", "execnet; extra == 'more'")

    real = other_pythons.distribution
    monkeypatch.setattr(other_pythons, "distribution", lambda name: Here() if name == "only-here" else real(name))

    def needed(wanted: str, minor: str) -> set[str]:
        return {each.name for each in other_pythons.needed([wanted], minor)[0]}

    assert needed("only-here", "3.11") == {"only-here", "packaging"}
    assert needed("only-here", "3.12") == {"only-here"}
    assert needed("only-here[more]", "3.12") == {"only-here", "execnet"}
