"""The requests of a session server: sessions, messages, `wait=true`, resume."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders.connections import Requests
from benchmarks.contenders.host import Http

Question = tuple[str, str]
"""The session's id, and the interrupt's."""


class SessionServer(Http[Question]):
    """Whatever speaks this contract."""

    def open(self) -> Requests[str]:
        return (yield "POST", "/sessions", {})["session_id"]

    def ask(self, session: str) -> Requests[Question]:
        yield "POST", f"/sessions/{session}/messages", {"content": "go"}
        return self.asked(session, (yield "GET", f"/sessions/{session}?wait=true", None))

    @staticmethod
    def asked(session: str, told: Any) -> Question:
        """What the session asks; `told` is how it stands."""
        if told["status"] != "interrupted":
            raise RuntimeError(f"the session is {told['status']}: {told['error']}")
        return session, told["interrupts"][0]["interrupt_id"]

    def answer(self, asked: Question) -> Requests[str]:
        session, interrupt_id = asked
        yield "POST", f"/sessions/{session}/resume", {"interrupt_id": interrupt_id, "value": "done"}
        ended = yield "GET", f"/sessions/{session}?wait=true", None
        if ended["status"] != "idle":
            raise RuntimeError(f"the session is {ended['status']}: {ended['error']}")
        said: str = ended["response"]["content"]
        return said
