"""`hitl serve`, spoken to over HTTP.

Arguments: the isolation, `sqlite`, `postgres` or `memory`, and flags of `hitl serve`.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.contenders import postgres
from benchmarks.contenders.connections import Requests
from benchmarks.contenders.host import arguments, directory, serve
from benchmarks.contenders.sessions import Question, SessionServer
from benchmarks.served import Served

PATIENCE = 90.0
"""Seconds in which what waits has to be parked."""


class HitlServer(SessionServer):
    """A server and its workers."""

    packages: tuple[str, ...] = ("hitl-runtime",)

    def __init__(self) -> None:
        isolation, store, *flags = arguments()
        self._postgres: postgres.Postgres | None = None
        address = None
        match store:
            case "memory":
                address, kept = "memory", "nothing durable: memory store"
            case "postgres":
                self._postgres = postgres.start(directory() / "postgres")
                address, kept = self._postgres.address, f"durable: Postgres, {self._postgres.settings}"
                self.packages = (*self.packages, postgres.PACKAGE)
                subprocess.run([sys.executable, "-m", "hitl", "migrate", "--store", address], check=True)
            case _:
                kept = "durable: SQLite, WAL, synchronous=FULL"
        self.settings = ", ".join((kept, f"--isolation {isolation}", *flags))
        self._served = Served("pair", directory() / "hitl.db", isolation, *flags, address=address)
        self.url = self._served.url

    def ask(self, session: str) -> Requests[Question]:
        """In one request."""
        return self.asked(session, (yield "POST", f"/sessions/{session}/messages?wait=true", {"content": "go"}))

    def settle(self) -> None:
        """Until what waits is parked."""
        self._served.wait_until_parked(PATIENCE)

    def close(self) -> None:
        self._served.__exit__(None, None, None)
        if self._postgres is not None:
            self._postgres.close()


if __name__ == "__main__":
    serve(HitlServer)
