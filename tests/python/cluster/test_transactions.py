"""What a proxy takes for a transaction, and for its end: whichever it does not see, no test loses the reply to."""

from __future__ import annotations

import pytest

from tests.python.cluster.transactions import Outcome, Replies, Requests, Transaction

GUARDED = b"WITH held AS (UPDATE hitl.sessions SET version = $1), told AS (INSERT INTO hitl.events SELECT $2) SELECT 1"
READING = b"SELECT updated_at FROM hitl.sessions WHERE id = $1"


def message(kind: bytes, text: bytes) -> bytes:
    return kind + (len(text) + 4).to_bytes(4) + text


def simple(text: bytes) -> bytes:
    return message(b"Q", text + b"\0")


def prepared(name: bytes, statement: bytes) -> bytes:
    return message(b"P", name + b"\0" + statement + b"\0\0\0") + message(b"D", b"S" + name + b"\0") + message(b"S", b"")


def executed(name: bytes, parameter: bytes) -> bytes:
    bound = b"\0" + name + b"\0\0\0\0\1" + len(parameter).to_bytes(4) + parameter + b"\0\0"
    return message(b"B", bound) + message(b"E", b"\0\0\0\0\0") + message(b"S", b"")


WRITE, READ = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
CONNECTED = message(b"", b"\0\3\0\0user\0hitl\0\0")
PREPARED = simple(WRITE) + prepared(b"s1", GUARDED) + prepared(b"s2", READING) + simple(b"COMMIT")


@pytest.fixture(params=["all at once", "byte by byte"])
def requests(request: pytest.FixtureRequest) -> Requests:
    """Of a connection that has prepared what it says later."""
    made = Requests()
    (preparing,) = said(made, CONNECTED + PREPARED, bytewise=request.param == "byte by byte")
    assert preparing.writes
    return made


def said(requests: Requests, data: bytes, *, bytewise: bool = True) -> list[Transaction]:
    pieces = [data[at : at + 1] for at in range(len(data))] if bytewise else [data]
    return [transaction for piece in pieces for transaction in requests.take(piece)]


def test_what_is_said_between_begin_and_commit_is_a_transaction(requests: Requests) -> None:
    (written,) = said(requests, simple(WRITE) + executed(b"s1", b"ada") + executed(b"s2", b"bob") + simple(b"COMMIT"))
    assert written.writes
    assert b"ada" in written.text
    assert b"bob" in written.text
    (read,) = said(requests, simple(READ) + executed(b"s2", b"ada") + simple(b"COMMIT"))
    assert not read.writes


def test_a_statement_without_them_is_one_and_writes_what_its_text_says(requests: Requests) -> None:
    (written,) = said(requests, executed(b"s1", b"ada"))
    assert written.writes
    assert b"ada" in written.text
    # Whatever its parameters say.
    (read,) = said(requests, executed(b"s2", GUARDED))
    assert not read.writes


def test_what_is_rolled_back_by_whoever_began_it_is_none(requests: Requests) -> None:
    assert said(requests, simple(WRITE) + executed(b"s1", b"ada") + simple(b"ROLLBACK")) == []
    assert len(said(requests, executed(b"s1", b"ada"))) == 1


ROW, READY = message(b"D", b"\0\1\0\0\0\1x"), message(b"Z", b"I")
FAILED = message(b"E", b"SERROR\0C22012\0\0")


def complete(tag: bytes) -> bytes:
    return message(b"C", tag + b"\0")


def within(state: bytes) -> bytes:
    return message(b"Z", state)


BEGUN = complete(b"BEGIN") + within(b"T")


@pytest.mark.parametrize(
    ("replies", "outcomes"),
    [
        (ROW + complete(b"SELECT 1") + READY, [Outcome.COMMITTED]),
        (FAILED + READY, [Outcome.ROLLED_BACK]),
        # It fails where it is committed.
        (ROW + complete(b"SELECT 1") + FAILED + READY, [Outcome.ROLLED_BACK]),
        (ROW + complete(b"SELECT 1"), []),
        (BEGUN + complete(b"SELECT 1") + within(b"T"), []),
        (BEGUN + complete(b"COMMIT") + READY, [Outcome.COMMITTED]),
        (BEGUN + FAILED + within(b"E") + complete(b"ROLLBACK") + READY, [Outcome.ROLLED_BACK]),
        (BEGUN + complete(b"ROLLBACK") + READY, [Outcome.ROLLED_BACK]),
        (FAILED + READY + complete(b"SELECT 1") + READY, [Outcome.ROLLED_BACK, Outcome.COMMITTED]),
    ],
)
def test_a_transaction_is_over_when_the_database_is_ready_for_the_next(replies: bytes, outcomes: list[Outcome]) -> None:
    assert list(Replies().take(replies)) == outcomes
    byte_by_byte = Replies()
    assert [told for at in range(len(replies)) for told in byte_by_byte.take(replies[at : at + 1])] == outcomes
