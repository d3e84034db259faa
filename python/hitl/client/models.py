"""What the server answers, as dataclasses. `raw` always holds the JSON object as it came, unknown members included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from hitl.errors import RETRIABLE_ERRORS as RETRIABLE_ERRORS
from hitl.messages import ChatMessage

SessionStatus = Literal["idle", "running", "interrupted", "error"]
InterruptStatus = Literal["pending", "resolved", "expired", "cancelled"]
NoticeStatus = Literal["scheduled", "pending", "delivered", "failed"]
Json = Mapping[str, Any]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question to a person, and what a valid answer to it is.

    claimed_by, claimed_until: who works on it; nobody else can answer it until then. None where nobody does.
    snoozed_by, snoozed_until: who put it off, and until when. It is pending all the same.
    sent_by: the name of the key that sent the message; None where nobody was asked for one.
    approvers: who alone may answer, names of keys and `group:<name>`; empty where whoever may answer at all may.
    rule_failed: which rules could not tell about the call, and why; None where each could.
    tool_source: where the tool is from when it is not the agent's own, such as an MCP server.
    lets_run: the answer may let something run although the type does not say so: a hook or middleware asks.
    """

    interrupt_id: str
    type: str
    payload: Json
    session_id: str | None = None
    turn_id: str | None = None
    status: InterruptStatus = "pending"
    message: str | None = None
    response_schema: Json | None = None
    allowed_decisions: tuple[str, ...] | None = None
    tool_call_id: str | None = None
    agent: str | None = None
    rule: str | None = None
    args_digest: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    value: Any = None
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    metadata: Json | None = None
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    snoozed_by: str | None = None
    snoozed_until: datetime | None = None
    sent_by: str | None = None
    tool_source: str | None = None
    approvers: tuple[str, ...] = ()
    rule_failed: str | None = None
    lets_run: bool = False
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> Interrupt:
        decisions = data.get("allowed_decisions")
        return cls(
            interrupt_id=data["interrupt_id"],
            type=data["type"],
            payload=data["payload"],
            session_id=data.get("session_id"),
            turn_id=data.get("turn_id"),
            status=data.get("status", "pending"),
            message=data.get("message"),
            response_schema=data.get("response_schema"),
            allowed_decisions=None if decisions is None else tuple(decisions),
            tool_call_id=data.get("tool_call_id"),
            agent=data.get("agent"),
            rule=data.get("rule"),
            args_digest=data.get("args_digest"),
            created_at=_time(data.get("created_at")),
            expires_at=_time(data.get("expires_at")),
            value=data.get("value"),
            resolved_by=data.get("resolved_by"),
            resolved_at=_time(data.get("resolved_at")),
            metadata=data.get("metadata"),
            claimed_by=data.get("claimed_by"),
            claimed_until=_time(data.get("claimed_until")),
            snoozed_by=data.get("snoozed_by"),
            snoozed_until=_time(data.get("snoozed_until")),
            sent_by=data.get("sent_by"),
            tool_source=data.get("tool_source"),
            approvers=tuple(data.get("approvers", ())),
            rule_failed=data.get("rule_failed"),
            lets_run=data.get("lets_run", False),
            raw=data,
        )

    @property
    def id(self) -> str:
        return self.interrupt_id

    @property
    def tool_name(self) -> str | None:
        """The tool that waits for a decision; None where the question is another one."""
        return self.payload.get("tool_name")

    @property
    def tool_args(self) -> Json | None:
        """Exactly the arguments that run when the call is approved."""
        return self.payload.get("tool_args")


@dataclass(frozen=True, slots=True)
class Me:
    """Who one is to the server.

    name: the key's; None on a server without keys.
    scopes: what it may do: `read`, `send`, `answer`, `admin`; all of them on a server without keys.
    groups: those it is in, which `approvers` name as `group:<name>`.
    authentication: whether the server asks for keys.
    prevent_self_approval: whether nobody may approve the tools of a message of their own.
    max_body: how many bytes a request may have, as a message with its files is one.
    """

    name: str | None
    scopes: tuple[str, ...]
    groups: tuple[str, ...]
    authentication: bool
    prevent_self_approval: bool
    max_body: int
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> Me:
        return cls(
            name=data["name"],
            scopes=tuple(data["scopes"]),
            groups=tuple(data["groups"]),
            authentication=data["authentication"],
            prevent_self_approval=data["prevent_self_approval"],
            max_body=data["max_body"],
            raw=data,
        )

    def may(self, scope: str) -> bool:
        """Whether one has this scope; `admin` has all."""
        return scope in self.scopes or "admin" in self.scopes


