"""Which cell an agent is in, and the file in which it notes what it does: a line each, from any process."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Cell:
    """The message of an agent of the matrix."""

    name: str
    """Of this run; the peer knows its requests by it."""
    before: str
    ask: str
    ledger: str
    ports: dict[str, int]

    @classmethod
    def of(cls, message: str) -> Self:
        return cls(**json.loads(message))

    def message(self) -> str:
        return json.dumps(asdict(self))

    def note(self, text: str) -> str:
        """One line more, whole also when several processes write."""
        descriptor = os.open(self.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{text}\n".encode())
        finally:
            os.close(descriptor)
        return text

    def note_process(self) -> str:
        """Who runs this."""
        return self.note(f"in process {os.getpid()}")

    def process(self) -> int:
        """Who ran the first part."""
        return next(int(line.removeprefix("in process ")) for line in self.noted() if line.startswith("in process "))

    async def in_flight(self, what: str, request: Callable[[], Awaitable[str]]) -> str:
        """The body of a step: notes that the request began, and how it went."""
        self.note(f"{what} began")
        try:
            reply = await request()
        except BaseException as error:
            self.note(f"{what} was cut by {type(error).__name__}")
            raise
        self.note(f"{what} ended")
        return reply

    def noted(self) -> Counter[str]:
        """How often each line was written."""
        path = Path(self.ledger)
        return Counter(path.read_text().splitlines() if path.exists() else [])
