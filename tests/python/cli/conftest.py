from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.python.cli.terminal import Terminal, environment
from tests.python.client.conftest import scripted_agent
from tests.python.client.fake_server import Agent, FakeServer

Run = Callable[..., subprocess.CompletedProcess[str]]


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
        yield lambda *arguments, **variables: terminals.enter_context(Terminal(*arguments, **variables))


@pytest.fixture
def hitl(tmp_path: Path) -> Run:
    """Runs `hitl` without a terminal, in an empty directory, to its end."""

    def run(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hitl", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **variables),
            timeout=50,
            check=False,
        )

    return run
