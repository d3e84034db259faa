"""A database that has no connection left, by the limit of a role, which refuses as `max_connections` does."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.python.cluster.conftest import AGENT
from tests.python.support import postgres
from tests.python.support.api import ok, problem
from tests.python.support.served import Served
from tests.python.support.waiting import eventually


class Role:
    """One that owns its database, and as whom a test lets so many connect."""

    def __init__(self, database: str, name: str) -> None:
        self._database, self._name = database, name
        self.address = database.replace("postgres@", f"{name}@")

    def limit(self, connections: int) -> None:
        """Let no more of them begin; -1 is no limit."""
        postgres.execute(self._database, f"ALTER ROLE {self._name} CONNECTION LIMIT {connections}")

    def end(self) -> None:
        """End those that are there."""
        sql = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self._name}'"
        postgres.execute(self._database, sql)

    @property
    def connections(self) -> int:
        sql = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{self._name}'"
        return int(postgres.execute(self._database, sql))


@contextmanager
def role() -> Iterator[Role]:
    name = f"t_{uuid.uuid4().hex}"
    whole = postgres.server()
    postgres.execute(whole, f"CREATE ROLE {name} LOGIN")
    try:
        with postgres.database() as database:
            postgres.execute(database, f"GRANT CREATE ON DATABASE {urlsplit(database).path[1:]} TO {name}")
            yield Role(database, name)
    finally:
        postgres.execute(whole, f"DROP ROLE {name}")


def test_requests_are_refused_while_there_is_no_room_and_served_again_when_there_is() -> None:
    with role() as user, Served(AGENT, store=user.address, park_after=0) as server:
        api = server.api
        session_id = api.create()
        interrupt = api.settled(session_id, "null", 1)["interrupts"][0]["interrupt_id"]

        # Others have taken what is left: it keeps its own, which do not do for many at once.
        user.limit(user.connections)
        with ThreadPoolExecutor(16) as clients:
            replies = list(clients.map(lambda _: api.post("/sessions", {}), range(64)))
        created = [reply.json()["session_id"] for reply in replies if reply.status_code == 201]
        refused = [problem(reply, 503)["code"] for reply in replies if reply.status_code != 201]
        assert set(refused) <= {"store_unavailable"}

        # It was cut off, and others were there first.
        user.limit(0)
        user.end()
        gone = api.resume(session_id, interrupt, "yes")
        assert problem(gone, 503)["code"] == "store_unavailable"
        assert gone.headers["retry-after"] == "5"
        assert problem(api.get("/readyz"), 503)["code"] == "store_unavailable"
        assert api.get("/healthz").status_code == 200
        server.wait_for_line("too many connections for role")

        user.limit(-1)
        eventually(lambda: api.get("/readyz").status_code, 200)
        # What was refused changed nothing, or was stored and the word of it lost: asked again it is one of both.
        ok(api.resume(session_id, interrupt, "yes"))
        assert api.wait(session_id)["response"]["content"] == "yes"
        there = {session["session_id"] for session in ok(api.get("/sessions", limit=100))}
        assert there >= {session_id, *created}
