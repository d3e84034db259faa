"""Peers and servers of the waiting matrix: one of each for all cells of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.python.support.served import Served
from tests.python.waiting.drivers import serve
from tests.python.waiting.ledger import Cell
from tests.python.waiting.peers import Peers


class Servers:
    """One server for each isolation, started when first wanted, and again after a cell that it did not survive."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._servers: dict[str, Served] = {}

    def get(self, isolation: str) -> Served:
        if isolation not in self._servers:
            self._count += 1
            # An answer that comes finds nothing in memory: each goes through a replay.
            self._servers[isolation] = serve(
                f"sqlite:{self._folder / f'{self._count}.db'}", isolation, workers=4, park_after=0
            )
        return self._servers[isolation]

    def kill(self, isolation: str) -> None:
        """Whatever a failed cell left on it goes with it."""
        server = self._servers.pop(isolation)
        with server:
            server.kill()

    def kill_all(self) -> None:
        for isolation in list(self._servers):
            self.kill(isolation)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("waiting"))
    yield servers
    servers.kill_all()


@pytest.fixture(scope="session")
def peers() -> Iterator[Peers]:
    with Peers() as peers:
        yield peers


@pytest.fixture
def cell_of(peers: Peers, tmp_path: Path) -> Callable[[str, str], Cell]:
    """A cell of this test: its requests are known by a name of their own."""

    def make(before: str, ask: str) -> Cell:
        name = f"{tmp_path.name}-{before}-{ask}".replace(" ", "_")
        return Cell(name, before, ask, str(tmp_path / name), peers.ports)

    return make
