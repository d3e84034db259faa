"""What a server says to its database, told apart: the messages of PostgreSQL's protocol, as transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Self

_HEAD = 5
"""Bytes of a message before its text: a letter, and a length that counts itself and not the letter."""


@dataclass(frozen=True)
class Transaction:
    """All that was said from its BEGIN to its COMMIT."""

    text: bytes

    @property
    def writes(self) -> bool:
        """Whether it may; one that only prepares statements says so too."""
        return b"READ WRITE" in self.text

    @property
    def is_beat(self) -> bool:
        return b"synchronous_commit = off" in self.text


class Outcome(Enum):
    """What the database has said of a transaction's end."""

    UNKNOWN = None
    COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
    ROLLED_BACK = b"C\x00\x00\x00\x0dROLLBACK\x00"

    @classmethod
    def of(cls, replies: bytes) -> Self:
        known = (outcome for outcome in (cls.COMMITTED, cls.ROLLED_BACK) if outcome.value in replies)
        return next(known, cls.UNKNOWN)


class Requests:
    """What is said on one connection."""

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a message."""
        self._head = 0
        """The first message, which says who connects, has no letter."""
        self._said: bytearray | None = None
        """What was said of the transaction that has begun."""

    def take(self, data: bytes) -> Iterator[Transaction]:
        """The transactions that end in what was said now."""
        said = self._rest + data
        while len(said) >= self._head + 4:
            end = self._head + int.from_bytes(said[self._head : self._head + 4])
            if len(said) < end:
                break
            message, said, self._head = said[:end], said[end:], 1
            yield from self._message(message)
        self._rest = said

    def _message(self, message: bytes) -> Iterator[Transaction]:
        if message.startswith(b"Q") and message.startswith(b"BEGIN", _HEAD):
            self._said = bytearray()
        if self._said is None:
            return
        self._said += message
        if message.startswith(b"Q") and message.startswith(b"COMMIT\0", _HEAD):
            yield Transaction(bytes(self._said))
            self._said = None
