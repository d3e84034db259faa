"""Everything that can befall servers on one database, one after the other, while clients go on until they are told.

A round is one thing that befalls them, and it is over when all of them are at work again. In CI each happens once; in
full all of them as often as `HITL_TEST_ROUNDS` says, in an order that the seed decides.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.python.cluster.nemeses import strikes
from tests.python.cluster.nemeses.strikes import Primary, Strike, at_servers, at_the_database, at_ways
from tests.python.cluster.nemeses.world import Cluster
from tests.python.faults.programs import Maker
from tests.python.faults.test_storm import each, is_interrupted
from tests.python.faults.world import IS_FULL, Client, Session, full
from tests.python.support import postgres
from tests.python.support.own_postgres import own_postgres

CLIENTS = full(8, 20)
PAUSED, ACTIVE = full((16, 4), (1_000, 10))
"""How many sessions are paused, and answered while it storms; how many always at work."""
ROUNDS = int(os.environ.get("HITL_TEST_ROUNDS", full(1, 40)))
"""How often each thing happens."""
SEED = int(os.environ.get("HITL_TEST_SEED", "1"))
REST = 0.2
"""Seconds between the turns of a session: machines that others use as well are to have time for servers."""

Strikes = Callable[[], "contextmanager[tuple[str, list[Strike]]]"]


class Storm:
    """Lets one thing after the other befall a cluster."""

    def __init__(self, cluster: Cluster, of_all: list[Strike], seed: int) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._left = [strike for _ in range(ROUNDS) for strike in self._in_some_order(of_all)]
        self._count = len(self._left)
        self._over = threading.Event()
        self.rounds: Counter[str] = Counter()

    @property
    def share(self) -> float:
        """How much of it is over."""
        return 1.0 if self._over.is_set() else 1 - len(self._left) / self._count

    def blow(self) -> None:
        try:
            while self._left and not self._over.is_set():
                strike = self._left[0]
                begun = time.monotonic()
                strike(self._cluster, self._chance)
                self._cluster.mend()
                self.rounds[strikes.name_of(strike)] += 1
                print(f"{strikes.name_of(strike)}: {time.monotonic() - begun:.1f} s", flush=True)
                del self._left[0]
        finally:
            self._over.set()

    def stop(self) -> None:
        self._over.set()

    def _in_some_order(self, of_all: list[Strike]) -> list[Strike]:
        return self._chance.sample(of_all, len(of_all)) if IS_FULL else of_all


@contextmanager
def of_servers() -> Iterator[tuple[str, list[Strike]]]:
    with postgres.database() as database:
        yield database, at_servers()


@contextmanager
def of_ways() -> Iterator[tuple[str, list[Strike]]]:
    with postgres.database() as database:
        yield database, at_ways()


@contextmanager
def of_the_database() -> Iterator[tuple[str, list[Strike]]]:
    with own_postgres() as database:
        yield database.address, at_the_database(database)


@contextmanager
def of_the_primary() -> Iterator[tuple[str, list[Strike]]]:
    with own_postgres() as database, ExitStack() as standbys:
        yield database.address, [Primary(database, standbys).is_lost]


@pytest.mark.slow
@pytest.mark.timeout(full(600, 14_400))
@pytest.mark.parametrize("kind", [of_servers, of_ways, of_the_database, of_the_primary])
def test_whatever_befalls_servers_nothing_is_lost_or_done_twice_and_nobody_sleeps(
    kind: Strikes, tmp_path: Path
) -> None:
    with kind() as (database, of_all), Cluster(tmp_path, database, worker_timeout=1.0) as cluster:
        maker = Maker(SEED)
        waiting = [cluster.session(maker.paused()) for _ in range(PAUSED)]
        each(waiting, is_interrupted, cluster.client, CLIENTS)
        storm = Storm(cluster, of_all, SEED)
        busy = [cluster.session(maker.busy()) for _ in range(ACTIVE)]
        shares = {id(session): number / PAUSED for number, session in enumerate(waiting)}
        rests: dict[int, float] = {}

        def work(session: Session, client: Client) -> bool:
            if storm.share < shares.get(id(session), 0) or time.monotonic() < rests.get(id(session), 0):
                # Its person has not come yet. Others are looked after first.
                time.sleep(0.005)
                return False
            if not session.advance(client, wait=0.2):
                return False
            if id(session) in shares or storm.share == 1:
                return True
            session.again(maker.busy())
            rests[id(session)] = time.monotonic() + REST
            return False

        with ThreadPoolExecutor(1) as sky:
            blows = sky.submit(storm.blow)
            try:
                each(waiting + busy, work, cluster.client, CLIENTS)
            finally:
                storm.stop()
            blows.result()
        turns = sum(session.turns for session in cluster.sessions)
        starts = sum(node.starts for node in cluster.nodes)
        print(f"seed {SEED}: {turns} turns of {len(cluster.sessions)} sessions, {starts} servers; {dict(storm.rounds)}")
        assert storm.rounds.total() == ROUNDS * len(of_all)
        cluster.reckon()
