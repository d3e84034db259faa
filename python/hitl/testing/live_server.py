"""A real server inside a test, and turns that the test's `human` answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Unpack

from hitl.errors import HitlError
from hitl.testing.human import Human, hint_for_approvers
from hitl.turn.reporting import raised_here

if TYPE_CHECKING:
    from hitl.client import Client, Session
    from hitl.client.models import Interrupt
    from hitl.messages import ChatMessage
    from hitl.serving.options import ServerOptions
    from hitl.serving.server import Agent, ContextFrom, Server


_OWN_KEY = "hitl-testing"
"""The name of the key of `LiveServer.client`, where people have keys and nobody gave it one."""


class TurnFailed(HitlError):
    """A turn that ended in an error, or that did not end in time. `session` is how it was left."""

    code = "turn_failed"

    def __init__(self, message: str, session: Session) -> None:
        super().__init__(message, session)
        self.message = message
        self.session = session

    def __str__(self) -> str:
        return self.message


class LiveServer:
    """One running server. `client` talks to it, `send` runs a whole turn.

    Example:
        def test_a_question_stays_open(hitl_server: HitlServer) -> None:
            server: LiveServer = hitl_server("my_agent:agent", isolation="task")
            session = server.create_session()
            assert server.client.ask(session.session_id, "delete it").status == "interrupted"
    """

    def __init__(
        self,
        agent: Agent | str,
        human: Human,
        *,
        resources: Any = None,
        context_from: ContextFrom | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        from hitl.serving.server import Server

        self._human = human
        self._api_key: str | None = options.get("api_key")
        self._client: Client | None = None
        self._raised: dict[str, BaseException] = {}
        """What ended the last turn of each session that failed in this process."""
        self._people: dict[str, Client] = {}
        """Those of `Human.as_` who have answered here."""
        if human.groups and self._api_key is None:
            self._api_key = options["api_key"] = token_hex(16)
        defaults: ServerOptions = {"port": 0, "store": "memory", "log_level": "warning"}
        given: ServerOptions = defaults | options
        self._server: Server = Server(agent, resources=resources, context_from=context_from, **given)
        self._server.start()
        raised_here.append(self._keep)

    @property
    def url(self) -> str:
        """Where it listens, for example `http://127.0.0.1:41234`."""
        return self._server.url

    @property
    def client(self) -> Client:
        """A client of this server, with its key."""
        if self._client is None:
            from hitl.client import Client

            self._client = Client(self.url, api_key=self._api_key)
        return self._client

    def create_session(self, state: list[ChatMessage] | list[Mapping[str, Any]] | None = None) -> Session:
        """A new session, which starts with the messages of `state`."""
        return self.client.create_session(state)

    def send(
        self,
        message: str | ChatMessage | Mapping[str, Any],
        session: str | Session | None = None,
        *,
        timeout: float = 30.0,
    ) -> ChatMessage:
        """Run one turn, its interrupts answered by `human`, and return the agent's message.

        session: the session or its id; a new one when left out.
        timeout: seconds for the whole turn.

        Raises `UnexpectedInterrupt` for an interrupt no rule is for, `TurnFailed` for a turn that ends in an error
        (from what the agent raised, where that was in this process) or not in time, and `hitl.client.Conflict` for an
        interrupt that was decided otherwise before its rule's turn came.
        """
        __tracebackhide__ = True
        session_id = self._session_id(session)
        deadline = time.monotonic() + timeout
        self._raised.pop(session_id, None)
        self.client.send_message(session_id, message)
        while True:
            settled = self.client.wait(session_id, max(0.0, deadline - time.monotonic()))
            match settled.status:
                case "interrupted":
                    self._answer(settled)
                case "error":
                    failed = TurnFailed(settled.error or "the turn ended in an error", settled)
                    raise failed from self._raised.get(session_id)
                case "running":
                    raise TurnFailed(f"the turn did not end within {timeout:g} s", settled)
                case "idle":
                    if settled.response is None:
                        raise TurnFailed("the turn ended without a response", settled)
                    return settled.response

    def stop(self) -> None:
        """Stop serving; the fixture does it at the end of the test."""
        client, self._client = self._client, None
        with suppress(ValueError):  # the second time
            raised_here.remove(self._keep)
        try:
            for each in [*self._people.values(), *([] if client is None else [client])]:
                each.close()
            self._people.clear()
        finally:
            self._server.stop()

    def _client_of(self, name: str) -> Client:
        """A client with a key of that name, which is made where there is none yet."""
        if name not in self._people:
            from hitl.client import Client

            if self._api_key is None:
                # The first key shuts everybody else out: it is that of `client`, also where the test holds on to that.
                self._api_key = self.client.create_key(_OWN_KEY, ["admin"]).secret or ""
                self.client._http.headers["Authorization"] = f"Bearer {self._api_key}"
            for known in self.client.list_keys():  # of a server before this one, in the same store
                if known.name == name and known.revoked_at is None:
                    self.client.revoke_key(known.key_id)
            key = self.client.create_key(name, ["read", "answer"], self._human.groups[name])
            self._people[name] = Client(self.url, api_key=key.secret)
        return self._people[name]

    def _keep(self, session_id: str, raised: BaseException) -> None:
        self._raised[session_id] = raised

    def _session_id(self, session: str | Session | None) -> str:
        if isinstance(session, str):
            return session
        return (self.create_session() if session is None else session).session_id

    def _answer(self, session: Session) -> None:
        __tracebackhide__ = True
        # All of them first: a test should fail on what nobody answers before anything runs.
        for interrupt in session.interrupts:
            self._human.expects(interrupt)
        for interrupt in session.interrupts:
            self._answer_one(interrupt)

    def _answer_one(self, interrupt: Interrupt) -> None:
        from hitl.client import Conflict, Forbidden, Invalid

        __tracebackhide__ = True
        prepared = self._human.prepare(interrupt)
        client = self.client if prepared.by is None else self._client_of(prepared.by)
        try:
            client.answer(interrupt.interrupt_id, prepared.value)
        except Forbidden as error:
            error.add_note(f"it was given by {', '.join(map(str, prepared.rules))}")
            if error.code == "not_an_approver":
                error.add_note(f"\nhint: {hint_for_approvers(interrupt.approvers, prepared)}")
            raise
        except Conflict as error:
            # The answer before may have made the agent withdraw this question, or have decided it too (`always`): then
            # it needs none, and the rule is still to be used. But a test must not pass where the rule said otherwise.
            found = self.client.get_interrupt(interrupt.interrupt_id)
            if found.status == "cancelled" or (found.status == "resolved" and prepared.says(found.value)):
                return
            if found.status == "resolved":
                rules = ", ".join(map(str, prepared.rules))
                error.add_note(f"{rules} came too late: an earlier answer has decided this too, as {found.value}")
            raise
        except Invalid as error:
            error.add_note(f"it was given by {', '.join(map(str, prepared.rules))}")
            raise
        self._human.count(prepared)


class HitlServer:
    """What the fixture `hitl_server` is: call it with an agent to serve it until the test ends.

    Example:
        def test_it_deletes_after_a_yes(hitl_server: HitlServer, human: Human) -> None:
            human.on("delete_file").approve()
            assert hitl_server(agent).send("delete the old logs file").content == "It is gone."
    """

    def __init__(self, human: Human) -> None:
        self.options: ServerOptions = {}
        """Serve options for the servers of this test that do not say otherwise."""
        self._human = human
        self._running: list[LiveServer] = []

    def __call__(
        self,
        agent: Agent | str,
        *,
        resources: Any = None,
        context_from: ContextFrom | None = None,
        **serve_options: Unpack[ServerOptions],
    ) -> LiveServer:
        """Serve an agent on a free port.

        agent: a live object, whose turns run in this process; or `"module:attr"`, which real workers import.
        resources, context_from: of a live agent, in the place of what it declares; resources may be any object that
        plays them, which is not closed.
        serve_options: those of `hitl.Server`; the store is `memory` unless another one is named.
        """
        options: ServerOptions = self.options | serve_options
        server = LiveServer(agent, self._human, resources=resources, context_from=context_from, **options)
        self._running.append(server)
        return server

    @property
    def latest(self) -> LiveServer:
        """The server started last; LookupError when there is none."""
        if not self._running:
            raise LookupError("no server was started in this test\n\nhint: server = hitl_server(my_agent)")
        return self._running[-1]

    def stop(self) -> None:
        """Stop every server, the last one first; errors are raised, as an ExceptionGroup, once all have been told."""
        errors = []
        while self._running:
            try:
                self._running.pop().stop()
            except Exception as error:  # noqa: BLE001  (collected: one failure must not leave the others running)
                errors.append(error)
        if errors:
            raise ExceptionGroup("servers that did not stop", errors)


class LatestClient:
    """What the fixture `hitl_client` is: the client of the server that the test started last."""

    def __init__(self, servers: HitlServer) -> None:
        self._servers = servers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._servers.latest.client, name)
