"""What an agent used before it asks x how it waits for the answer x who runs it: each cell waits, and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
import uvloop

from tests.python.waiting.asks import ASKS
from tests.python.waiting.befores import BEFORES
from tests.python.waiting.cells import DRIVERS, pairwise, selected
from tests.python.waiting.drivers import Conversation, run_cell
from tests.python.waiting.ledger import Cell
from tests.python.waiting.peers import Peers

if TYPE_CHECKING:
    from tests.python.waiting.conftest import Servers

# A run that waits leaves its connections as they are, as a killed process would; libraries say so when collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.mark.parametrize(("before", "ask", "driver"), selected(), ids=lambda value: value.replace(" ", "_"))
def test_a_turn_waits_and_goes_on(
    before: str,
    ask: str,
    driver: str,
    cell_of: Callable[[str, str], Cell],
    peers: Peers,
    request: pytest.FixtureRequest,
) -> None:
    cell = cell_of(before, ask)
    match driver:
        case "run":
            asyncio.run(run_cell(cell, peers))
        case "run on uvloop":
            uvloop.run(run_cell(cell, peers))
        case _:
            servers: Servers = request.getfixturevalue("servers")
            isolation = driver.removeprefix("server, ")
            conversation = Conversation(servers.get(isolation).api, cell, peers)
            try:
                conversation.begin()
                conversation.go_on()
            except BaseException:
                servers.kill(isolation)
                raise


def test_the_cells_that_run_have_each_pair_of_values() -> None:
    def pairs(*cells: tuple[str, ...]) -> set[tuple[int, str, int, str]]:
        return {(i, cell[i], j, cell[j]) for cell in cells for i, j in combinations(range(3), 2)}

    every = [(before, ask, driver) for before in BEFORES for ask in ASKS for driver in DRIVERS]
    assert pairs(*pairwise()) == pairs(*every)
