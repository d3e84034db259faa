from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hitl.cli.app import run
from tests.python.cli.terminal import Terminal
from tests.python.client.conftest import scripted_agent
from tests.python.client.fake_server import Agent, FakeServer


@pytest.fixture
def serve() -> Iterator[Callable[[Agent], FakeServer]]:
    """Serves an agent until the test ends."""
    with ExitStack() as servers:
        yield lambda agent: servers.enter_context(FakeServer(agent))


@pytest.fixture
def server(serve: Callable[[Agent], FakeServer]) -> FakeServer:
    return serve(scripted_agent)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Opens `hitl` on a pseudo-terminal that is closed when the test ends."""
    with ExitStack() as terminals:
        yield lambda *arguments, **options: terminals.enter_context(Terminal(*arguments, **options))


@dataclass(frozen=True)
class Finished:
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Finished]


@pytest.fixture
def hitl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `hitl` without a terminal, in an empty directory, to its end. In this process, which saves its start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run_command(*arguments: str, stdin: str | bytes = "", **variables: str) -> Finished:
        with monkeypatch.context() as patch:
            given = stdin if isinstance(stdin, bytes) else stdin.encode()
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
            for name in [name for name in os.environ if name.startswith("HITL_")]:
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            capsys.readouterr()
            code = run(list(arguments))
        return Finished(code, *capsys.readouterr())

    return run_command
