"""Standard output and errors that are full, closed, or that nobody reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hitl
from tests.python.support.served import ROOT, clean_environment

FULL = Path("/dev/full")
STORE = ("--store", "hitl.db")
COMMANDS = [
    ("--help",),
    ("sessions", "list", *STORE),
    ("audit", "export", *STORE),
    ("replay-check", "agents:agent", *STORE),
]
AGENT = """
import hitl

@hitl.agent
async def agent(message: hitl.ChatMessage, state: list[hitl.ChatMessage]) -> str:
    return "x"
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent, and a store with a session and a row in its audit."""
    path = tmp_path_factory.mktemp("streams")
    (path / "agents.py").write_text(AGENT)

    @hitl.agent
    async def agent(message: hitl.ChatMessage, state: list[hitl.ChatMessage]) -> str:
        return "x"

    hitl.run_sync(agent, "hi", store=str(path / "hitl.db"))
    made = run(path, "keys", "create", "ann", "--scope", "read", "--store", "hitl.db")
    assert made.returncode == 0, made.stderr
    return path


def run(
    directory: Path, *arguments: str, redirect: str = "", stdout: int = subprocess.PIPE, unbuffered: bool = False
) -> subprocess.CompletedProcess[str]:
    """`hitl` in a process of its own, its output led elsewhere."""
    environment = clean_environment() | {"PYTHONPATH": str(ROOT / "python")}
    environment.pop("PYTHONUNBUFFERED", None)
    if unbuffered:
        environment["PYTHONUNBUFFERED"] = "1"
    command = [sys.executable, "-m", "hitl", *arguments]
    if redirect:
        command = ["sh", "-c", f'exec "$@" {redirect}', "sh", *command]
    return subprocess.run(
        command,
        check=False,
        cwd=directory,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"), [*((arguments, False) for arguments in COMMANDS), (("sessions", "list", *STORE), True)]
)
def test_a_full_disk_is_told_in_one_sentence(directory: Path, arguments: tuple[str, ...], unbuffered: bool) -> None:
    ended = run(directory, *arguments, redirect=f">{FULL}", unbuffered=unbuffered)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: standard output cannot be written: No space left on device\n\nhint: "), (
        ended.stderr
    )
    assert ended.stderr.count("\n") == 3


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_failure_that_cannot_be_told_keeps_its_exit_code(directory: Path) -> None:
    assert run(directory, "sessions", "list", "--store", "none.db", redirect=f"2>{FULL}").returncode == 2


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_nothing_is_said_where_nobody_reads(directory: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = run(directory, *arguments, stdout=writer)
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_does_its_work_where_a_stream_is_closed(
    directory: Path, arguments: tuple[str, ...], closed: str
) -> None:
    ended = run(directory, *arguments, redirect=closed)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc")
def test_nothing_takes_the_place_of_a_closed_stream() -> None:
    """What a library of C prints would go into it."""
    looks = (
        "import os, sys; from hitl.cli import streams; streams.open_closed_streams();"
        "sys.exit(0 if os.readlink('/proc/self/fd/1') == os.devnull and os.get_inheritable(1) else 1)"
    )
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", looks],
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )
    assert ended.returncode == 0
