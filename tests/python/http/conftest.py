"""Servers for the wire tests. `api` and `puppet` are shared by many tests; what needs options starts its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.python.support.api import Api
from tests.python.support.gate import Gate
from tests.python.support.served import Served

Serve = Callable[..., Served]


class SharedServers:
    """One server for each agent and isolation, started when first wanted, and again if a test broke it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[tuple[str, str], Served] = {}

    def get(self, agent: str, isolation: str = "process") -> Served:
        server = self._servers.get((agent, isolation))
        if server is None or not server.is_running:
            store = f"sqlite:{self._folder / f'{agent}-{isolation}.db'}"
            # Enough workers that a test which holds a few does not keep its neighbours waiting.
            server = Served(agent, isolation=isolation, store=store, workers=8)
            self._servers[agent, isolation] = server
        return server

    def stop(self) -> None:
        with ExitStack() as stack:
            for server in self._servers.values():
                stack.enter_context(server)


@pytest.fixture(scope="session")
def shared_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    servers = SharedServers(tmp_path_factory.mktemp("shared"))
    yield servers
    servers.stop()


@pytest.fixture
def api(shared_servers: SharedServers) -> Api:
    """A server of the playbook, with default options and a store on disk."""
    return shared_servers.get("playbook").api


@pytest.fixture
def puppet(shared_servers: SharedServers) -> Api:
    """A server of the agent that calls the tools it is told to."""
    return shared_servers.get("puppet").api


@pytest.fixture(params=["process", "task"])
def isolation(request: pytest.FixtureRequest) -> str:
    """Both ways to run turns."""
    kind: str = request.param
    return kind


@pytest.fixture
def either_server(shared_servers: SharedServers, isolation: str) -> Served:
    """A server of the playbook for each isolation."""
    return shared_servers.get("playbook", isolation)


@pytest.fixture
def either_api(either_server: Served) -> Api:
    return either_server.api


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server with options of its own: `serve("playbook", max_sessions=1)`. It ends with the test."""
    with ExitStack() as stack:

        def start(agent: str = "playbook", **options: Any) -> Served:
            return stack.enter_context(Served(agent, **options))

        yield start


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Where a turn is held at work: `api.play(session_id, "hold", gate.port)`."""
    with Gate() as gate:
        yield gate


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A database of the test's own, as `--store`."""
    return f"sqlite:{tmp_path / 'hitl.db'}"
