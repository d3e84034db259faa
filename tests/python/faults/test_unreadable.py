"""Rows that cannot be read, since they are damaged or a later release wrote them: each stops its own session alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import hitl
from tests.python.support.agents import playbook
from tests.python.support.api import Api, Json, ok
from tests.python.support.waiting import eventually

NEITHER = "{"
"""No JSON, and no word for anything."""

OF_A_SESSION = ["response", "rules", "grants", "webhook"]
OF_A_TURN = [
    "turns.message",
    "turns.webhook",
    "turns.warnings",
    "journal.arguments",
    "journal.body",
    "journal.entry",
]
OF_AN_INTERRUPT = [
    "payload",
    "response_schema",
    "allowed_decisions",
    "value",
    "metadata",
    "args_schema",
    "approvers",
    "tool_approvers",
]


# Of one version whatever is imported or edited meanwhile: what failed is taken up again under other code.
agent = hitl.agent(version="1")(playbook)


@contextmanager
def serving(store: Path, **options: object) -> Iterator[Api]:
    """A server on `store` until the block ends."""
    with (
        hitl.Server(agent, port=0, store=str(store), park_after=0.0, **options) as server,
        closing(Api(server.url)) as api,
    ):
        yield api


@contextmanager
def opened(store: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        yield connection


def spoil(store: Path, sql: str, session: str) -> None:
    """Change the one session's row by `sql`, which has `:session` for its place in the table of sessions."""
    with opened(store) as connection:
        (seq,) = connection.execute(
            "SELECT seq FROM sessions WHERE lower(hex(id)) = ?", [session.replace("-", "")]
        ).fetchone()
        changed = connection.execute(sql, {"session": seq, "text": NEITHER}).rowcount
        assert changed > 0, sql


def leave_open(store: Path) -> None:
    """As a server leaves its turns that was killed."""
    with opened(store) as connection:
        connection.execute("UPDATE turns SET parked = 0, todo = 0, wake_at = NULL WHERE ended_at IS NULL")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "hitl.db"


@pytest.fixture
def asking(store: Path) -> tuple[tuple[str, str], tuple[str, str]]:
    """Two sessions that wait for an answer, and what each asks."""
    with serving(store) as api:
        both = (api.ask({"question": "the bad one"}), api.ask({"question": "the other"}))
    leave_open(store)
    return both


def assert_works(api: Api, other: tuple[str, str]) -> None:
    """What has nothing to do with the bad row goes on, and is listed; new sessions work."""
    session, interrupt = other
    assert session in [item["session_id"] for item in ok(api.get("/sessions"))]
    assert interrupt in [item["interrupt_id"] for item in ok(api.get("/interrupts"))]
    ok(api.resume(session, interrupt, "yes"))
    assert api.wait(session)["status"] == "idle"
    assert api.run(api.create(), "echo", 7)["status"] == "idle"
    assert api.get("/readyz").status_code == 200


def assert_unreadable(response: object) -> None:
    assert (response.status_code, response.json()["code"]) == (500, "unreadable"), response.text  # type: ignore[attr-defined]


@pytest.mark.parametrize("column", OF_A_SESSION)
def test_a_session_that_cannot_be_read_says_so(
    store: Path, asking: tuple[tuple[str, str], tuple[str, str]], column: str
) -> None:
    (bad, _), other = asking
    spoil(store, f"UPDATE sessions SET {column} = :text WHERE seq = :session", bad)
    with serving(store) as api:
        assert_unreadable(api.get(f"/sessions/{bad}"))
        # A list shows nothing of that, and does not read it.
        assert bad in [item["session_id"] for item in ok(api.get("/sessions"))]
        assert_works(api, other)


@pytest.mark.parametrize("column", [*OF_A_TURN, "messages.message"])
def test_a_turn_that_cannot_be_read_is_suspended(
    store: Path, asking: tuple[tuple[str, str], tuple[str, str]], column: str
) -> None:
    (bad, interrupt), other = asking
    table, _, name = column.partition(".")
    if table == "messages":
        with opened(store) as connection:
            # The agent remembers nothing before its first turn has ended.
            connection.execute(
                "INSERT INTO messages SELECT seq, 0, ? FROM sessions WHERE lower(hex(id)) = ?",
                [NEITHER, bad.replace("-", "")],
            )
    else:
        of_it = {"turns": "session = :session", "journal": "turn IN (SELECT seq FROM turns WHERE session = :session)"}
        spoil(store, f"UPDATE {table} SET {name} = :text WHERE {of_it[table]}", bad)
    with serving(store) as api:
        if table == "messages":
            # It is looked at when the turn goes on.
            ok(api.resume(bad, interrupt, "yes"))
        session = settled(api, bad)
        assert (session["status"], session["error_code"]) == ("error", "journal_unreadable"), session
        assert column in session["error"]
        assert_works(api, other)
    with serving(store) as api:
        assert api.session(bad) == session


