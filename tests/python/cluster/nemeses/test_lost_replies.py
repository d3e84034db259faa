"""Commits whose reply is lost: whoever says it again gets one effect, also at another server.

A server looks for what came of its commit, and tells its client. Where it cannot, the client says the same again to the
other server: in CI as soon as it has waited for long enough, in full once it was told that nobody knows (503).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from itertools import product

import pytest

from tests.python.cluster.nemeses.world import Cluster, Node
from tests.python.faults import programs
from tests.python.faults.world import Client, Json, Session, full
from tests.python.support import postgres
from tests.python.support.waiting import eventually

ROUNDS = range(full(1, 25))
PATIENCE = full(0.5, 100)
"""Seconds in which a client wants to be told."""
ALL_OF_THEM = list(product(("warm", "parked"), ("finds out", "cannot look")))
WHERE = full([("warm", "finds out"), ("parked", "cannot look")], ALL_OF_THEM)
"""Whether turns that wait are in the memory of the server that loses a reply, and whether it can look then."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(full(300, 3_600))]


class Loser:
    """A cluster of which one server, where turns wait in memory or do not, gets no word of what it commits."""

    def __init__(self, cluster: Cluster, node: Node, *, finds_out: bool) -> None:
        self.cluster = cluster
        self.node = node
        self._finds_out = finds_out
        self.client = Client(self._addresses)
        self.impatient = Client(self._addresses, timeout=PATIENCE)
        """Both come to that server first."""

    def name(self) -> str:
        """What is in nothing else."""
        return f"n{uuid.uuid4().hex}"

    def session(self, program: programs.Program) -> Session:
        session = self.cluster.session(program)
        session.open(self._back())
        return session

    def asked(self, name: str) -> tuple[Session, str]:
        """A session that asks something, and what."""
        session = self.session(["ask", name])
        return session, self.until(session, "interrupted")["interrupts"][0]["interrupt_id"]

    def until(self, session: Session, status: str) -> Json:
        eventually(lambda: session.look(self.client, wait=5)["status"], status)
        return session.last

    def lose(self, about: str | bytes) -> None:
        """The server commits what it is said next with that in it, and is not told so."""
        self._about = about.encode() if isinstance(about, str) else about
        self._back()
        self.node.proxy.lose_reply(self._about, and_cut=not self._finds_out)

    def has_lost(self) -> None:
        """Until it has; from then on it reaches its database again."""
        eventually(lambda: self.node.proxy.lost[-1:], [self._about])
        self.node.proxy.release()

    def counted(self, table: str, session: Session) -> int:
        return int(self.cluster.execute(f"SELECT count(*) FROM hitl.{table} WHERE session = '{session.session_id}'"))

    def close(self) -> None:
        self.client.close()
        self.impatient.close()

    def _back(self) -> Client:
        self.close()
        self.client = Client(self._addresses)
        self.impatient = Client(self._addresses, timeout=PATIENCE)
        return self.impatient

    def _addresses(self) -> list[str]:
        return [self.node.address, *(node.address for node in self.cluster.serving if node is not self.node)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with (
        postgres.database() as database,
        # Nobody is taken for dead: at their usual speed a busy machine does not matter.
        Cluster(tmp_path_factory.mktemp("cluster"), database, backs=(), speed=1, allow_custom_ids=True) as made,
    ):
        yield made
        made.reckon()


@pytest.fixture(params=WHERE, ids=" and ".join)
def loser(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Loser]:
    where, looks = request.param
    made = Loser(cluster, cluster.nodes[where == "warm"], finds_out=looks == "finds out")
    yield made
    made.close()


def test_a_session_is_made_once(loser: Loser) -> None:
    for _ in ROUNDS:
        session_id = uuid.uuid4()
        loser.lose(session_id.bytes)
        status, told = loser.impatient.put(f"/sessions/{session_id}")
        assert status == 201 or (status, told["code"]) == (409, "session_exists"), told
        loser.has_lost()
        assert loser.client.get(f"/sessions/{session_id}")[0] == 200


def test_a_message_begins_one_turn(loser: Loser) -> None:
    for _ in ROUNDS:
        name = loser.name()
        loser.lose(name)
        session = loser.session(["step", name])
        loser.has_lost()
        finish(loser, session)
        assert loser.counted("turns", session) == 1


def test_what_a_step_returned_is_taken_once_and_it_does_not_run_again(loser: Loser) -> None:
    for kind in ("step", "once"):
        for _ in ROUNDS:
            name = loser.name()
            loser.lose(f"{name}!")
            session = loser.session(["seq", [kind, name], ["step", "after"]])
            loser.has_lost()
            finish(loser, session)
            lines = programs.ledger_lines(session.ledger)
            assert [lines.count(f"{what} {name}") for what in ("effect", "seen")] == [1, 1], lines


def test_a_question_is_asked_once(loser: Loser) -> None:
    for _ in ROUNDS:
        name = loser.name()
        loser.lose(f'"{name}"')
        session = loser.session(["ask", name])
        loser.has_lost()
        finish(loser, session)
        assert loser.counted("interrupts", session) == 1


def test_an_answer_counts_once_and_another_is_refused(loser: Loser) -> None:
    for _ in ROUNDS:
        name = loser.name()
        session, interrupt_id = loser.asked(name)
        said = {"to": name}
        loser.lose(f'"{name}"')
        status, record = loser.impatient.post(f"/interrupts/{interrupt_id}/resume", {"value": said})
        assert status == 200, record
        loser.has_lost()
        status, refused = loser.client.post(f"/interrupts/{interrupt_id}/resume", {"value": "another"})
        assert (status, refused["code"]) == (409, "already_resolved")
        session.answered[interrupt_id] = said
        finish(loser, session)


def test_the_end_of_a_turn_is_told_once(loser: Loser) -> None:
    for _ in ROUNDS:
        name = loser.name()
        session, _ = loser.asked(name)
        # As it is in the text of a response.
        loser.lose(json.dumps(json.dumps({"to": name}))[1:-1])
        session.advance(loser.impatient)
        loser.has_lost()
        finish(loser, session)
        assert loser.counted("messages", session) == 2


def test_a_turn_is_cancelled_once_and_its_worker_is_let_go_of(loser: Loser) -> None:
    for _ in ROUNDS:
        session = at_work(loser)
        loser.lose(uuid.UUID(session.session_id).bytes)
        status, told = loser.impatient.post(f"/sessions/{session.session_id}/cancel")
        assert status in (200, 409), told
        loser.has_lost()
        session.cancelled = session.done = True
        assert session.look(loser.client)["error_code"] == "turn_cancelled"
        nobody_is_at_work(loser)


def test_a_session_is_deleted_once_and_its_worker_is_let_go_of(loser: Loser) -> None:
    for _ in ROUNDS:
        session = at_work(loser)
        loser.lose(uuid.UUID(session.session_id).bytes)
        assert loser.impatient.delete(f"/sessions/{session.session_id}")[0] in (204, 404)
        loser.has_lost()
        assert loser.client.get(f"/sessions/{session.session_id}")[0] == 404
        assert [loser.counted(table, session) for table in ("turns", "journal", "messages")] == [0, 0, 0]
        loser.cluster.sessions.remove(session)
        nobody_is_at_work(loser)


def finish(loser: Loser, session: Session) -> None:
    def is_over() -> bool:
        return session.advance(loser.client, wait=5)

    eventually(is_over, True)


def at_work(loser: Loser) -> Session:
    """A session in the middle of a step, which does not end."""
    session = loser.session(["gate", loser.name()])
    eventually(lambda: bool(programs.ledger_lines(session.ledger)), True)
    return session


def nobody_is_at_work(loser: Loser) -> None:
    for node in loser.cluster.nodes:
        eventually(lambda: node.figure("hitl_turns_at_work"), 0)  # noqa: B023
