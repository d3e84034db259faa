"""What a server and its database say to each other, by PostgreSQL's protocol, told apart as transactions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

_HEAD = 5
"""Bytes of a message before its text: a letter, and a length that counts itself and not the letter."""
_WRITING = re.compile(rb"\b(INSERT INTO|UPDATE|DELETE FROM) hitl\.")
"""What a statement has that writes."""


@dataclass(frozen=True)
class Transaction:
    """All that was said of one: from its BEGIN to its COMMIT, or a statement that goes without them."""

    text: bytes
    writes: bool
    """Whether it may; one that only prepares statements says so too."""

    @property
    def is_beat(self) -> bool:
        return b"synchronous_commit = off" in self.text


class Outcome(Enum):
    """What has become of a transaction that is over."""

    COMMITTED = auto()
    ROLLED_BACK = auto()


class Requests:
    """What a server says on one connection."""

    def __init__(self) -> None:
        # The first message, which says who connects, has no letter.
        self._messages = _Messages(letters=0)
        self._prepared: dict[bytes, bytes] = {}
        """Statements by the names that they were given."""
        self._said: bytearray | None = None
        """What was said of the transaction that has begun."""
        self._alone: bytes | None = None
        """A statement without a transaction around it, with its parameters."""
        self._alone_writes = False

    def take(self, data: bytes) -> Iterator[Transaction]:
        """The transactions that end in what was said now."""
        for message in self._messages.take(data):
            yield from self._message(message)

    def _message(self, message: bytes) -> Iterator[Transaction]:
        kind, text = message[:1], message[_HEAD:]
        if kind == b"P":
            name, statement, _ = text.split(b"\0", 2)
            self._prepared[name] = statement
        if self._said is None and kind == b"Q" and text.startswith(b"BEGIN"):
            self._said = bytearray()
        if self._said is not None:
            self._said += message
            if kind == b"Q" and text == b"COMMIT\0":
                yield Transaction(bytes(self._said), writes=b"READ WRITE" in self._said)
            if kind == b"Q" and text in (b"COMMIT\0", b"ROLLBACK\0"):
                self._said = None
        elif kind == b"B":
            statement = self._prepared.get(text.split(b"\0", 2)[1], b"")
            self._alone, self._alone_writes = statement + message, _WRITING.search(statement) is not None
        elif kind == b"S" and self._alone is not None:
            yield Transaction(self._alone, self._alone_writes)
            self._alone = None


class Replies:
    """What a database says on one connection."""

    def __init__(self) -> None:
        self._messages = _Messages(letters=1)
        self._has_failed = False

    def take(self, data: bytes) -> Iterator[Outcome]:
        """What has become of each transaction that is over by what was said now.

        It is over when the database is ready for the next one: a statement is complete before it is committed.
        """
        for message in self._messages.take(data):
            kind, text = message[:1], message[_HEAD:]
            if kind == b"E" or (kind, text) == (b"C", b"ROLLBACK\0"):
                self._has_failed = True
            elif (kind, text) == (b"Z", b"I"):
                yield Outcome.ROLLED_BACK if self._has_failed else Outcome.COMMITTED
                self._has_failed = False


class _Messages:
    """What is said on one connection in one direction."""

    def __init__(self, letters: int) -> None:
        self._letters = letters
        """How many the next one begins with."""
        self._rest = b""
        """The beginning of a message."""

    def take(self, data: bytes) -> Iterator[bytes]:
        """The messages that end in what was said now."""
        said = self._rest + data
        while len(said) >= self._letters + 4:
            end = self._letters + int.from_bytes(said[self._letters : self._letters + 4])
            if len(said) < end:
                break
            message, said, self._letters = said[:end], said[end:], 1
            yield message
        self._rest = said
