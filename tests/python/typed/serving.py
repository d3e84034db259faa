"""Servers in a program, and their clients."""

from typing import Any, Literal, assert_type

import hitl
from hitl import Agent, ChatMessage, InvalidOption, ServeError, Server, ServerOptions
from hitl.client import (
    Accepted,
    ApiError,
    AsyncClient,
    AsyncEventStream,
    BadRequest,
    Client,
    ClientError,
    Conflict,
    ConnectionFailed,
    Event,
    EventStream,
    Forbidden,
    Gone,
    Grant,
    Health,
    Interrupt,
    InterruptStatus,
    Invalid,
    JournalEntry,
    Key,
    Me,
    MethodNotAllowed,
    NotFound,
    Notice,
    Page,
    RateLimited,
    Replay,
    ServerFault,
    ServerHealth,
    Session,
    SessionStatus,
    SessionSummary,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)

OPTIONS: ServerOptions = {"port": 0, "store": "memory", "isolation": "task", "webhooks": ["https://example.com/hook"]}


async def served(agent: Agent) -> None:
    async with Server(agent, port=0, store="memory", api_key="0123456789abcdef", park_after=5, ui=False) as server:
        assert_type(server, Server)
        assert_type(server.url, str)
        async with AsyncClient(server.url, api_key="0123456789abcdef") as client:
            session = await client.create_session()
            assert_type(session, Session)
            assert_type(await client.ask(session.session_id, "hello"), Session)
            assert_type(await client.list_interrupts(), Page[Interrupt])
            events = client.events(session.session_id)
            assert_type(events, AsyncEventStream)
            async for event in events:
                assert_type(event, Event)
                break


def served_without_a_loop(agent: Agent) -> int:
    try:
        with Server(agent, **OPTIONS) as server:
            use(server.url)
        with Server("mail:agent", workers=2, log_level="warning") as server:
            server.wait()
    except InvalidOption as error:
        print(error.option, error.hint)
    except ServeError as error:
        print(error.kind)
    return hitl.serve(agent, **OPTIONS)


def wrong_options(agent: Agent) -> None:
    Server(agent, prot=0)  # pyright: ignore[reportCallIssue]
    Server(agent, port="0")  # pyright: ignore[reportArgumentType]
    Server(agent, isolation="thread")  # pyright: ignore[reportArgumentType]
    Server(3)  # pyright: ignore[reportArgumentType]
    hitl.serve(agent, wokers=2)  # pyright: ignore[reportCallIssue]
    wrong: ServerOptions = {"hots": "0.0.0.0"}  # pyright: ignore[reportAssignmentType]
    print(wrong)


def use(url: str) -> None:
    with Client(url) as client:
        assert_type(client.health(), Health)
        assert_type(client.health().servers, tuple[ServerHealth, ...] | None)
        assert_type(client.me(), Me)
        session = client.create_session(session_id="mine")
        session = client.ask(session.session_id, "delete the old logs file")
        assert_type(session.status, SessionStatus)
        for asked in session.interrupts:
            assert_type(asked, Interrupt)
            assert_type(asked.status, InterruptStatus)
            client.approve(asked.id)
            client.reject(asked.id, reason="no")
            client.edit(asked.id, {"path": "/tmp/x"})
            client.respond(asked.id, "done")
            client.answer(asked.id, {"hex": "#fff"})
            client.claim(asked.id, name="ada")
            client.resume(session.session_id, asked.id, True, name="ada")
            client.resume_many(session.session_id, {asked.id: True}, name="ada", idempotency_key="1")
        assert_type(client.send_message(session.session_id, "and the new ones"), Accepted)
        assert_type(client.wait(session.session_id, 5), Session)
        assert_type(client.list_sessions(status="idle", q="a hat"), Page[SessionSummary])
        assert_type(client.list_keys(), list[Key])
        assert_type(client.get_messages(session.session_id, after=40, limit=100), list[ChatMessage])
        journal: list[JournalEntry] = [*client.get_journal(session.session_id)]
        grants: list[Grant] = [*client.list_grants(session.session_id)]
        notices: list[Notice] = [*client.list_webhooks()]
        print(journal, grants, notices, Replay)
        with client.events() as events:
            assert_type(events, EventStream)
            for event in events:
                assert_type(event.type, str)
                break
        client.approve(3)  # pyright: ignore[reportArgumentType]
        client.list_sessions(order="random")  # pyright: ignore[reportArgumentType]
        client.approve_all()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


REFUSED: tuple[type[ApiError], ...] = (
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    RateLimited,
    ServerFault,
    TooLarge,
    Unauthorized,
    Unavailable,
)
NOT_ANSWERED: tuple[type[ClientError], ...] = (ConnectionFailed, UnexpectedResponse)


def failed(error: ClientError) -> Literal["conflict", "gone", "other"]:
    match error:
        case Conflict():
            return "conflict"
        case NotFound():
            return "gone"
        case ApiError():
            print(error.code, error.status)
            return "other"
        case _:
            return "other"


def answer_of(session: Session) -> Any:
    if session.status == "idle" and session.response is not None:
        return session.response.content
    return session.error
