"""What befalls servers, their ways to the database and the database itself. Each leaves it to others to mend it.

Times are those of servers at their usual speed: after 6 s without a beat a server does nothing, after 10 s it is dead.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial

from tests.python.cluster.nemeses.world import CUT_OFF, Cluster, Node, wait_for
from tests.python.support.own_postgres import OwnPostgres
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

Strike = Callable[[Cluster, random.Random], None]

SHORT, LONG, LONGEST = 3, 8, 15
"""Seconds in which nobody notices; in which a server learns that it must do nothing; in which a worker is given up."""

# -- processes ---------------------------------------------------------------------------------------------------------


def a_server_is_killed(cluster: Cluster, chance: random.Random) -> None:
    with another_has_its_place(chance.choice(cluster.nodes)) as node:
        node.signal(signal.SIGKILL)


def a_server_ends(cluster: Cluster, chance: random.Random) -> None:
    with another_has_its_place(chance.choice(cluster.nodes)) as node:
        node.signal(signal.SIGTERM)


def all_servers_are_killed(cluster: Cluster, chance: random.Random) -> None:
    with contextlib.ExitStack() as all_of_them:
        for node in cluster.nodes:
            all_of_them.enter_context(another_has_its_place(node))
        for node in cluster.nodes:
            node.signal(signal.SIGKILL)


def a_worker_is_killed(cluster: Cluster, chance: random.Random) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(a_worker(cluster, chance), signal.SIGKILL)


def a_worker_is_stopped(seconds: float, cluster: Cluster, chance: random.Random) -> None:
    """Its server may give it up and kill it meanwhile."""
    with stopped(a_worker(cluster, chance)):
        wait_for(seconds)


def a_zygote_is_stopped(seconds: float, cluster: Cluster, chance: random.Random) -> None:
    node = chance.choice(cluster.nodes)
    eventually(lambda: bool(node.zygote()), True)
    for zygote in node.zygote():
        with stopped(zygote):
            wait_for(seconds)


def a_server_is_stopped(seconds: float, cluster: Cluster, chance: random.Random) -> None:
    with stopped(chance.choice(cluster.nodes).server.pid):
        wait_for(seconds)


def a_server_is_stopped_until_it_is_buried(cluster: Cluster, chance: random.Random) -> None:
    node = chance.choice(cluster.nodes)
    server = node.server
    with another_has_its_place(node), stopped(server.pid):
        until_others_have_its_turns(cluster, server)


# -- ways --------------------------------------------------------------------------------------------------------------


def a_way_is_cut(seconds: float, cluster: Cluster, chance: random.Random) -> None:
    chance.choice(cluster.nodes).proxy.cut()
    wait_for(seconds)


def a_way_passes_nothing_on(seconds: float, cluster: Cluster, chance: random.Random) -> None:
    chance.choice(cluster.nodes).proxy.hold()
    wait_for(seconds)


def replies_are_held_back(cluster: Cluster, chance: random.Random) -> None:
    """What a server says comes about, and it is not told."""
    chance.choice(cluster.nodes).proxy.hold(requests=False)
    wait_for(LONG)


def requests_are_held_back(cluster: Cluster, chance: random.Random) -> None:
    chance.choice(cluster.nodes).proxy.hold(replies=False)
    wait_for(LONG)


def a_way_is_cut_until_others_have_all(cluster: Cluster, chance: random.Random) -> None:
    cut_off(cluster, chance.choice(cluster.nodes), lambda node: node.proxy.cut())


def a_way_passes_nothing_on_until_others_have_all(cluster: Cluster, chance: random.Random) -> None:
    """What the server has said before it was cut off reaches the database after it was buried."""
    cut_off(cluster, chance.choice(cluster.nodes), lambda node: node.proxy.hold())


def replies_to_commits_are_lost(cluster: Cluster, chance: random.Random) -> None:
    """Of a third of all, on all ways."""
    for node in cluster.nodes:
        node.proxy.lose_replies(1 / 3, seed=chance.randrange(1 << 30))
    eventually(lambda: sum(len(node.proxy.lost) for node in cluster.nodes) >= 10, True)


# -- the database ------------------------------------------------------------------------------------------------------


def the_database_is_restarted(database: OwnPostgres, cluster: Cluster, chance: random.Random) -> None:
    database.restart("fast")


def the_database_crashes(database: OwnPostgres, cluster: Cluster, chance: random.Random) -> None:
    database.restart("immediate")


def the_database_is_away(database: OwnPostgres, cluster: Cluster, chance: random.Random) -> None:
    """For so long that no server does anything."""
    nodes = [(node, node.server, node.said(CUT_OFF)) for node in cluster.nodes]
    database.stop("fast")
    try:
        for node, server, before in nodes:
            eventually(lambda: node.said(CUT_OFF) > before or not server.is_running, True)  # noqa: B023
    finally:
        database.start()


def its_connections_are_ended(database: OwnPostgres, cluster: Cluster, chance: random.Random) -> None:
    for _ in range(5):
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )


class Primary:
    """A database that is lost, again and again, with a standby that has each commit before it is answered."""

    def __init__(self, first: OwnPostgres, standbys: contextlib.ExitStack) -> None:
        self._now = first
        self._standbys = standbys

    def is_lost(self, cluster: Cluster, chance: random.Random) -> None:
        standby = self._standbys.enter_context(self._now.standby())
        wait_for(LONG)
        self._now.stop("immediate")
        standby.promote()
        cluster.move_to(standby.address)
        self._now = standby


# -- how ---------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def another_has_its_place(node: Node) -> Iterator[Node]:
    """Once it is over, the server that was there has ended and the next one is there."""
    server = node.server
    yield node
    eventually(lambda: node.server is server, False)


@contextlib.contextmanager
def stopped(process: int) -> Iterator[None]:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def a_worker(cluster: Cluster, chance: random.Random) -> int:
    """One of those that are there, once there are any."""
    there: list[int] = []

    def look() -> bool:
        there[:] = [worker for node in cluster.nodes for worker in node.workers()]
        return bool(there)

    eventually(look, True)
    return chance.choice(there)


def until_others_have_its_turns(cluster: Cluster, server: Served) -> None:
    eventually(lambda: cluster.is_buried(server), True)
    has_turns = (
        "SELECT count(*) FROM hitl.turns WHERE ended_at IS NULL AND NOT parked"
        " AND owner IS NOT NULL AND owner NOT IN (SELECT id FROM hitl.servers)"
    )
    eventually(lambda: cluster.execute(has_turns), "0")


def cut_off(cluster: Cluster, node: Node, cut: Callable[[Node], None]) -> None:
    """Takes a server's database away until others have what it had: it serves nobody, and ends when it finds out."""
    server, before = node.server, node.said(CUT_OFF)
    cut(node)
    eventually(lambda: node.said(CUT_OFF) > before or not server.is_running, True)
    for path in ("/sessions", "/readyz") if node in cluster.serving else ("/readyz",):
        # Where it had to end before that, it does not answer.
        assert node.ask(path) in (503, None), path
    until_others_have_its_turns(cluster, server)
    node.proxy.release()
    eventually(lambda: node.server is server, False)


