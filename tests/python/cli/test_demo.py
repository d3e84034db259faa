"""`hitl demo`: what it serves, and what it prints.

That it does so without a checkout is tested where it is installed: tests/python/project/test_wheel.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hitl.cli import demo
from hitl.serving.options import ServeOptions
from hitl.worker.loading import load_agent
from tests.python.cli.conftest import Run


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeOptions]:
    """What would be served, and is not."""
    options: list[ServeOptions] = []
    monkeypatch.setattr(demo, "_serve", lambda example, given, gone: options.append(given) or print(gone) or 0)
    return options


@pytest.mark.parametrize("name", demo.EXAMPLES)
def test_each_example_is_there(name: str) -> None:
    assert load_agent(demo.EXAMPLES[name].agent)


def test_by_default_it_is_the_one_of_the_readme_on_the_port_of_the_readme(
    hitl: Run, served: list[ServeOptions]
) -> None:
    assert hitl("demo").returncode == 0
    assert [(one.agent, one.host, one.port) for one in served] == [
        ("hitl.examples.file_agent:agent", "127.0.0.1", 8000)
    ]


def test_no_example_meets_what_another_has_left_open(hitl: Run, served: list[ServeOptions]) -> None:
    for name in demo.EXAMPLES:
        hitl("demo", name)
    assert len({one.store for one in served}) == len(demo.EXAMPLES)
    assert ServeOptions(agent="m:a").store not in {one.store for one in served}


def test_the_files_are_there_before_anybody_has_talked_to_it(
    hitl: Run, served: list[ServeOptions], tmp_path: Path
) -> None:
    assert hitl("demo").returncode == 0
    assert (tmp_path / "demo_files/old_logs.txt").is_file()
    (tmp_path / "demo_files/old_logs.txt").unlink()
    again = hitl("demo")
    assert (again.returncode, "old_logs.txt. Remove that directory" in " ".join(again.stdout.split())) == (0, True)
    assert not (tmp_path / "demo_files/old_logs.txt").exists()
    refused = hitl("demo", HITL_FILES="/proc/nowhere/files")
    assert (refused.returncode, "cannot make the files" in refused.stderr) == (1, True)


def test_it_spends_nobodys_money(hitl: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    monkeypatch.setattr(demo, "_serve", lambda example, options, gone: seen.append(set(os.environ)) or 0)
    hitl("demo", OPENAI_API_KEY="sk-mine", OPENROUTER_API_KEY="sk-mine", HITL_FILES="elsewhere")
    assert [set(demo.KEYS) & there for there in seen] == [set()]
    assert "HITL_FILES" in seen[0]


@pytest.mark.parametrize(
    ("arguments", "message"), [(["fles"], "'fles' is not one of"), (["--port", "70000"], "--port: 70000 is no port")]
)
def test_what_is_not_there_is_refused_and_nothing_is_made(
    hitl: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    finished = hitl("demo", *arguments)
    assert finished.returncode == 2
    assert message in finished.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment with `hitl` in it, which is not activated; the directory of its commands."""
    commands = tmp_path / "environment" / "bin"
    commands.mkdir(parents=True)
    (commands / "hitl").touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(commands.parent))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return commands


def said(name: str = "files") -> str:
    return demo.what_next(demo.EXAMPLES[name], "http://127.0.0.1:8000")


def test_it_says_what_can_be_done_next_with_a_command_that_is_found(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said().startswith("hitl.examples.file_agent:agent is served on http://127.0.0.1:8000\n")
    assert f"\n    {installed}/hitl chat http://127.0.0.1:8000\n" in said()
    assert "delete the old logs file" in said()
    monkeypatch.chdir(installed.parent)
    assert "\n    bin/hitl chat http://127.0.0.1:8000\n" in said()
    monkeypatch.setattr(sys, "base_prefix", str(installed.parent))
    assert "\n    hitl chat http://127.0.0.1:8000\n" in said()


def test_its_name_will_do_where_that_is_found_to_be_this_one(
    installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "hitl").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{installed}")
    assert demo.this_command() == f"{installed}/hitl"
    monkeypatch.setenv("PATH", str(installed))
    assert "second terminal:\n\n    hitl chat " in said()
    (other / "hitl").unlink()
    (other / "hitl").symlink_to(installed / "hitl")
    monkeypatch.setenv("PATH", str(other))
    assert demo.this_command() == "hitl"
    monkeypatch.setenv("VIRTUAL_ENV", str(installed.parent))
    assert "second terminal (activate the environment there too):\n\n    hitl chat " in said()


@pytest.mark.parametrize("name", demo.EXAMPLES)
def test_no_terminal_of_80_columns_breaks_a_line_and_no_command_is_broken(installed: Path, name: str) -> None:
    lines = said(name).splitlines()
    commands = [f"    {installed}/hitl chat http://127.0.0.1:8000", f"    {installed}/hitl init DIR"]
    assert [line for line in lines if line.startswith("    ")] == commands
    assert [line for line in lines if line not in commands and len(line) > 80] == []