@dataclass(frozen=True, slots=True)
class Replay:
    """What is to be said about replays of a session's turn.

    pure: whether everything that the turn did is in its journal.
    impure_at: `file.py:12`, where it first did something that is not, such as I/O outside of a step.
    warnings: where a replay differed harmlessly from what was recorded.
    waits_for: what a replay that is under way has waited for over thirty seconds, such as `raw I/O at agent.py:31`.
    """

    pure: bool = True
    impure_at: str | None = None
    warnings: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Json) -> Replay:
        waits_for = tuple(_holder(each) for each in data.get("waits_for") or ())
        return cls(data["pure"], data.get("impure_at"), tuple(data.get("warnings") or ()), waits_for)


def _holder(data: Json) -> str:
    what: str = data["what"]
    return what if data.get("location") is None else f"{what} at {data['location']}"


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation. `interrupts` holds what is pending, in order of arrival; empty unless interrupted.

    replay: what is to be said about replays of its turn; None where there is nothing to say.
    """

    session_id: str
    status: SessionStatus
    response: ChatMessage | None
    error: str | None
    error_code: str | None
    interrupts: tuple[Interrupt, ...]
    replay: Replay | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> Session:
        response = data.get("response")
        return cls(
            session_id=data["session_id"],
            status=data["status"],
            response=None if response is None else ChatMessage.from_dict(response),
            error=data.get("error"),
            error_code=data.get("error_code"),
            interrupts=tuple(Interrupt.from_json(entry) for entry in data.get("interrupts") or ()),
            replay=None if data.get("replay") is None else Replay.from_json(data["replay"]),
            raw=data,
        )

    @property
    def can_be_retried(self) -> bool:
        """Whether its turn failed with the journal kept: `retry` takes it up where it stood."""
        return self.status == "error" and self.error_code in RETRIABLE_ERRORS


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One line of the list of sessions.

    title: the first message that was sent to it, on one line, at most 80 characters; None where there is none with
        words, and from a server of an earlier release.
    agent_name: what people call its agent; None from a server of an earlier release.
    """

    session_id: str
    total_messages: int
    status: SessionStatus
    title: str | None
    agent_name: str | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> SessionSummary:
        named = (data.get("title"), data.get("agent_name"))
        return cls(data["session_id"], data["total_messages"], data["status"], *named, data)


