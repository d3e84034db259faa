"""`hitl.middleware`: `invoke`, `__interrupt__` and `Command(resume=...)`, batched and per call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from hitl import Decision, HitlError, InvalidAnswer, NothingPending, RunInterrupted, Store, StoreError, UnknownInterrupt
from hitl.agents.react import MaxStepsExceeded
from hitl.middleware import Command, HumanInTheLoopMiddleware, ToolCallAgent
from hitl.testing import ScriptedChatClient
from tests.python.behaviours.faces.face import Face, Waiting
from tests.python.behaviours.faces.in_a_file import InAFile
from tests.python.behaviours.faces.native import free_tools, rejection
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects, policies

Mode = Literal["batched", "per_call"]

CONFIG = {"configurable": {"thread_id": "talk"}}


def middleware_agent(
    scene: Scene, ledger: Ledger, mode: Mode, name: str = "shop", store: Store | None = None
) -> tuple[ToolCallAgent, ScriptedChatClient]:
    """The agent of a scene; the tools themselves know nothing of approvals."""
    client = ScriptedChatClient(scene.script)
    functions = effects(ledger)
    tools: list[Any] = [functions[tool] for tool in scene.gated] + free_tools(scene, functions)
    gates: dict[str, Any] = {}
    for tool in scene.gated:
        gates[tool] = {"allowed_decisions": scene.allowed}
        if scene.policy is not None:
            policy = policies(ledger)[scene.policy]
            gates[tool]["when"] = lambda request, policy=policy: policy(request.tool_call["args"])
    for inner_name, inner in scene.inner.items():
        inner_agent, _ = middleware_agent(inner, ledger, mode, inner_name)
        tools.append(inner_agent.as_tool())
        gates[inner_name] = scene.approve_inner
    gate = HumanInTheLoopMiddleware(gates, interrupt_mode=mode)
    return ToolCallAgent(client, "scripted", tools, [gate], store, name=name), client


class MiddlewareConversation(InAFile):
    """A thread. What waits is what `__interrupt__` shows."""

    file = "threads.db"
    face: MiddlewareFace

    def __init__(
        self, face: MiddlewareFace, scene: Scene, store: Store | None, context: dict[str, Any] | None = None
    ) -> None:
        self.face = face
        self.scene = scene
        self.agent, self.client = middleware_agent(scene, face.ledger, face.mode, store=store)
        self._context = context
        self._interrupts: list[Any] = []

    def say(self, text: str) -> None:
        self._invoke({"messages": [{"role": "user", "content": text}]}, context=self._context)

    def waiting(self) -> list[Waiting]:
        shown = []
        for info in self._interrupts:
            actions = info["value"].get("action_requests")
            if actions is None:
                shown.append(Waiting(info["interrupt_id"], None, dict(info["value"])))
                continue
            for place, action in enumerate(actions):
                # In a batch a decision has a place and no id of its own.
                id = info["interrupt_id"] if self.face.mode == "per_call" else f"{info['interrupt_id']}#{place}"
                shown.append(Waiting(id, action["name"], action["args"]))
        return shown

    def answer(self, answers: Sequence[tuple[str, Any]]) -> None:
        decisions = {id: value.to_json() for id, value in answers if isinstance(value, Decision)}
        if decisions and self.face.mode == "batched":
            # One for each that waits, in their order; where an id is of nothing that waits, after them.
            places = [one.id for one in self.waiting()]
            ordered = sorted(decisions, key=lambda id: places.index(id) if id in places else len(places))
            self._invoke(Command(resume={"decisions": [decisions[id] for id in ordered]}))
        else:
            self._invoke(Command(resume={id: decisions.get(id, value) for id, value in answers}))

    def look_again(self) -> None:
        self._invoke(None)

    def _invoke(self, given: Any, **options: Any) -> None:
        try:
            result = self.agent.invoke(given, config=CONFIG, **options)
        except MaxStepsExceeded:
            self.is_out_of_steps = True
            return
        self._interrupts = result.get("__interrupt__", [])
        self.output = None if self._interrupts else result["messages"][-1].content


class MiddlewareFace(Face):
    mode: ClassVar[Mode]
    cannot = {
        (16, "inner name"): "an action request is a name, arguments and an id: there is no member for an agent",
        (19, "usage"): "`invoke` returns messages; there is no member for what they cost",
        21: "`invoke` and `ainvoke` return when all is said",
        (23, "to the approver"): "an interrupt is one value; there is nothing beside it",
        (27, "the turn"): "a thread that waits is resumed or left alone; no call cancels it",
    }
    errors = {
        "unknown id": UnknownInterrupt,
        "wrong kind": InvalidAnswer,
        "nothing pending": NothingPending,
        "new message": RunInterrupted,
        "failed save": StoreError,
        "withdrawn": HitlError,
        "newer version": StoreError,
    }
    rejection = staticmethod(rejection)  # type: ignore[assignment]

    def open(
        self, scene: Scene, *, durable: bool = False, streaming: bool = False, context: dict[str, Any] | None = None
    ) -> MiddlewareConversation:
        return MiddlewareConversation(self, scene, self._store if durable else None, context)

    def reopen(self, scene: Scene, kept: dict[str, Any]) -> MiddlewareConversation:
        """By the name of the thread alone."""
        talk = MiddlewareConversation(self, scene, self._store)
        talk.look_again()
        return talk

    @property
    def _store(self) -> Store:
        return Store(self.folder / MiddlewareConversation.file)


class BatchedFace(MiddlewareFace):
    name = "batched"
    title = "Middleware, batched"
    mode = "batched"
    cannot = {
        **MiddlewareFace.cannot,
        4: "a batch is answered as a whole: one decision for each of its calls",
        (8, "unknown id"): "decisions go by position; a batch of the wrong length is refused instead",
        (8, "unknown beside known"): "decisions go by position; a batch of the wrong length is refused instead",
        (8, "duplicate id"): "decisions go by position; a batch of the wrong length is refused instead",
    }


class PerCallFace(MiddlewareFace):
    name = "per_call"
    title = "Middleware, per call"
    mode = "per_call"
    cannot = {
        **MiddlewareFace.cannot,
        (8, "duplicate id"): "the answers are a dict by id, which holds each id once",
    }
