"""A program that a tool starts has standard input, output and error, and nothing else of its worker.

Whoever has the channel of a worker speaks for its turns, also from a sandbox or as another user.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.python.support.api import ok
from tests.python.support.descriptors import WAYS
from tests.python.support.served import ROOT, Served

AGENTS = ["tests.python.support.descriptors:starter", "tests.python.support.descriptors_threaded:starter"]


@pytest.fixture(scope="module", params=AGENTS, ids=["forked", "started"])
def agent(request: pytest.FixtureRequest) -> str:
    """One whose workers are forked, one whose workers import it themselves."""
    name: str = request.param
    return name


@pytest.fixture(scope="module", params=["process", "task"])
def server(request: pytest.FixtureRequest, agent: str) -> Iterator[Served]:
    """A server that itself was started with a descriptor too many."""
    left_open, other = os.pipe()
    try:
        with Served(agent, isolation=request.param, pass_fds=(left_open,)) as server:
            yield server
    finally:
        os.close(left_open)
        os.close(other)


@pytest.mark.parametrize("way", WAYS)
def test_a_child_of_a_tool_has_0_1_and_2(server: Served, way: str) -> None:
    api = server.api
    session_id = api.create()
    assert api.send(session_id, way).status_code == 202
    assert api.wait(session_id)["status"] == "idle"
    assert ok(api.get(f"/sessions/{session_id}/messages"))[-1]["content"] == "0 1 2"


def test_so_does_one_of_an_agent_that_runs_in_its_server() -> None:
    program = [sys.executable, "-m", "tests.python.support.descriptors"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.splitlines() == ["0 1 2"] * len(WAYS)
