"""Clients of a hitl server.

    with Client("http://127.0.0.1:8000") as client:
        session = client.create_session()
        session = client.ask(session.session_id, "delete the old logs file")
        for interrupt in session.interrupts:
            client.approve(interrupt.id)
        session = client.wait(session.session_id)

Importing this imports httpx2 (0.2 s), so `import hitl` does not.
"""

from hitl.client.async_client import AsyncClient, AsyncEventStream
from hitl.client.errors import (
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    RateLimited,
    ServerFault,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)
from hitl.client.health import Health, ServerHealth
from hitl.client.models import (
    Accepted,
    Event,
    Grant,
    Interrupt,
    InterruptStatus,
    JournalEntry,
    Key,
    Me,
    Notice,
    Page,
    Replay,
    Session,
    SessionStatus,
    SessionSummary,
)
from hitl.client.sync_client import Client, EventStream

__all__ = [
    "Accepted",
    "ApiError",
    "AsyncClient",
    "AsyncEventStream",
    "BadRequest",
    "Client",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "Event",
    "EventStream",
    "Forbidden",
    "Gone",
    "Grant",
    "Health",
    "Interrupt",
    "InterruptStatus",
    "Invalid",
    "JournalEntry",
    "Key",
    "Me",
    "MethodNotAllowed",
    "NotFound",
    "Notice",
    "Page",
    "RateLimited",
    "Replay",
    "ServerFault",
    "ServerHealth",
    "Session",
    "SessionStatus",
    "SessionSummary",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
]
