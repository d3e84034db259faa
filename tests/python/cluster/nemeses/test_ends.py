"""Turns that are cancelled and sessions that are deleted at one server, while a step works at another."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.python.cluster.nemeses.world import Cluster
from tests.python.faults import programs
from tests.python.faults.world import Client, Session, full
from tests.python.support import postgres
from tests.python.support.waiting import eventually

TURNS = full(16, 500)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(full(300, 3_600))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with (
        postgres.database() as database,
        Cluster(tmp_path_factory.mktemp("cluster"), database, fronts=(0, 0), backs=(0,), speed=1) as made,
    ):
        yield made
        made.reckon()


@pytest.mark.parametrize("ends", ["cancel", "delete", "both"])
def test_a_turn_at_work_is_ended_at_another_server_or_is_over(cluster: Cluster, ends: str) -> None:
    """At some moment, by one or by two at once; its worker is let go of, whoever was first."""
    chance = random.Random(ends)
    told: list[tuple[Session, list[int]]] = []

    def one(number: int) -> None:
        steps = [["step", f"step{step}"] for step in range(8)]
        session = cluster.session(["gate", "gate"] if number % 2 else ["seq", *steps])
        # Who comes next comes to the next server.
        with closing(cluster.client()) as sends, closing(cluster.client()) as other:
            session.open(sends)
            eventually(lambda: bool(programs.ledger_lines(session.ledger)), True)
            time.sleep(chance.random() / 20)
            told.append((session, ended(session, sends, other, ends)))

    with ThreadPoolExecutor(4) as people:
        list(people.map(one, range(TURNS)))
    for node in cluster.nodes:
        eventually(lambda: node.figure("hitl_turns_at_work"), 0)  # noqa: B023
    done = {session.ledger: programs.ledger_lines(session.ledger) for session, _ in told}
    # Whoever still waited for it would do something now.
    for session, _ in told:
        Path(f"{session.ledger}.gate.go").touch()
    with closing(cluster.client()) as one_server, closing(cluster.client()) as the_other:
        for session, statuses in told:
            for client in (one_server, the_other):
                check_end(session, client, statuses, ends)
    assert {session.ledger: programs.ledger_lines(session.ledger) for session, _ in told} == done
    cluster.sessions.clear()


def ended(session: Session, sends: Client, other: Client, ends: str) -> list[int]:
    """What came of it; of a deletion last."""
    path = f"/sessions/{session.session_id}"
    if ends == "cancel":
        return [other.post(f"{path}/cancel")[0]]
    if ends == "delete":
        return [other.delete(path)[0]]
    with ThreadPoolExecutor(1) as somebody:
        cancelled = somebody.submit(sends.post, f"{path}/cancel")
        deleted = other.delete(path)[0]
        return [cancelled.result()[0], deleted]


def check_end(session: Session, client: Client, statuses: list[int], ends: str) -> None:
    status, state = client.get(f"/sessions/{session.session_id}")
    if ends != "cancel":
        assert (statuses[-1], status) == (204, 404), (statuses, state)
    elif statuses == [200]:
        assert (state["status"], state["error_code"]) == ("error", "turn_cancelled"), state
    else:
        assert (statuses, state["status"]) == ([409], "idle"), state
        assert session.program[0] != "gate", state
