"""In process: `hitl.run`, and a `RunState` that is text between two runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import hitl
from hitl import AlreadyResolved, AlreadyResumed, Decision, InvalidAnswer, NothingPending, RunState, UnknownInterrupt
from hitl.runs.interrupts import Interrupt
from hitl.runs.results import RunResult
from hitl.testing import ScriptedChatClient
from tests.python.behaviours.faces.disk import full_disk
from tests.python.behaviours.faces.elsewhere import Elsewhere
from tests.python.behaviours.faces.face import Conversation, Face, Waiting
from tests.python.behaviours.faces.native import native_agent, rejection, without_system
from tests.python.behaviours.scenes import Scene

AgentOfScene = tuple[Any, Sequence[list[dict[str, Any]]]]
"""An agent, and the messages of each request to its model."""


class RunConversation(Conversation):
    def __init__(self, face: RunFace, scene: Scene, store: hitl.Store | str, options: dict[str, Any]) -> None:
        self.face = face
        self.scene = scene
        self.streamed = []
        self._streaming = options.get("streaming", False)
        self.agent, self.requests = face.agent_of(scene, streaming=self._streaming)
        self._context = options.get("context")
        self._store = store
        self._state: str | None = options.get("state")
        self._past: str | None = None

    def say(self, text: str) -> None:
        self._take(self._run(text, session="talk", context=self._context))

    def waiting(self) -> list[Waiting]:
        return [self.shown(one) for one in self._read().interrupts] if self._state is not None else []

    @staticmethod
    def shown(one: Interrupt) -> Waiting:
        """What waits, in the words of the tests."""
        shown = one.tool_args if one.tool_name is not None else one.payload
        return Waiting(one.id, one.tool_name, dict(shown or {}), one.agent, one.metadata)

    def answer(self, answers: Sequence[tuple[str, Any]]) -> None:
        state = self._read()
        for id, value in answers:
            match value:
                case Decision(type="approve"):
                    state.approve(id, always=value.always)
                case Decision(type="edit"):
                    state.edit(id, value.args or {})
                case Decision(type="reject"):
                    state.reject(id, reason=value.reason, message=value.message, always=value.always)
                case Decision(type="respond"):
                    state.respond(id, value.message)
                case _:
                    state.answer(id, value)
        self._take(self._run(state))

    def look_again(self) -> None:
        self._take(self._run(self._read()))

    def messages(self) -> list[dict[str, Any]]:
        return list(self.requests[-1])

    def in_another_process(self) -> Conversation:
        return Elsewhere(self.face, self.scene, self.kept(), self.waiting())

    def from_the_future(self) -> None:
        state = json.loads(self._state or "")
        RunState.from_string(self.agent, json.dumps({**state, "version": state["version"] + 1}))

    def failing_store(self) -> AbstractContextManager[None]:
        return full_disk()

    def kept(self) -> dict[str, Any]:
        """What another process gets."""
        return {"state": self._state}

    def _read(self) -> RunState:
        """What waits; where nothing does, what somebody may still have of the pause before."""
        text = self._state or self._past
        assert text is not None
        return RunState.from_string(self.agent, text)

    def _run(self, what: str | RunState, **options: Any) -> RunResult:
        if self._store == "memory":
            options.pop("session", None)
        if not self._streaming:
            return hitl.run_sync(self.agent, what, store=self._store, **options)

        async def stream() -> RunResult:
            events = hitl.stream(self.agent, what, store=self._store, **options)
            async for event in events:
                if event.type == "message.delta" and "content" in event.delta:
                    self.streamed.append(event.delta["content"])
            return events.result

        return asyncio.run(stream())

    def _take(self, result: RunResult) -> None:
        if result.status == "error" and type(result.exception).__name__ not in self.face.out_of_steps:
            raise result.exception or AssertionError(result.error)
        self.is_out_of_steps = result.status == "error"
        self.output, self.usage = result.output, result.usage
        if result.status == "interrupted":
            assert result.state is not None
            self._state = result.state.to_string()
        else:
            self._past, self._state = self._state, None


class RunFace(Face):
    name = "run"
    title = "`hitl.run`"
    cannot = {
        (27, "the turn"): "a run that waits is a text: nothing is at work that could be cancelled",
    }
    errors = {
        "unknown id": UnknownInterrupt,
        "wrong kind": InvalidAnswer,
        "duplicate id": AlreadyResolved,
        "nothing pending": (NothingPending, AlreadyResumed),
        "new message": hitl.RunInterrupted,
        "failed save": hitl.StoreError,
        "withdrawn": hitl.HitlError,
        "newer version": hitl.RunStateError,
    }
    rejection = staticmethod(rejection)  # type: ignore[assignment]
    conversation: ClassVar[type[RunConversation]] = RunConversation
    out_of_steps: ClassVar[tuple[str, ...]] = ("MaxStepsExceeded",)
    """The errors that say that the model was asked too often."""

    def open(self, scene: Scene, *, durable: bool = False, **options: Any) -> RunConversation:
        return self.conversation(self, scene, hitl.Store(self.folder / "runs.db" if durable else "memory"), options)

    def reopen(self, scene: Scene, kept: dict[str, Any]) -> RunConversation:
        """From the text alone."""
        return self.conversation(self, scene, "memory", kept)

    def agent_of(self, scene: Scene, *, streaming: bool = False) -> AgentOfScene:
        """The agent of a scene, and what its model is sent."""
        agent, client = native_agent(scene, self.ledger)
        return agent, Requests(client)


class Requests(Sequence[list[dict[str, Any]]]):
    """What a client was sent, without the system prompt."""

    def __init__(self, client: ScriptedChatClient) -> None:
        self._client = client

    def __getitem__(self, place: Any) -> Any:
        return without_system(self._client.requests[place]["messages"])

    def __len__(self) -> int:
        return len(self._client.requests)
