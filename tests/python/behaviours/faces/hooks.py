"""`hitl.hooks`: a callback before each tool call asks, and cancels the call where the answer is no."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hitl import Decision, NothingPending, Store, StoreError
from hitl.agents.react import MaxStepsExceeded
from hitl.hooks import Agent, BeforeToolCallEvent, HookProvider, HookRegistry, ToolContext, tool
from hitl.testing import ScriptedChatClient
from tests.python.behaviours.faces.face import Face, Waiting
from tests.python.behaviours.faces.in_a_file import InAFile
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects, policies

YES = "yes"


class Gate(HookProvider):
    """Asks about the scene's gated tools; whatever else than a yes is what the model is told."""

    def __init__(self, scene: Scene, ledger: Ledger) -> None:
        self._gated = scene.gated
        self._policy = None if scene.policy is None else policies(ledger)[scene.policy]

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.ask)

    async def ask(self, event: BeforeToolCallEvent) -> None:
        use = event.tool_use
        assert use is not None
        if use["name"] not in self._gated or (self._policy is not None and not await self._policy(use["input"])):
            return
        answer = event.interrupt("approval", reason={"tool": use["name"], "args": use["input"]})
        if answer != YES:
            event.cancel_tool = answer


@tool
async def ask(question: str, tool_context: ToolContext) -> str:
    """Ask a person; the answer as JSON."""
    return json.dumps(tool_context.interrupt("question", reason={"question": question, "risk": "high"}))


@tool
async def survey(questions: list[str], tool_context: ToolContext) -> str:
    """Ask one question after the other; the answers as JSON."""
    return json.dumps([tool_context.interrupt(question, reason={"question": question}) for question in questions])


@tool
async def whose(tool_context: ToolContext) -> str:
    """What the invocation's state says."""
    return json.dumps(tool_context.invocation_state)


class HooksConversation(InAFile):
    """One agent object, which has one conversation."""

    file = "sessions.db"

    def __init__(self, face: HooksFace, scene: Scene, store: Store | None, options: dict[str, Any]) -> None:
        self.face = face
        self.scene = scene
        self.client = ScriptedChatClient(scene.script)
        self.streamed = []
        known = effects(face.ledger) | {"ask": ask, "survey": survey, "whose": whose}
        self.agent = Agent(
            self.client,
            "scripted",
            tools=[known[name] for name in scene.gated + scene.free],
            hooks=[Gate(scene, face.ledger)],
            callback_handler=self._hear if options.get("streaming") else None,
            store=store,
            session_id=None if store is None else "talk",
        )
        self._context = options.get("context")
        self._interrupts: list[Any] = []

    def say(self, text: str) -> None:
        self._call(text, invocation_state=self._context)

    def waiting(self) -> list[Waiting]:
        shown = []
        for one in self._interrupts:
            reason = dict(one.reason)
            if "tool" in reason:
                shown.append(Waiting(one.id, reason["tool"], reason["args"]))
            else:
                shown.append(Waiting(one.id, None, reason, metadata={k: v for k, v in reason.items() if k == "risk"}))
        return shown

    def answer(self, answers: Sequence[tuple[str, Any]]) -> None:
        told = {one.id: one.tool for one in self.waiting()}
        self._call([_response(id, told.get(id), value) for id, value in answers])

    def look_again(self) -> None:
        self._call([])

    def _hear(self, **heard: Any) -> None:
        if "data" in heard:
            self.streamed.append(heard["data"])

    def _call(self, prompt: Any, **options: Any) -> None:
        try:
            result = self.agent(prompt, **options)
        except MaxStepsExceeded:
            self.is_out_of_steps = True
            return
        self._interrupts = result.interrupts
        self.usage = result.usage
        self.output = None if result.stop_reason == "interrupt" else str(result)


def _response(id: str, tool: str | None, value: Any) -> Any:
    if isinstance(value, Decision):
        said = YES if value.type == "approve" else _no(tool or "", value.reason, value.message)
        return {"interruptResponse": {"interruptId": id, "response": said}}
    return {"interruptResponse": {"interruptId": id, "response": value}}


def _no(tool: str, reason: str | None, message: str | None) -> str:
    return message or f"{tool} was not approved" + (f": {reason}" if reason else "")


class HooksFace(Face):
    name = "hooks"
    title = "Hooks"
    cannot = {
        7: "a callback lets a call through or cancels it; what runs is what the model wrote",
        (8, "wrong kind"): "an answer is whatever the callback makes of it, so that there are no kinds",
        12: "what a callback remembers of earlier answers is the callback's own business",
        16: "an agent is called by a program, not by another agent, and an interrupt has no member for one",
        (17, "asked once"): "a callback that asks is called again, from its top, with the answer",
        (27, "the turn"): "an agent that waits is answered or left alone; no call cancels it",
        (27, "a question"): "`interrupt()` ends the tool's function, which therefore waits for one answer at a time",
    }
    errors = {
        "unknown id": KeyError,
        "duplicate id": ValueError,
        "nothing pending": NothingPending,
        "new message": TypeError,
        "failed save": StoreError,
        "newer version": StoreError,
    }
    policy_failure = (LookupError,)
    refuses_used_ids = False

    def open(self, scene: Scene, *, durable: bool = False, **options: Any) -> HooksConversation:
        return HooksConversation(self, scene, self._store if durable else None, options)

    def reopen(self, scene: Scene, kept: dict[str, Any]) -> HooksConversation:
        """By the id of the session alone."""
        talk = HooksConversation(self, scene, self._store, {})
        talk.look_again()
        return talk

    def rejection(self, tool: str, *, reason: str | None = None, message: str | None = None) -> str:
        return _no(tool, reason, message)

    @property
    def _store(self) -> Store:
        return Store(self.folder / HooksConversation.file)
