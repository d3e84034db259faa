"""Databases, and servers on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.python.support import postgres
from tests.python.support.api import Api
from tests.python.support.ports import ReservedPort
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

AGENT = "tests.python.faults.slow_step_agent:agent"

Serve = Callable[..., Served]


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty database."""
    with postgres.database() as address:
        yield address


@pytest.fixture
def serve(database: str) -> Iterator[Serve]:
    """Starts a server on the database, or, with `address`, on another way to it."""
    with ExitStack() as servers:

        def start(
            address: str = database, agent: str = AGENT, kind: type[Served] = Served, speed: int = 2, **options: Any
        ) -> Served:
            # Half of the usual times: a test waits for the death of a server, and a busy machine must cause none.
            environment = {"HITL_CLUSTER_SPEED": str(speed)}
            options = {"park_after": 0, **options}
            return servers.enter_context(kind(agent, store=address, environment=environment, **options))

        yield start


@pytest.fixture
def stand_by(serve: Serve) -> Iterator[Callable[[], Served]]:
    """Starts a server where a run has the store."""
    with ExitStack() as ports:

        def start() -> Served:
            port = ports.enter_context(ReservedPort())
            server = serve(port=port.number, stands_by=True)
            server.wait_for_line("stands by")
            return server

        yield start


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a step says that it runs, and is let go on."""
    return tmp_path / "step"


def begin_step(api: Api, place: Path, *, once: bool = False, asks: bool = False) -> str:
    """A new session whose turn is in the middle of a step, and `asks` something besides."""
    session_id = api.create()
    assert api.send(session_id, json.dumps({"place": str(place), "once": once, "asks": asks})).status_code == 202
    eventually(lambda: runs(place), 1)
    return session_id


def runs(place: Path) -> int:
    """How often the step was begun."""
    return lines(place, "ran")


def lines(place: Path, what: str) -> int:
    """How often the agent has said so."""
    said = Path(f"{place}.{what}")
    return len(said.read_text().splitlines()) if said.exists() else 0
