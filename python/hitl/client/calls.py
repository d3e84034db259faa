"""Every endpoint once, without I/O: what to send and how to read the answer.

A plan is a call, which is one request, or a generator that yields calls and is sent their answers, for what takes
several (`wait`, `ask`). `Client` and `AsyncClient` only differ in how they carry a plan out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypeVar, cast

import httpx2

from hitl.client.arguments import flag, listed, member, members, moment, path_part, seconds, tool_arguments
from hitl.client.call import (
    ABSENT,
    Call,
    given,
    interrupt_path,
    keyed,
    page_of,
    read_accepted,
    read_nothing,
    session_path,
)
from hitl.client.health import Health
from hitl.client.models import (
    Accepted,
    Grant,
    Interrupt,
    JournalEntry,
    Key,
    Me,
    Notice,
    Page,
    Session,
    SessionSummary,
)
from hitl.messages import ChatMessage

Result = TypeVar("Result")
Message = str | ChatMessage | Mapping[str, Any]

LONG_POLL = 30.0
"""Seconds of one long poll. Short enough for proxies that cut idle connections after a minute."""


# --- the server ---


def health() -> Call[Health]:
    """How the server is: workers, turns at work, sessions."""
    return Call("GET", "/health", lambda data, _: Health.from_json(data))


def me() -> Call[Me]:
    """Who one is to the server, and what one may do."""
    return Call("GET", "/me", lambda data, _: Me.from_json(data))


# --- keys ---


def list_keys() -> Call[list[Key]]:
    """Every key, the revoked ones too, oldest first. Needs the scope `admin`, as the two below do."""
    return Call("GET", "/keys", lambda data, _: [Key.from_json(entry) for entry in data])


def create_key(name: str, scopes: Sequence[str], groups: Sequence[str] = ()) -> Call[Key]:
    """A new key, with its `secret`, which no later call shows.

    scopes: of `read`, `send`, `answer`, `admin`.
    """
    body = {"name": name, "scopes": listed("scopes", scopes), "groups": listed("groups", groups)}
    return Call("POST", "/keys", lambda data, _: Key.from_json(data), body=body)


def revoke_key(key_id: str) -> Call[None]:
    """Revoke a key for good; `NotFound` where there is none, or it is revoked already."""
    return Call("DELETE", f"/keys/{path_part('key_id', key_id)}", read_nothing)


# --- sessions ---


def create_session(
    state: list[ChatMessage] | list[Mapping[str, Any]] | None = None,
    *,
    session_id: str | None = None,
    rules: Sequence[Mapping[str, Any]] | None = None,
    webhook: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Session]:
    """A new session, idle, which starts with the messages of `state`.

    session_id: a UUID of one's own; the server takes it only with `--allow-custom-ids` (`MethodNotAllowed` else).
    rules: its own, before those of the server: `{"name", "effect", "tool", "agent"?, "when"?, "reason"?}`.
    webhook: told of what happens to the session: `{"url", "token"?, "include_messages"?, "events"?}`.
    idempotency_key: asking again under the same key, as after a lost reply, makes no second session. It is for an id
        that the server draws: with a `session_id`, where asking again is a `Conflict`, it is a `ValueError`.
    """
    if session_id is not None and idempotency_key is not None:
        raise ValueError(
            "idempotency_key is for a session without session_id, under which there is one at the most anyway"
        )
    body: dict[str, Any] = {} if state is None else {"state": [_message(message) for message in listed("state", state)]}
    if rules is not None:
        body["rules"] = [member("each of rules", rule) for rule in listed("rules", rules)]
    if webhook is not None:
        body["webhook"] = member("webhook", webhook)
    method, path = ("POST", "/sessions") if session_id is None else ("PUT", session_path(session_id))
    return Call(method, path, _read_session, body=body, headers=keyed(idempotency_key))


def list_sessions(
    *,
    status: str | None = None,
    q: str | None = None,
    order: Literal["oldest", "newest"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[SessionSummary]]:
    """Sessions, oldest first unless `order` says `newest`. `limit` is at most 1,000; the server's default is 100.

    q: what the title or the id says, whatever the case. A page of such a search may have fewer than `limit`, or none,
        and still a `next_cursor`: the server looks at some thousand sessions for each.
    cursor: the `next` of a page before, of the same order.
    """
    query = {"status": status, "q": q, "order": order, "limit": limit, "cursor": cursor}
    return Call("GET", "/sessions", page_of(SessionSummary.from_json), query=query)


def get_session(session_id: str, *, wait: bool = False, timeout: float | None = None) -> Call[Session]:
    """The session now, or with `wait` when it stops running.

    timeout: seconds, after which the session comes back as it is, still `running`. None waits as long as it takes.
        `ValueError` without `wait`.
    """
    if timeout is not None:
        seconds("timeout", timeout)
        if wait is False:
            raise ValueError("timeout is how long get_session(wait=True) waits\n\nhint: wait=True, or no timeout")
    query: dict[str, object] = {"wait": "true", "timeout": timeout} if flag("wait", wait) else {}
    return Call("GET", session_path(session_id), _read_session, query=query, patience=timeout if wait else 0.0)


def delete_session(session_id: str) -> Call[None]:
    """Delete the session and everything of it; a turn at work ends."""
    return Call("DELETE", session_path(session_id), read_nothing)


def get_messages(session_id: str, *, after: int = 0, limit: int | None = None) -> Call[list[ChatMessage]]:
    """The session's messages, oldest first.

    after: how many to leave out, from the first on: with as many as one has already, what is new. A turn may change
        those too, as one does that sums up what was said.
    limit: how many at most, up to 1,000; None is all of them.
    """
    query = {"after": after or None, "limit": limit}
    return Call(
        "GET",
        session_path(session_id, "messages"),
        lambda data, _: [ChatMessage.from_dict(entry) for entry in data],
        query=query,
    )


def send_message(
    session_id: str,
    message: Message,
    *,
    webhook: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Accepted]:
    """Start a turn with `message` and return at once. `Conflict` while the session is running or interrupted.

    webhook: `{"url", "token"?, "include_messages"?, "events"?}`.
    idempotency_key: sending again under the same key starts nothing new.
    """
    body = dict(_message(message))
    if webhook is not None:
        body["webhook"] = member("webhook", webhook)
    return Call("POST", session_path(session_id, "messages"), read_accepted, body=body, headers=keyed(idempotency_key))


def resume(
    session_id: str, interrupt_id: str, value: Any, *, name: str | None = None, idempotency_key: str | None = None
) -> Call[Accepted]:
    """Answer one pending interrupt of a session. `Invalid` changes nothing and leaves it pending.

    name: who has claimed it, where the server has no keys.
    """
    body = {"interrupt_id": interrupt_id, "value": value, **given(**{"as": name})}
    return Call("POST", session_path(session_id, "resume"), read_accepted, body=body, headers=keyed(idempotency_key))


def resume_many(
    session_id: str, answers: Mapping[str, Any], *, name: str | None = None, idempotency_key: str | None = None
) -> Call[Accepted]:
    """Answer several interrupts, `{interrupt_id: value}`: all of them or none, 500 at the most.

    name: who has claimed them, where the server has no keys.
    """
    resume = [{"interrupt_id": key, "value": value} for key, value in member("answers", answers).items()]
    body = {"resume": resume, **given(**{"as": name})}
    return Call("POST", session_path(session_id, "resume"), read_accepted, body=body, headers=keyed(idempotency_key))


def cancel(session_id: str) -> Call[Accepted]:
    """Stop the turn and withdraw its interrupts. `Conflict` when there is no turn."""
    return Call("POST", session_path(session_id, "cancel"), read_accepted)


def retry(session_id: str) -> Call[Accepted]:
    """Take the failed turn up again, where it stood: its journal is replayed, and what it asks is open again.

    For errors with the journal kept (`Session.can_be_retried`); `Conflict` where there is nothing to retry.
    """
    return Call("POST", session_path(session_id, "retry"), read_accepted)


def get_journal(session_id: str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[JournalEntry]]:
    """What happened in the session's newest turn, oldest first; empty once its journal is gone (`--keep-journal`)."""
    query = {"limit": limit, "cursor": cursor}
    return Call("GET", session_path(session_id, "journal"), page_of(JournalEntry.from_json), query=query)