@dataclass(frozen=True, slots=True)
class Grant:
    """A decision for the rest of a session, about one tool of one agent.

    created_by: who decided, where authentication told.
    approvers: who alone could decide; empty where whoever may answer at all could. It does not hold for a call that
        others alone may decide.
    turn_id: the turn that it ends with, where the tool's own code made it; None where a person did.
    """

    grant_id: str
    agent: str | None
    tool: str
    decision: Literal["approve", "reject"]
    reason: str | None
    message: str | None
    created_at: datetime
    created_by: str | None
    tool_source: str | None
    approvers: tuple[str, ...]
    turn_id: str | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> Grant:
        return cls(
            grant_id=data["grant_id"],
            agent=data.get("agent"),
            tool=data["tool"],
            decision=data["decision"],
            reason=data.get("reason"),
            message=data.get("message"),
            created_at=datetime.fromisoformat(data["created_at"]),
            created_by=data.get("created_by"),
            tool_source=data.get("tool_source"),
            approvers=tuple(data.get("approvers", ())),
            turn_id=data.get("turn_id"),
            raw=data,
        )


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What happened in a turn: one entry of its journal.

    entry: `start`, `taken`, `intent`, `step`, `ask`, `answer`, `expire`, `withdraw`, `timer`, `wakes`, `pause`,
        `cancel` or `end`.
    kind, name, location: of a step: `model`, `tool` and so on, the function's name, and `file.py:12`.
    tool_call_id: of a step that is a call out of a model's message: which one.
    result: what a model or tool call returned, or the answer; its first 2 KiB as text where it is `shortened`.
    attachments: images and files, of the `start` those of the message, of a tool those that it returned: `media_type`,
        and `name`, `data` and `url` as a message has them; without the last two where one is `"shortened": true`.
    error: what a step raised, or why the turn failed.
    """

    index: int
    at: datetime
    entry: str
    kind: str | None
    name: str | None
    location: str | None
    path: str | None
    tool_call_id: str | None
    interrupt_id: str | None
    result: Any
    error: str | None
    shortened: bool
    attachments: tuple[Json, ...] = field(repr=False)
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> JournalEntry:
        return cls(
            index=data["index"],
            at=datetime.fromisoformat(data["at"]),
            entry=data["entry"],
            kind=data.get("kind"),
            name=data.get("name"),
            location=data.get("location"),
            path=data.get("path"),
            tool_call_id=data.get("tool_call_id"),
            interrupt_id=data.get("interrupt_id"),
            result=data.get("result"),
            error=data.get("error"),
            shortened=bool(data.get("shortened", False)),
            attachments=tuple(data.get("attachments", ())),
            raw=data,
        )


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a server's store. `secret` is set where it was just made, and never again."""

    key_id: str
    name: str
    scopes: tuple[str, ...]
    groups: tuple[str, ...]
    created_at: datetime
    created_by: str | None
    revoked_at: datetime | None
    secret: str | None = field(repr=False)
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> Key:
        return cls(
            key_id=data["key_id"],
            name=data["name"],
            scopes=tuple(data["scopes"]),
            groups=tuple(data["groups"]),
            created_at=datetime.fromisoformat(data["created_at"]),
            created_by=data["created_by"],
            revoked_at=_time(data["revoked_at"]),
            secret=data.get("key"),
            raw=data,
        )


@dataclass(frozen=True, slots=True)
class Notice:
    """What one webhook is told of one event.

    notice_id: what the receiver sees as `webhook-id`, the same in all tries.
    url: without user and query, which may be secret.
    next_try_at: None while one of the same session and URL comes before it, and once it is settled.
    """

    notice_id: str
    session_id: str
    interrupt_id: str | None
    event: str
    reminder: int
    url: str
    status: NoticeStatus
    attempts: int
    last_error: str | None
    created_at: datetime
    next_try_at: datetime | None
    settled_at: datetime | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> Notice:
        return cls(
            notice_id=data["notice_id"],
            session_id=data["session_id"],
            interrupt_id=data.get("interrupt_id"),
            event=data["event"],
            reminder=data.get("reminder", 0),
            url=data["url"],
            status=data["status"],
            attempts=data["attempts"],
            last_error=data.get("last_error"),
            created_at=datetime.fromisoformat(data["created_at"]),
            next_try_at=_time(data.get("next_try_at")),
            settled_at=_time(data.get("settled_at")),
            raw=data,
        )


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that was taken: the session's status right after it.

    replayed: True when the server had this very answer already and gives the stored outcome.
    """

    session_id: str
    status: SessionStatus
    replayed: bool
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> Accepted:
        return cls(data["session_id"], data["status"], bool(data.get("replayed", False)), data)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event. `type` is for example `session.idle`, `interrupt.created`, `message.delta`,
    `message.completed`, `tool.started` or `tool.finished`.

    An event of type `reconnected` (`id` None, `data` empty) is the client's own: the stream broke and is back. Stored
    events are not lost by that; deltas are, and `tool.started` of tools that may run again after a crash.
    """

    id: str | None
    type: str
    data: Json

    @property
    def session_id(self) -> str | None:
        return self.data.get("session_id")

    @property
    def interrupt_id(self) -> str | None:
        return self.data.get("interrupt_id")

    @property
    def message(self) -> Json | None:
        """What a model has said, whole: of `message.completed`."""
        return self.data.get("message") if self.type == "message.completed" else None

    @property
    def tool_name(self) -> str | None:
        """The tool: of `tool.started` and `tool.finished`."""
        return self.data.get("name") if self.type.startswith("tool.") else None

    @property
    def tool_call_id(self) -> str | None:
        """The call of a model's message that the event is about."""
        return self.data.get("tool_call_id")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some of a list. `next_cursor` fetches what follows; None on the last page."""

    items: Sequence[Item]
    next_cursor: str | None

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