def at_servers() -> list[Strike]:
    return [
        a_server_is_killed,
        a_worker_is_killed,
        all_servers_are_killed,
        partial(a_server_is_stopped, SHORT),
        partial(a_server_is_stopped, LONG),
        a_server_is_stopped_until_it_is_buried,
        partial(a_worker_is_stopped, LONGEST),
        partial(a_zygote_is_stopped, LONG),
        a_server_ends,
    ]


def at_ways() -> list[Strike]:
    return [
        partial(a_way_is_cut, SHORT),
        partial(a_way_is_cut, LONG),
        a_way_is_cut_until_others_have_all,
        partial(a_way_passes_nothing_on, SHORT),
        partial(a_way_passes_nothing_on, LONG),
        a_way_passes_nothing_on_until_others_have_all,
        replies_are_held_back,
        requests_are_held_back,
        replies_to_commits_are_lost,
    ]


def at_the_database(database: OwnPostgres) -> list[Strike]:
    strikes = (the_database_is_restarted, the_database_crashes, the_database_is_away, its_connections_are_ended)
    return [partial(strike, database) for strike in strikes]


def name_of(strike: Strike) -> str:
    if isinstance(strike, partial):
        told = [f"{argument:g} s" for argument in strike.args if isinstance(argument, int | float)]
        return " ".join([strike.func.__name__.replace("_", " "), *told])
    return strike.__name__.replace("_", " ")
