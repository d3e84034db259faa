"""`hitl init`: what it writes, what it refuses, and what tools of others say about it.

That its test passes and its server runs is tested where it is installed: tests/python/project/test_wheel.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose
from packaging.requirements import Requirement
from packaging.version import Version

from hitl import __version__, _core
from tests.python.cli.conftest import Run

FILES = [
    ".gitignore",
    "Dockerfile",
    "README.md",
    "agent.py",
    "compose.yaml",
    "offline.py",
    "policy.toml",
    "requirements.txt",
    "test_agent.py",
]
ROOT = Path(__file__).resolve().parents[3]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def project(hitl: Run, tmp_path: Path) -> Path:
    assert hitl("init", "mine").returncode == 0
    return tmp_path / "mine"


def test_it_writes_a_project_and_says_what_to_do_next(hitl: Run, tmp_path: Path) -> None:
    finished = hitl("init", "some/where")
    assert names(tmp_path / "some" / "where") == FILES
    written = [line.strip() for line in finished.stdout.splitlines() if line.startswith("  some")]
    assert written == [f"some/where/{name}" for name in FILES]
    assert "    cd some/where\n    pip install -r requirements.txt\n    pytest\n" in finished.stdout


def test_what_its_policy_lets_run_has_two_ends(project: Path) -> None:
    policy = (project / "policy.toml").read_text()

    def decided(euros: int) -> str | None:
        looks = _core.try_policy(policy, "refund", {"order": "A-1", "euros": euros})
        return next((look["effect"] for look in looks if look["look"] == "decides"), None)

    found = {euros: decided(euros) for euros in (-100_000, -1, 0, 1, 9, 10, 1000, 1001)}
    assert found == {-100_000: None, -1: None, 0: None, 1: "allow", 9: "allow", 10: None, 1000: None, 1001: "deny"}


@pytest.mark.parametrize(
    ("variables", "url"),
    [({}, "http://127.0.0.1:8000"), ({"HITL_HOST": "0.0.0.0", "HITL_PORT": "9000"}, "http://127.0.0.1:9000")],
)
def test_it_names_the_port_that_its_server_will_have(hitl: Run, variables: dict[str, str], url: str) -> None:
    assert f"\n    hitl chat {url}\n\nwhere you write: refund A-1 40\n" in hitl("init", **variables).stdout


def test_a_port_that_is_not_known_before_is_not_named(hitl: Run) -> None:
    said = hitl("init", HITL_PORT="0").stdout
    assert "\n    hitl chat URL\n\nwith the URL that the server prints, where you write" in said


def test_without_a_name_it_writes_where_one_stands_beside_what_is_there(hitl: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    finished = hitl("init")
    assert names(tmp_path) == sorted([*FILES, "notes.txt"])
    assert "    cd " not in finished.stdout


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text("mine"),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("nowhere"),
    ],
    ids=["a file", "a directory", "a link to nothing"],
)
def test_it_overwrites_nothing_and_then_writes_nothing(
    hitl: Run, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    (tmp_path / "mine").mkdir()
    make(tmp_path / "mine" / "policy.toml")
    finished = hitl("init", "mine")
    assert finished.returncode == 2
    assert finished.stderr.startswith(f"error: policy.toml is in {tmp_path / 'mine'} already; nothing was written")
    assert "hint: name a directory that is new" in finished.stderr
    assert names(tmp_path / "mine") == ["policy.toml"]


def test_a_second_time_is_refused(hitl: Run, project: Path) -> None:
    (project / "agent.py").write_text("# changed\n")
    assert hitl("init", "mine").returncode == 2
    assert (project / "agent.py").read_text() == "# changed\n"


def test_a_file_in_the_place_of_the_directory_is_refused(hitl: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    finished = hitl("init", "mine")
    assert (finished.returncode, finished.stderr.splitlines()[0]) == (2, "error: mine is there, and no directory")
    assert (tmp_path / "mine").read_text() == "mine"


def test_what_cannot_be_written_is_told(hitl: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    finished = hitl("init", "file/below")
    assert finished.returncode == 1
    assert finished.stderr.startswith("error: cannot write file/below: Not a directory")


def test_it_asks_for_this_version_and_no_later_minor_one(project: Path) -> None:
    (line,) = [line for line in (project / "requirements.txt").read_text().splitlines() if line[0] != "#"]
    asked = Requirement(line)
    assert (asked.name, asked.extras) == ("hitl-runtime", {"openai", "test"})
    version = Version(__version__)
    assert asked.specifier.contains(version)
    assert not asked.specifier.contains(f"{version.major}.{version.minor + 1}.0")


def test_its_container_has_a_tested_python_and_all_that_the_agent_is(project: Path) -> None:
    dockerfile = (project / "Dockerfile").read_text()
    assert dockerfile.startswith(f"FROM python:{_core.PYTHONS[-1]}-slim\n")
    modules = {path.name for path in project.glob("*.py")} - {"test_agent.py"}
    assert f"COPY {' '.join(sorted(modules))} policy.toml ./" in dockerfile
    found = subprocess.run(
        [Path(sys.executable).parent / "hadolint", project / "Dockerfile"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == 0, found.stdout


def test_its_compose_file_is_one_and_asks_for_a_key(project: Path) -> None:
    compose = yaml.safe_load((project / "compose.yaml").read_text())
    PyCompose.from_json(json.dumps(compose))
    service = compose["services"]["hitl"]
    assert service["environment"]["HITL_API_KEY"].startswith("${HITL_API_KEY:?")
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert service["environment"]["HITL_STORE"].startswith("sqlite:/data/")


def test_the_key_that_it_says_to_make_is_there_for_clients_too(project: Path) -> None:
    """One that is made in front of a command is known to that alone."""
    for name in ("README.md", "compose.yaml"):
        (made,) = [line for line in (project / name).read_text().splitlines() if "=$(openssl" in line]
        assert made.lstrip("# ") == "export HITL_API_KEY=$(openssl rand -hex 32)"


def test_its_policy_says_what_its_test_expects(hitl: Run, project: Path) -> None:
    policy = str(project / "policy.toml")
    for euros, effect in ((5, "allow"), (40, None), (2000, "deny")):
        call = json.dumps({"order": "A-1", "euros": euros})
        assert json.loads(hitl("policy", "test", "refund", call, "--policy", policy).stdout)["effect"] == effect


def test_linters_have_nothing_to_say(project: Path) -> None:
    """Nor have type checkers: tests/python/typed/test_types.py."""
    for command in (["check", "--select", "E,F,I,B,UP,SIM"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "120", "."],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