# --- interrupts ---


def list_interrupts(
    *,
    status: str | None = None,
    type: str | None = None,
    tool: str | None = None,
    session_id: str | None = None,
    agent: str | None = None,
    created_after: datetime | str | None = None,
    q: str | None = None,
    snoozed: bool | None = None,
    claimed_by: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Interrupt]]:
    """Interrupts of all sessions, newest first, narrowed by what is given.

    created_after: a datetime with a time zone, else `ValueError`, or such a time as text.
    q: what they say, whatever the case: in a value of the payload, in the message, or in the agent's name.
    """
    query = {
        "status": status,
        "type": type,
        "tool": tool,
        "session_id": session_id,
        "agent": agent,
        "created_after": moment("created_after", created_after),
        "q": q,
        "snoozed": None if snoozed is None else str(flag("snoozed", snoozed)).lower(),
        "claimed_by": claimed_by,
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", "/interrupts", page_of(Interrupt.from_json), query=query)


def get_interrupt(interrupt_id: str) -> Call[Interrupt]:
    """One interrupt, whatever its status."""
    return Call("GET", interrupt_path(interrupt_id), lambda data, _: Interrupt.from_json(data))


def answer(
    interrupt_id: str, value: Any, *, name: str | None = None, idempotency_key: str | None = None
) -> Call[Accepted]:
    """Answer an interrupt without naming its session. The same value again gets the stored outcome (`replayed`).

    name: who has claimed it, where the server has no keys.
    """
    return Call(
        "POST",
        interrupt_path(interrupt_id, "resume"),
        read_accepted,
        body={"value": value, **given(**{"as": name})},
        headers=keyed(idempotency_key),
    )


def approve(interrupt_id: str, *, always: bool = False, name: str | None = None) -> Call[Accepted]:
    """Let the tool run with exactly the arguments that were shown.

    `Invalid` where it is no tool approval: `answer` is for other questions.

    always: also without asking, whatever its arguments, for the rest of the session; `list_grants` shows it.
    name: who has claimed it, where the server has no keys.
    """
    return _decide(interrupt_id, {"approved": True, **_always(always)}, name=name)


def edit(interrupt_id: str, args: Mapping[str, Any], *, name: str | None = None) -> Call[Accepted]:
    """Let the tool run with these arguments, all of them, instead of those that were shown; the model is told.

    `Invalid` where they do not fit the tool, a rule denies them, or it is no tool approval: it still waits.
    name: who has claimed it, where the server has no keys.
    """
    return _decide(interrupt_id, {"type": "edit", "args": tool_arguments(args)}, name=name)


def reject(
    interrupt_id: str,
    reason: str | None = None,
    *,
    message: str | None = None,
    always: bool = False,
    name: str | None = None,
) -> Call[Accepted]:
    """Do not let the tool run; the model hears the reason.

    `Invalid` where it is no tool approval: `answer` is for other questions.

    message: what the model hears instead of the built-in text.
    always: also without asking for the rest of the session.
    name: who has claimed it, where the server has no keys.
    """
    value: dict[str, Any] = {"approved": False} if message is None else {"type": "reject", "message": message}
    if reason is not None:
        value["reason"] = reason
    return _decide(interrupt_id, {**value, **_always(always)}, name=name)


def respond(interrupt_id: str, message: Any, *, name: str | None = None) -> Call[Accepted]:
    """Answer in the tool's place: it does not run, `message` (any JSON value) is its result.

    `Invalid` where it is no tool approval: `answer` is for other questions.

    name: who has claimed it, where the server has no keys.
    """
    return _decide(interrupt_id, {"type": "respond", "message": message}, name=name)


def _decide(interrupt_id: str, decision: dict[str, Any], *, name: str | None) -> Call[Accepted]:
    """To a question without a schema a decision would be a value like any other, a rejection no less than a yes."""
    decided = answer(interrupt_id, decision, name=name)
    return replace(decided, body={**decided.body, "expected_type": "tool_approval"})


def claim(interrupt_id: str, *, seconds: float | None = None, name: str | None = None) -> Call[Interrupt]:
    """Keep everybody else from answering for `seconds` (300). `Conflict` while somebody else has it, `Forbidden` where
    one may not answer it.

    name: who claims it, where the server has no keys; the same one answers it and releases it.
    """
    return _triage("POST", interrupt_id, "claim", body=given(seconds=seconds, **{"as": name}))


def release(interrupt_id: str, *, name: str | None = None) -> Call[Interrupt]:
    """Give up a claim; nothing happens where there is none. `Conflict` where it is somebody else's."""
    return _triage("DELETE", interrupt_id, "claim", query={"as": name})


def snooze(interrupt_id: str, seconds: float, *, name: str | None = None) -> Call[Interrupt]:
    """Put it off: it is pending all the same, and can be answered. `Forbidden` where one may not answer it."""
    return _triage("POST", interrupt_id, "snooze", body=given(seconds=seconds, **{"as": name}))


def unsnooze(interrupt_id: str) -> Call[Interrupt]:
    """Put it off no longer; nothing happens where it is not."""
    return _triage("DELETE", interrupt_id, "snooze")


# --- grants ---


def list_grants(session_id: str) -> Call[list[Grant]]:
    """What was decided for the rest of the session, oldest first."""
    return Call("GET", session_path(session_id, "grants"), lambda data, _: [Grant.from_json(entry) for entry in data])


def revoke_grant(session_id: str, grant_id: str) -> Call[None]:
    """Take a grant back: later calls ask again."""
    return Call("DELETE", session_path(session_id, "grants", path_part("grant_id", grant_id)), read_nothing)


# --- the audit ---


def list_audit(
    *,
    session_id: str | None = None,
    interrupt_id: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    after: datetime | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Mapping[str, Any]]]:
    """Who did what, oldest first, as docs/audit.md describes a row. Rows outlive their sessions.

    after: a datetime with a time zone, else `ValueError`, or such a time as text.
    """
    query = {
        "session_id": session_id,
        "interrupt_id": interrupt_id,
        "actor": actor,
        "action": action,
        "after": moment("after", after),
        "limit": limit,
        "cursor": cursor,
    }
    read: Callable[[Any], Mapping[str, Any]] = dict
    return Call("GET", "/audit", page_of(read), query=query)


