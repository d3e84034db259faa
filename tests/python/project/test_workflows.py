"""The workflow files, which nothing here can run: what linters and the schema of workflows say of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WHEELS: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())
VERSION: str = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
COMMANDS = Path(sys.executable).parent


def lint(path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMANDS / command[0], *command[1:], path], capture_output=True, text=True, timeout=200, check=False
    )


SCHEMA = ("check-jsonschema", "--builtin-schema", "vendor.github-workflows")
SECURITY = ("zizmor", "--offline", "--no-progress", "--no-config")


@pytest.mark.parametrize("linter", [SCHEMA, SECURITY], ids=["schema", "security"])
def test_linters_have_nothing_to_say(linter: tuple[str, ...]) -> None:
    for path in WORKFLOWS:
        done = lint(path, *linter)
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_wrong_would_be_told(tmp_path: Path) -> None:
    text = (ROOT / ".github/workflows/wheels.yml").read_text()
    (tmp_path / "misspelt.yml").write_text(text.replace("runs-on:", "run-on:", 1))
    assert "run-on" in lint(tmp_path / "misspelt.yml", *SCHEMA).stdout
    (tmp_path / "unpinned.yml").write_text(re.sub(r"checkout@\w+ # \S+", "checkout@main", text, count=1))
    assert "unpinned-uses" in lint(tmp_path / "unpinned.yml", *SECURITY).stdout


def test_every_action_is_pinned_by_its_commit_and_says_its_version() -> None:
    for path in WORKFLOWS:
        used = [line.partition("uses: ")[2] for line in path.read_text().splitlines() if "uses: " in line]
        assert used
        assert [use for use in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)] == []


def test_every_target_of_make_that_it_names_is_there() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = [step["run"] for job in WHEELS["jobs"].values() for step in job["steps"] if "run" in step]
    named = {word for run in runs if run.startswith("make ") for word in re.findall(r"^make ([\w-]+)", run)}
    assert named == {"wheel", "try-wheel", "sdist", "try-sdist"}
    assert named <= targets


def test_only_the_upload_may_prove_who_it_is_and_it_waits_for_everything() -> None:
    """There is no token: the index trusts this workflow, in this environment."""
    assert WHEELS["permissions"] == {}
    jobs = WHEELS["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job["permissions"]] == ["publish"]
    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish"}
    assert jobs["publish"]["environment"] == "pypi"
    assert "secrets." not in (ROOT / ".github/workflows/wheels.yml").read_text()
    for job in jobs.values():
        assert job["permissions"].keys() <= {"contents", "id-token", "attestations"}
        assert job["permissions"].get("contents", "read") == "read"


@pytest.mark.parametrize(("tag", "code"), [(f"v{VERSION}", 0), ("v0.0.0", 1), (VERSION, 1), (f"v{VERSION}.post1", 1)])
def test_a_tag_that_is_not_the_version_uploads_nothing(tag: str, code: int) -> None:
    (step,) = [step for step in WHEELS["jobs"]["version"]["steps"] if "run" in step]
    assert (step["if"], step["env"]) == ("github.ref_type == 'tag'", {"TAG": "${{ github.ref_name }}"})
    command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"TAG": tag}, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("::error::" in done.stdout) is (code != 0)


def test_it_builds_for_what_the_page_says() -> None:
    page = (ROOT / "docs" / "installing.md").read_text()
    for job in ("linux", "macos"):
        for built in WHEELS["jobs"][job]["strategy"]["matrix"]["include"]:
            assert f"`{built['target']}`" in page, built
