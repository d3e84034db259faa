"""Served: the session API, asked with `hitl.client`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hitl import Decision
from hitl.client import Client, ClientError, Conflict, Invalid, NotFound
from hitl.client.models import Event, Interrupt
from hitl.serving.server import Server
from tests.python.behaviours.faces.disk import full_disk, newer_file
from tests.python.behaviours.faces.face import Conversation, Face, Waiting
from tests.python.behaviours.faces.native import last_request, native_agent, rejection, without_system
from tests.python.behaviours.scenes import Scene
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

PATIENCE = 60.0


class ServerConversation(Conversation):
    """A session. Each pause is parked at once, so that each resume is a replay."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.session_id = client.create_session().session_id

    def say(self, text: str) -> None:
        self.client.send_message(self.session_id, text)
        self._settle()

    def waiting(self) -> list[Waiting]:
        return [_waiting(one) for one in self.client.get_session(self.session_id).interrupts]

    def answer(self, answers: Sequence[tuple[str, Any]]) -> None:
        values = [(id, value.to_json() if isinstance(value, Decision) else value) for id, value in answers]
        if len(values) == 1:
            self.client.resume(self.session_id, *values[0])
        else:
            self._resume_all(values)
        self._settle()

    def look_again(self) -> None:
        self._settle()

    def cancel(self) -> None:
        self.client.cancel(self.session_id)
        self._settle()

    def _resume_all(self, values: list[tuple[str, Any]]) -> None:
        """As the client does it, but one interrupt may be named twice."""
        from hitl.client.calls import resume_many

        call = resume_many(self.session_id, dict(values))
        body = {"resume": [{"interrupt_id": id, "value": value} for id, value in values]}
        self.client._send(type(call)(call.method, call.path, call.read, body=body))

    def _settle(self) -> None:
        """Return when nothing is at work any more: a session is interrupted from its first question on."""
        eventually(self._is_settled, True, PATIENCE)
        session = self.client.get_session(self.session_id)
        self.is_out_of_steps = (session.error or "").startswith("MaxStepsExceeded")
        if session.status == "error" and not self.is_out_of_steps and session.error != "Turn cancelled":
            raise AssertionError(session.error)
        self.output = None if session.response is None else session.response.content

    def _is_settled(self) -> bool:
        return self.client.wait(self.session_id, PATIENCE).status != "running" and not self.is_at_work()

    def is_at_work(self) -> bool:
        health = self.client.health()
        return health.running_workers + health.raw["queued"] > 0


class LiveConversation(ServerConversation):
    """With an agent of this process."""

    def __init__(self, face: ServerFace, scene: Scene, streaming: bool) -> None:
        agent, self.chat = native_agent(scene, face.ledger)
        server = Server(agent, port=0, store="memory", log_level="error", park_after=0)
        face.cleanup.enter_context(server)
        super().__init__(face.cleanup.enter_context(Client(server.url)))
        self.streamed = []
        self._events: Iterator[Event] = iter(())
        if streaming:
            stream = face.cleanup.enter_context(self.client.events(self.session_id))
            stream.connect()
            self._events = iter(stream)

    def messages(self) -> list[dict[str, Any]]:
        return last_request(self.chat)

    def _settle(self) -> None:
        super()._settle()
        for event in self._events:
            match event.type:
                case "message.delta":
                    self.streamed.append(event.data["delta"].get("content", ""))
                case "session.interrupted" | "session.idle" | "session.error":
                    return


class ProcessConversation(ServerConversation):
    """With workers of `hitl serve`, and a store on disk."""

    def __init__(self, face: ServerFace, scene: Scene) -> None:
        self.face = face
        self.scene = scene
        self._serve()
        super().__init__(self.client)

    def messages(self) -> list[dict[str, Any]]:
        return without_system([message.to_dict() for message in self.client.get_messages(self.session_id)])

    def in_another_process(self) -> Conversation:
        """Every process that was involved is killed, and others are started."""
        left = self.waiting()
        self.served.kill()
        self._serve()
        assert self.waiting() == left
        return self

    def failing_store(self) -> AbstractContextManager[None]:
        return full_disk(self.served.pid)

    def from_the_future(self) -> None:
        self.served.kill()
        newer_file(self.face.folder / "served.db")
        self._serve()

    def _serve(self) -> None:
        environment = {"BEHAVIOUR_SCENE": json.dumps(self.scene.to_json()), "BEHAVIOUR_FOLDER": str(self.face.folder)}
        served = Served(
            "tests.python.behaviours.faces.served_agent:agent",
            environment=environment,
            store=f"sqlite:{self.face.folder / 'served.db'}",
            park_after=0,
        )
        self.face.cleanup.callback(_end, served)
        self.served = served
        self.client = self.face.cleanup.enter_context(Client(served.url))


def _end(served: Served) -> None:
    if served.is_running:
        served.kill()


def _waiting(one: Interrupt) -> Waiting:
    shown = one.tool_args if one.tool_name is not None else one.payload
    return Waiting(one.interrupt_id, one.tool_name, dict(shown or {}), one.agent, one.metadata)


class ServerFace(Face):
    name = "server"
    title = "Server"
    cannot = {
        25: "a message over HTTP is JSON, and there is no context beside it",
        (19, "usage"): "a session has no member for what its models used",
    }
    errors = {
        "unknown id": NotFound,
        "wrong kind": Invalid,
        "duplicate id": Invalid,
        "nothing pending": Conflict,
        "new message": Conflict,
        "failed save": ClientError,
        "withdrawn": Conflict,
        "newer version": AssertionError,  # `hitl serve` ends and says why
    }
    rejection = staticmethod(rejection)  # type: ignore[assignment]

    def open(
        self, scene: Scene, *, durable: bool = False, streaming: bool = False, context: dict[str, Any] | None = None
    ) -> ServerConversation:
        assert context is None
        return ProcessConversation(self, scene) if durable else LiveConversation(self, scene, streaming)