@pytest.mark.parametrize("column", OF_AN_INTERRUPT)
def test_an_interrupt_that_cannot_be_read_says_so_and_so_does_its_session(
    store: Path, asking: tuple[tuple[str, str], tuple[str, str]], column: str
) -> None:
    (bad, interrupt), other = asking
    spoil(store, f"UPDATE interrupts SET {column} = :text WHERE session = :session", bad)
    with serving(store) as api:
        assert_unreadable(api.get(f"/interrupts/{interrupt}"))
        assert_unreadable(api.get(f"/sessions/{bad}"))
        assert_unreadable(api.resume(bad, interrupt, "yes"))
        assert interrupt not in [item["interrupt_id"] for item in ok(api.get("/interrupts"))]
        assert_works(api, other)


def test_an_interrupt_that_is_due_and_cannot_be_read_suspends_its_turn(
    store: Path, asking: tuple[tuple[str, str], tuple[str, str]]
) -> None:
    (bad, _), other = asking
    spoil(store, "UPDATE interrupts SET payload = :text, expires_at = 1, due_at = 1 WHERE session = :session", bad)
    with serving(store) as api:
        session = settled(api, bad)
        assert (session["status"], session["error_code"]) == ("error", "journal_unreadable")
        assert_works(api, other)


def test_a_timer_whose_session_cannot_be_read_keeps_nobody_waiting(
    store: Path, asking: tuple[tuple[str, str], tuple[str, str]]
) -> None:
    (bad, _), (other, interrupt) = asking
    spoil(store, "UPDATE sessions SET rules = :text WHERE seq = :session", bad)
    spoil(store, "UPDATE turns SET parked = 1, todo = NULL, wake_at = 1 WHERE session = :session", bad)
    spoil(store, "UPDATE interrupts SET expires_at = 2, due_at = 2 WHERE session = :session", other)
    with serving(store) as api:
        # It is due after the one that cannot be read.
        eventually(lambda: api.interrupt(interrupt)["status"], expected="expired")
        assert api.wait(other)["error_code"] == "interrupt_expired"
        assert_unreadable(api.get(f"/sessions/{bad}"))
    with opened(store) as connection:
        assert connection.execute("SELECT count(*) FROM turns WHERE wake_at IS NOT NULL").fetchone() == (0,)


def test_a_reply_that_cannot_be_read_is_its_requests_alone(store: Path) -> None:
    with serving(store) as api:
        session = api.create()
        message = {"role": "user", "content": "echo 7"}
        assert api.post(f"/sessions/{session}/messages", message, Idempotency_Key="k").status_code == 202
        api.wait(session)
    with opened(store) as connection:
        assert connection.execute("UPDATE replies SET body = ? WHERE key = 'k'", [NEITHER]).rowcount == 1
    with serving(store) as api:
        assert_unreadable(api.post(f"/sessions/{session}/messages", message, Idempotency_Key="k"))
        assert api.run(session, "echo", 8)["status"] == "idle"


@pytest.mark.parametrize("column", ["scopes", "key_groups"])
def test_a_key_that_cannot_be_read_may_do_no_more_than_before(store: Path, column: str) -> None:
    with serving(store) as api:
        made = api.post("/keys", {"name": "ada", "scopes": ["admin"]})
        assert made.status_code == 201, made.text
        key: Json = made.json()
    with opened(store) as connection:
        assert connection.execute(f"UPDATE keys SET {column} = ?", [NEITHER]).rowcount == 1
    with serving(store) as api:
        # There is a key, and so nobody is let in without one.
        assert api.get("/sessions").status_code == 401
        with closing(Api(str(api.http.base_url), api_key=key["key"])) as ada:
            assert ada.get("/sessions").status_code == (403 if column == "scopes" else 200)


def test_what_is_left_of_an_audit_is_not_shown_for_all_of_it(
    store: Path, asking: tuple[tuple[str, str], tuple[str, str]]
) -> None:
    with opened(store) as connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        assert connection.execute("UPDATE audit SET details = ? WHERE seq = 1", [NEITHER]).rowcount == 1
    with serving(store) as api:
        assert_unreadable(api.get("/audit"))
        assert_works(api, asking[1])


def settled(api: Api, session: str) -> Json:
    """The session once it is suspended."""
    eventually(lambda: api.get(f"/sessions/{session}").json().get("status"), expected="error")
    return api.session(session)


@pytest.mark.parametrize("column", [*OF_A_SESSION, *(f"interrupts.{column}" for column in OF_AN_INTERRUPT)])
def test_a_session_that_cannot_be_read_can_be_deleted(
    store: Path, asking: tuple[tuple[str, str], tuple[str, str]], column: str
) -> None:
    (bad, interrupt), other = asking
    table, _, name = column.rpartition(".")
    key = "session" if table else "seq"
    spoil(store, f"UPDATE {table or 'sessions'} SET {name} = :text WHERE {key} = :session", bad)
    with serving(store) as api:
        assert api.delete(bad).status_code == 204
        assert api.get(f"/sessions/{bad}").status_code == 404
        assert api.get(f"/interrupts/{interrupt}").status_code == 404
        assert_works(api, other)
