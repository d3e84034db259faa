"""A server of a few hundred lines that speaks the session API, for what a real one cannot be made to do on demand:
answering another request in between, cutting a stream, going away and coming back.

An agent is a coroutine function that gets a `Turn`. Requests are recorded. It runs in a thread with a loop of its own,
so that blocking clients and child processes can talk to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from hitl import _core

NOW = "2026-11-21T12:00:00.000Z"
Agent = Callable[["Turn"], Awaitable[str]]
NOBODY = {
    "name": None,
    "scopes": ["read", "send", "answer", "admin"],
    "groups": [],
    "authentication": False,
    "prevent_self_approval": False,
    "max_body": 1_048_576,
}
"""What `/me` says to everybody on a server without keys."""


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """One answer; `problem` makes an error one."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def problem(status: int, detail: str, code: str, **members: Any) -> Answer:
    body = {"type": "about:blank", "title": code, "status": status, "detail": detail, "code": code, **members}
    return Answer(status, body, {"content-type": "application/problem+json"})


def _built_in(payload: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that questions bring along, in short; what only looks like some is of a type like any other."""
    try:
        _core.check_questions(payload)
    except ValueError:
        return None
    return {"type": "object", "required": ["answers"], "properties": {"answers": {"type": "object"}}}


class FakeSession:
    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.status = "idle"
        self.response: dict[str, Any] | None = None
        self.error: str | None = None
        self.messages: list[dict[str, Any]] = []
        self.interrupts: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.changed = asyncio.Condition()

    @property
    def pending(self) -> list[dict[str, Any]]:
        return [record for record in self.interrupts.values() if record["status"] == "pending"]

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.id,
            "status": self.status,
            "response": self.response,
            "error": self.error,
            "interrupts": self.pending if self.status == "interrupted" else None,
        }


class Turn:
    """What an agent of the fake server can do."""

    def __init__(self, server: FakeServer, session: FakeSession, text: str) -> None:
        self.text = text
        self._server = server
        self._session = session

    async def ask(self, payload: dict[str, Any], **members: Any) -> Any:
        """Open an interrupt and wait for its answer."""
        record = {
            "interrupt_id": str(uuid4()),
            "session_id": self._session.id,
            "turn_id": "1",
            "type": payload.get("type", "unknown"),
            "payload": payload,
            "status": "pending",
            "created_at": NOW,
            "response_schema": _built_in(payload),
            **members,
        }
        answer = self._session.answers[record["interrupt_id"]] = asyncio.get_running_loop().create_future()
        self._session.interrupts[record["interrupt_id"]] = record
        self._server.publish("interrupt.created", record)
        await self._server.change(self._session, "interrupted")
        return await answer

    def delta(self, content: str, step_id: str = "0#0", attempt: int = 1) -> None:
        """Send a piece of a message; like the real ones it is not stored."""
        data = {"session_id": self._session.id, "step_id": step_id, "attempt": attempt, "delta": {"content": content}}
        self._server.publish("message.delta", data, stored=False)

    def tool(self, word: str, name: str, *, stored: bool = True, **data: Any) -> None:
        """Tell that a tool has ``started`` or ``finished``."""
        event = {"session_id": self._session.id, "turn_id": "1", "step_id": "0#1", "tool_call_id": "c1", "name": name}
        self._server.publish(f"tool.{word}", {**event, **data}, stored=stored)


class FakeServer:
    """Enter it to start it; `url` is where it listens."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.requests: list[Request] = []
        self.sessions: dict[str, FakeSession] = {}
        self.overrides: dict[tuple[str, str], list[Answer]] = {}
        self.replies_to_lose = 0
        self.retry = 10
        """Milliseconds for which it wants to be left alone when a stream has ended. A real one says 1000."""
        """So many of the next requests are carried out, and their connections cut in the place of a reply."""
        self.port = 0
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._listeners: list[asyncio.Queue[tuple[int | None, str, dict[str, Any]] | None]] = []
        self._connections: set[asyncio.StreamWriter] = set()
        self._turns: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    # --- for tests, from any thread ---

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._run(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        """Listen, again on the same port after `stop`."""
        self._run(self._start())

    def stop(self) -> None:
        """Go away: stop listening and cut every connection. Sessions and turns stay."""
        self._run(self._stop())

    def cut_streams(self) -> None:
        """Cut every event stream; clients may come back."""
        self._run(self._cut_streams())

    def override(self, method: str, path: str, *answers: Answer) -> None:
        """Give these answers, one each, to the next requests of that method and path."""
        self.overrides[method, path] = list(answers)

    def answer(self, interrupt_id: str, value: Any, by: str | None = None) -> None:
        """Answer an interrupt as somebody else would."""
        self._run(self._settle(interrupt_id, "resolved", value, by))

    def settle(self, interrupt_id: str, status: str) -> None:
        """Let an interrupt expire, or be withdrawn."""
        self._run(self._settle(interrupt_id, status, None, None))

    def delete(self, session_id: str) -> None:
        self._run(self._delete(session_id))

    def only_session(self) -> FakeSession:
        (session,) = self.sessions.values()
        return session

    def sent(self, method: str, ending: str) -> list[Request]:
        """The requests so far with that method, whose path ends like that."""
        return [request for request in self.requests if request.method == method and request.path.endswith(ending)]

    # --- what turns use, in the server's thread ---

    def publish(self, name: str, data: dict[str, Any], *, stored: bool = True) -> None:
        number = None
        if stored:
            number = len(self._events) + 1
            self._events.append((number, name, dict(data)))
        for listener in self._listeners:
            listener.put_nowait((number, name, dict(data)))

    async def change(self, session: FakeSession, status: str) -> None:
        async with session.changed:
            session.status = status
            self.publish(f"session.{status}", {"session_id": session.id, "status": status})
            session.changed.notify_all()

    # --- inside ---

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(timeout=100)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._cut_streams()
        for writer in list(self._connections):
            writer.transport.abort()

    async def _cut_streams(self) -> None:
        for listener in self._listeners:
            listener.put_nowait(None)

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _delete(self, session_id: str) -> None:
        session = self.sessions.pop(session_id)
        for record in session.pending:
            # The record is gone; the event names it only.
            names = {"session_id": session_id, "interrupt_id": record["interrupt_id"]}
            self.publish("interrupt.cancelled", names)
        async with session.changed:
            session.changed.notify_all()
        await self._cut_streams()

    async def _settle(self, interrupt_id: str, status: str, value: Any, by: str | None) -> None:
        session = next(session for session in self.sessions.values() if interrupt_id in session.interrupts)
        record = session.interrupts[interrupt_id]
        record.update(status=status, value=value, resolved_by=by, resolved_at=NOW)
        self.publish(f"interrupt.{status}", record)
        session.answers[interrupt_id].set_result(value)
        if not session.pending:
            await self.change(session, "running")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                if request.path.endswith("/events"):
                    await self._stream(request, writer)
                    return
                answer = await self._answer(request)
                if self.replies_to_lose:
                    self.replies_to_lose -= 1
                    return
                _write(writer, answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client hung up, or a test cut the connection.
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _stream(self, request: Request, writer: asyncio.StreamWriter) -> None:
        parts = request.path.strip("/").split("/")
        session_id = parts[1] if parts[0] == "sessions" else None
        override = self.overrides.get((request.method, request.path))
        if override:
            _write(writer, override.pop(0))
            return
        if session_id is not None and session_id not in self.sessions:
            _write(writer, problem(404, "Session not found", "session_not_found"))
            return
        after = int(request.headers.get("last-event-id", len(self._events)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        writer.write(f": listening\nretry: {self.retry}\nid: {after}\n\n: still here\n\n".encode())
        events: asyncio.Queue[tuple[int | None, str, dict[str, Any]] | None] = asyncio.Queue()
        for event in self._events[after:]:
            events.put_nowait(event)
        self._listeners.append(events)
        try:
            while (heard := await events.get()) is not None:
                number, name, data = heard
                if session_id in (None, data["session_id"]):
                    identity = "" if number is None else f"id: {number}\n"
                    writer.write(f"{identity}event: {name}\ndata: {json.dumps(data)}\n\n".encode())
                    await writer.drain()
        finally:
            self._listeners.remove(events)

    async def _answer(self, request: Request) -> Answer:
        override = self.overrides.get((request.method, request.path))
        if override:
            return override.pop(0)
        match request.method, [unquote(part) for part in request.path.strip("/").split("/")]:
            case "GET", ["health"]:
                total = len(self.sessions)
                return Answer(
                    body={"status": "ok", "max_workers": 2, "running_workers": 0, "total_sessions": total, "queued": 0}
                )
            case "GET", ["me"]:
                return Answer(body=NOBODY)
            case "POST", ["sessions"]:
                session = FakeSession(str(uuid4()))
                self.sessions[session.id] = session
                session.messages = list((request.body or {}).get("state", []))
                return Answer(201, session.to_json(), {"location": f"/sessions/{session.id}"})
            case "PUT", ["sessions", _]:
                return problem(405, "Custom session IDs are not enabled", "custom_ids_disabled")
            case "GET", ["sessions"]:
                return _page(
                    request,
                    [{"session_id": s.id, "total_messages": 0, "status": s.status} for s in self.sessions.values()],
                )
            case "GET", ["interrupts"]:
                return _page(request, [record for s in self.sessions.values() for record in s.interrupts.values()])
            case method, ["interrupts", interrupt_id, *rest]:
                return await self._interrupt(method, interrupt_id, rest, request)
            case method, ["sessions", session_id, *rest]:
                if session_id not in self.sessions:
                    return problem(404, "Session not found", "session_not_found")
                return await self._session(self.sessions[session_id], method, rest, request)
        return problem(404, "No such path", "not_found")

    async def _session(self, session: FakeSession, method: str, rest: list[str], request: Request) -> Answer:
        match method, rest:
            case "GET", []:
                if request.query.get("wait") == "true":
                    return await self._waited(session, request)
                return Answer(body=session.to_json())
            case "DELETE", []:
                await self._delete(session.id)
                return Answer(204)
            case "GET", ["messages"]:
                return Answer(body=session.messages)
            case "POST", ["messages"]:
                if session.status in ("running", "interrupted"):
                    return problem(409, f"Session is {session.status}", "session_busy")
                session.messages.append({key: value for key, value in request.body.items() if key != "webhook"})
                session.response = session.error = None
                await self.change(session, "running")
                task = self._loop.create_task(self._turn(session, request.body.get("content")))
                self._turns.add(task)
                task.add_done_callback(self._turns.discard)
                if request.query.get("wait") == "true":
                    return await self._waited(session, request)
                return Answer(202, {"session_id": session.id, "status": "running"})
            case "POST", ["resume"]:
                return await self._resume(session, request.body["interrupt_id"], request.body["value"])
            case "POST", ["cancel"]:
                session.error = "Turn cancelled"
                await self.change(session, "error")
                return Answer(body=session.to_json())
        return problem(404, "No such path", "not_found")

    async def _interrupt(self, method: str, interrupt_id: str, rest: list[str], request: Request) -> Answer:
        session = next((s for s in self.sessions.values() if interrupt_id in s.interrupts), None)
        if session is None:
            return problem(404, f"Unknown interrupt_id: {interrupt_id}", "unknown_interrupt")
        if method == "GET":
            return Answer(body=session.interrupts[interrupt_id])
        return await self._resume(session, interrupt_id, request.body["value"])

    async def _resume(self, session: FakeSession, interrupt_id: str, value: Any) -> Answer:
        record = session.interrupts[interrupt_id]
        if record["status"] == "resolved":
            if record["value"] == value:
                return Answer(body={"session_id": session.id, "status": session.status, "replayed": True})
            who = {"resolved_by": record["resolved_by"], "resolved_at": record["resolved_at"]}
            return problem(409, "Interrupt already resolved", "already_resolved", **who)
        await self._settle(interrupt_id, "resolved", value, None)
        return Answer(body={"session_id": session.id, "status": session.status})

    async def _turn(self, session: FakeSession, text: str) -> None:
        try:
            content = await self.agent(Turn(self, session, text))
        except Exception as error:  # noqa: BLE001 - an agent may raise anything, as in a real worker
            session.error = f"{type(error).__name__}: {error}"
            await self.change(session, "error")
        else:
            session.response = {"role": "assistant", "content": content}
            session.messages.append(session.response)
            await self.change(session, "idle")

    async def _waited(self, session: FakeSession, request: Request) -> Answer:
        await self._wait(session, float(request.query["timeout"]) if "timeout" in request.query else None)
        if session.id not in self.sessions:
            return problem(404, "Session deleted", "session_deleted")
        return Answer(body=session.to_json())

    async def _wait(self, session: FakeSession, timeout: float | None) -> None:
        def is_over() -> bool:
            return session.status != "running" or session.id not in self.sessions

        async with session.changed:
            # At the time-out the session is still running, and the answer says so.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(session.changed.wait_for(is_over), timeout)


def _page(request: Request, items: list[dict[str, Any]]) -> Answer:
    status = request.query.get("status")
    items = [item for item in items if status in (None, item["status"])]
    start, size = int(request.query.get("cursor", 0)), int(request.query.get("limit", 100))
    headers = {}
    if start + size < len(items):
        headers["link"] = f'<{request.path}?cursor={start + size}&limit={size}>; rel="next"'
    return Answer(body=items[start : start + size], headers=headers)


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    method, target, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return Request(method, parts.path, query, headers, json.loads(body) if body else None)


def _write(writer: asyncio.StreamWriter, answer: Answer) -> None:
    body = b"" if answer.status == 204 else json.dumps(answer.body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
