"""`deploy/Dockerfile`."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.python.deploy.deployed import DEPLOY
from tests.python.support.served import ROOT

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HADOLINT = Path(sys.executable).parent / "hadolint"


def instructions(name: str, *, stage: int) -> list[str]:
    """The arguments of each instruction of that name."""
    lines = DOCKERFILE.split("\nFROM ")[stage].replace("\\\n", " ").splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(f"{name} ")]


def sources() -> list[str]:
    """What the stage that builds takes from the repository."""
    copied = [line.split() for line in instructions("COPY", stage=2) if not line.startswith("--from")]
    return [source for *found, _ in copied for source in found]


def lint(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HADOLINT, *arguments], input=text, capture_output=True, text=True, timeout=100, check=False)


def test_it_has_no_findings() -> None:
    found = lint(str(DEPLOY / "Dockerfile"))
    assert found.returncode == 0, found.stdout


def test_a_finding_would_be_told() -> None:
    assert "DL3007" in lint("-", text="FROM python:latest\n").stdout


def test_it_starts_a_server_that_is_not_root() -> None:
    assert [json.loads(line) for line in instructions("ENTRYPOINT", stage=3)] == [["hitl"]]
    assert [json.loads(line) for line in instructions("CMD", stage=3)] == [["serve"]]
    assert instructions("USER", stage=3) == ["10001:10001"]
    (variables,) = instructions("ENV", stage=3)
    assert {"HITL_HOST=0.0.0.0", "HITL_PORT=8000"} <= set(variables.split())
    assert instructions("EXPOSE", stage=3) == ["8000"]


@pytest.mark.parametrize("source", sources())
def test_what_it_takes_is_there_and_not_ignored(source: str) -> None:
    ignored = [line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] != "#"]
    assert (ROOT / source).exists()
    assert ignored[0] == "*"
    assert any(fnmatch(source, line[1:]) for line in ignored if line.startswith("!"))


def test_it_takes_what_a_source_distribution_holds() -> None:
    """Of which another test says that it is what a build needs."""
    needed = {pattern.removeprefix("/").removesuffix("/**") for pattern in CARGO["package"]["include"]}
    needed |= {one["path"] for one in PROJECT["tool"]["maturin"]["include"]}
    assert needed | {"pyproject.toml", PROJECT["tool"]["maturin"]["python-source"]} <= set(sources())


def test_the_compiler_and_the_python_are_those_that_the_project_wants() -> None:
    from hitl import _core

    bases = [line.split()[0] for line in DOCKERFILE.split("\nFROM ")[1:]]
    assert bases[0] == f"rust:{CARGO['package']['rust-version']}-slim-bookworm"
    assert bases[1:] == [f"python:{_core.PYTHONS[-1]}-bookworm", f"python:{_core.PYTHONS[-1]}-slim-bookworm"]