# --- webhooks ---


def list_webhooks(
    *,
    status: str | None = None,
    session_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Notice]]:
    """What webhooks are told, newest first: one notice for each event and webhook."""
    query = {"status": status, "session_id": session_id, "limit": limit, "cursor": cursor}
    return Call("GET", "/webhooks", page_of(Notice.from_json), query=query)


def retry_webhook(notice_id: str) -> Call[Notice]:
    """Try a notice again that was given up. `Conflict` where it was not."""
    path = f"/webhooks/{path_part('notice_id', notice_id)}/retry"
    return Call("POST", path, lambda data, _: Notice.from_json(data))


# --- what takes several calls ---


def wait(session_id: str, timeout: float | None = None) -> Generator[Call[Any], Any, Session]:
    """The session once it is not running any more: idle, interrupted or error.

    timeout: seconds in all; after them the session comes back still `running`. None waits as long as it takes.
    """
    return (yield from _until(session_id, _deadline(timeout)))


def ask(
    session_id: str,
    message: Message,
    timeout: float | None = None,
    *,
    webhook: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Generator[Call[Any], Any, Session]:
    """Send a message and wait for what comes of it; `wait` says when that is.

    Where this fails on the way, the turn may be at work all the same; under the same `idempotency_key` it can be asked
    again, and nothing is sent twice.
    """
    deadline = _deadline(timeout)
    call = send_message(session_id, message, webhook=webhook, idempotency_key=idempotency_key)
    left = _poll_before(deadline)
    query = {"wait": "true", "timeout": left}
    sent = yield from replace(cast(Call[Session | None], call), read=_read_waited, query=query, patience=left)
    if sent is not None and (sent.status != "running" or _is_past(deadline)):
        return sent
    return (yield from _until(session_id, deadline))


def _until(session_id: str, deadline: float | None) -> Generator[Call[Any], Any, Session]:
    while True:
        session = yield from get_session(session_id, wait=True, timeout=_poll_before(deadline))
        if session.status != "running" or _is_past(deadline):
            return session


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + seconds("timeout", timeout)


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _poll_before(deadline: float | None) -> float:
    """Seconds of the next poll."""
    return LONG_POLL if deadline is None else max(0.0, min(LONG_POLL, deadline - time.monotonic()))


# --- shared ---


def _message(message: Message) -> Mapping[str, Any]:
    if isinstance(message, str):
        return {"role": "user", "content": message}
    if isinstance(message, ChatMessage):
        return message.to_dict()
    made = members(message)
    if made is None:
        raise TypeError(f"a message is a str, a ChatMessage or a dict, got {type(message).__name__}")
    return made


def _triage(
    method: str, interrupt_id: str, what: str, *, body: Any = ABSENT, query: Mapping[str, object] | None = None
) -> Call[Interrupt]:
    path = interrupt_path(interrupt_id, what)
    return Call(method, path, lambda data, _: Interrupt.from_json(data), query=query or {}, body=body)


def _always(always: bool) -> Mapping[str, bool]:
    return {"always": True} if flag("always", always) else {}


def _read_session(data: Any, _: httpx2.Response) -> Session:
    return Session.from_json(data)


def _read_waited(data: Any, response: httpx2.Response) -> Session | None:
    """None of a server of before, which takes the message and does not wait."""
    return None if response.status_code == httpx2.codes.ACCEPTED else Session.from_json(data)
