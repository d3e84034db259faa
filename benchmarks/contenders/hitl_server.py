"""`hitl serve`, spoken to over HTTP. Arguments: the isolation, `sqlite` or `memory`, and flags of `hitl serve`."""

from __future__ import annotations

from benchmarks.contenders.connections import Requests
from benchmarks.contenders.host import arguments, directory, serve
from benchmarks.contenders.sessions import Question, SessionServer
from benchmarks.served import Served

PATIENCE = 90.0
"""Seconds in which what waits has to be parked."""


class HitlServer(SessionServer):
    """A server and its workers."""

    packages = ("hitl-runtime",)

    def __init__(self) -> None:
        isolation, store, *flags = arguments()
        in_memory = store == "memory"
        kept = "nothing durable: memory store" if in_memory else "durable: SQLite, WAL, synchronous=FULL"
        self.settings = ", ".join((kept, f"--isolation {isolation}", *flags))
        path = directory() / "hitl.db"
        self._served = Served("pair", path, isolation, *flags, in_memory=in_memory)
        self.url = self._served.url

    def ask(self, session: str) -> Requests[Question]:
        """In one request."""
        return self.asked(session, (yield "POST", f"/sessions/{session}/messages?wait=true", {"content": "go"}))

    def settle(self) -> None:
        """Until what waits is parked."""
        self._served.wait_until_parked(PATIENCE)

    def close(self) -> None:
        self._served.__exit__(None, None, None)


if __name__ == "__main__":
    serve(HitlServer)
