"""Many answers at once through three servers, and answers at the moment of expiry: one winner, known to everybody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.python.cluster.nemeses.world import Cluster, address_of
from tests.python.faults.rivals import ASKER, one_is_heard, one_of_both_wins
from tests.python.faults.world import Client, full
from tests.python.support import postgres
from tests.python.support.waiting import eventually

RIVALS = 100
ROUNDS = full(4, 500)
DEADLINES = full(18, 2_000)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(full(300, 3_600))]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three that take requests. One keeps in memory what waits, the others do not."""
    with (
        postgres.database() as database,
        Cluster(tmp_path, database, fronts=(600, 0, 0), backs=(), speed=1, agent=ASKER) as made,
    ):
        yield made
        made.reckon()


def keys_of(cluster: Cluster, *people: str) -> list[str]:
    """A key for each of them, known to all servers."""
    address = partial(address_of, cluster.nodes[0])
    keys: list[str] = []
    for name in ("root", *people):
        # Only the first is made without one.
        with closing(Client(address, key=next(iter(keys), None))) as root:
            status, made = root.post("/keys", {"name": name, "scopes": ["admin"]})
            assert status == 201, made
            keys.append(made["key"])
    for node in cluster.nodes:
        for key in keys:
            with closing(Client(partial(address_of, node), key=key)) as client:
                eventually(lambda: client.get("/sessions")[0], 200)
    return keys[1:]


def test_of_a_hundred_answers_through_three_servers_one_wins_and_the_others_are_told_whose(cluster: Cluster) -> None:
    keys = keys_of(cluster, "ada", "grace", "mary")
    clients = [
        Client(partial(address_of, cluster.nodes[rival % 3]), key=keys[rival // 3 % 3]) for rival in range(RIVALS)
    ]
    for node in cluster.nodes[:2]:
        with closing(Client(partial(address_of, node), key=keys[0])) as asks:
            one_is_heard(clients, asks, ROUNDS // 2)
    for rival in clients:
        rival.close()


def test_of_an_answer_at_one_server_and_an_expiry_at_another_one_wins(cluster: Cluster) -> None:
    wins = one_of_both_wins(cluster.client, DEADLINES)
    print(wins)
    assert len(wins) == 2, wins
