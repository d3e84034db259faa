"""`hitl.planner`: a gated tool pauses unless its context approves of it, and the model calls it again after a yes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hitl import ChatMessage, Decision
from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.planner import ModelRegistry, Node, PlannerPause, ReactPlanner, ToolContext, build_catalog, tool
from hitl.testing import ScriptedChatClient
from tests.python.behaviours.faces.elsewhere import Elsewhere
from tests.python.behaviours.faces.face import Conversation, Face, Waiting
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene, effects

YES = "approved"
AGAIN = "again-"


class Cents(BaseModel):
    cents: int


class Text(BaseModel):
    text: str


class Question(BaseModel):
    question: str


class Nothing(BaseModel):
    pass


class Result(BaseModel):
    result: str


ARGUMENTS: dict[str, type[BaseModel]] = {"note": Text, "ask": Question, "whose": Nothing}


class PersistentModel(ScriptedChatClient):
    """Follows its script, and calls again what was approved, as models do. `begun`: replies of earlier runs."""

    def __init__(self, script: list[dict[str, Any]], begun: int = 0) -> None:
        super().__init__(script)
        self.begun = begun
        self.used = begun
        self.heard: list[dict[str, Any]] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        heard = [message.to_dict() for message in request.messages]
        approved = _approved_and_not_called_again(heard)
        if approved:
            self.heard = heard
            return ModelReply(ChatMessage.assistant_message(tool_calls=approved), finish_reason="tool_calls")
        script = [ChatMessage.assistant_message(content="")] * self.begun
        script += [message for message in request.messages if not _is_again(message.to_dict())]
        reply = await super().complete(replace(request, messages=script))
        self.heard = heard
        self.used = sum(message.role == "assistant" for message in script) + 1
        return reply


def _approved_and_not_called_again(heard: list[dict[str, Any]]) -> list[Any]:
    calls = {call["id"]: call for message in heard for call in message.get("tool_calls") or ()}
    approved = [
        message["tool_call_id"]
        for message in heard
        if message["role"] == "tool" and _paused(message["content"]).get("user_input") == YES
    ]
    return [{**calls[id], "id": AGAIN + id} for id in approved if AGAIN + id not in calls]


def _is_again(message: dict[str, Any]) -> bool:
    ids = [call["id"] for call in message.get("tool_calls") or ()] + [message.get("tool_call_id") or ""]
    return any(id.startswith(AGAIN) for id in ids)


def _paused(content: str) -> dict[str, Any]:
    """What the model was told of a call that paused; empty for any other result."""
    told = json.loads(content)
    return told if isinstance(told, dict) and "paused" in told else {}


class FileStore:
    """Pauses as files, and a disk that may be full."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.is_full = False

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        (self._folder / f"{token}.pause").write_text(json.dumps(payload))

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        file = self._folder / f"{token}.pause"
        return json.loads(file.read_text()) if file.exists() else None


def catalog(scene: Scene, ledger: Ledger) -> list[Any]:
    """The tools of a scene, each a function of a model and a context."""
    functions = effects(ledger)
    registry = ModelRegistry()
    nodes = []
    for name in scene.gated + scene.free:
        arguments = ARGUMENTS.get(name, Cents)
        registry.register(name, arguments, Result)
        function = {"ask": ask, "whose": whose}.get(name) or _effect(name, functions[name], name in scene.gated)
        nodes.append(Node(tool(desc=name, side_effects="write")(function), name=name))
    return list(build_catalog(nodes, registry))


def _effect(name: str, function: Any, is_gated: bool) -> Any:
    async def run(args: Any, ctx: ToolContext) -> Result:
        call = {"tool": name, "args": args.model_dump()}
        if is_gated and call not in ctx.tool_context.get("approvals", []):
            await ctx.pause("approval_required", call)
        return Result(result=await function(**args.model_dump()))

    return run


async def ask(args: Question, ctx: ToolContext) -> Result:
    """Ask a person."""
    await ctx.pause("await_input", {"question": args.question, "risk": "high"})
    raise AssertionError("a paused tool does not go on")


async def whose(args: Nothing, ctx: ToolContext) -> Result:
    """What the run's context says."""
    return Result(result=json.dumps(dict(ctx.tool_context)))


class PlannerConversation(Conversation):
    """Runs of one planner, one after the other."""

    def __init__(self, face: PlannerFace, scene: Scene, store: FileStore | None, kept: dict[str, Any]) -> None:
        self.face = face
        self.scene = scene
        self.store = store
        self.model = PersistentModel(scene.script, kept.get("begun", 0))
        self.planner = ReactPlanner(self.model, catalog(scene, face.ledger), state_store=store)
        self._context = kept.get("context")
        self._token: str | None = kept.get("token")
        self._shown: dict[str, Any] = kept.get("shown", {})

    def say(self, text: str) -> None:
        self.model.begun = self.model.used
        self._take(asyncio.run(self.planner.run(text, tool_context=self._context)))

    def waiting(self) -> list[Waiting]:
        if self._token is None:
            return []
        if "tool" in self._shown:
            return [Waiting(self._token, self._shown["tool"], self._shown["args"])]
        return [Waiting(self._token, None, self._shown, metadata={"risk": self._shown["risk"]})]

    def answer(self, answers: Sequence[tuple[str, Any]]) -> None:
        [(token, value)] = answers
        context = None
        if isinstance(value, Decision):
            if value.type == "approve":
                context = {"approvals": [self._shown]}
            value = YES if value.type == "approve" else _no(value.reason, value.message)
        self._take(asyncio.run(self.planner.resume(token, user_input=value, tool_context=context)))

    def messages(self) -> list[dict[str, Any]]:
        return self.model.heard

    def told(self) -> list[str]:
        """The result of a call that was made again stands for both."""
        results = {one["tool_call_id"]: _result(one["content"]) for one in self.messages() if one["role"] == "tool"}
        return [results.get(AGAIN + id, result) for id, result in results.items() if not id.startswith(AGAIN)]

    def in_another_process(self) -> Conversation:
        return Elsewhere(self.face, self.scene, self.kept(), self.waiting())

    def kept(self) -> dict[str, Any]:
        return {"token": self._token, "shown": self._shown, "begun": self.model.begun}

    @contextmanager
    def _full(self, store: FileStore) -> Iterator[None]:
        store.is_full = True
        yield
        store.is_full = False

    def failing_store(self) -> AbstractContextManager[None]:
        assert self.store is not None
        return self._full(self.store)

    def from_the_future(self) -> None:
        file = self.face.folder / f"{self._token}.pause"
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "version": record["version"] + 1}))
        self.decide(Decision.approve())

    def _take(self, result: Any) -> None:
        if isinstance(result, PlannerPause):
            self._token, self._shown, self.output = result.resume_token, result.payload, None
            return
        self._token = None
        self.is_out_of_steps = result.reason == "budget_exhausted"
        self.output = result.payload


def _no(reason: str | None, message: str | None) -> str:
    return message or "rejected" + (f": {reason}" if reason else "")


def _result(content: str) -> str:
    """What the model was told of a call, without the frame that the planner puts around it."""
    paused = _paused(content)
    if paused:
        said = paused["user_input"]
        return str(said) if paused["paused"] == "approval_required" else json.dumps(said)
    told = json.loads(content)
    return str(told["result"]) if "result" in told else content


class PlannerFace(Face):
    name = "planner"
    title = "Planner"
    cannot = {
        4: "a token stands for one pause, and nothing runs before each pause of a reply has been answered",
        5: "a token stands for one pause: there are no batches",
        6: "to resume a token is to answer it",
        7: "a tool pauses or runs; what runs is what the model wrote",
        (8, "unknown beside known"): "one token is resumed at a time",
        (8, "wrong kind"): "`user_input` is any JSON value, so that there are no kinds",
        (8, "duplicate id"): "one token is resumed at a time, and only once",
        10: "each `run` is a run of its own; there is no conversation that could be busy",
        12: "what is approved for longer is up to the program's `tool_context`",
        16: "the nodes of a catalog are functions, not agents",
        17: "whether a call pauses is decided by the tool's own code",
        (19, "usage"): "a `PlannerFinish` has a reason and a payload",
        21: "events tell of pauses, resumptions and ends; no text is streamed",
        22: "a paused tool does not go on: the model decides after each answer",
        (23, "back to the tool"): "a paused tool does not go on: the model is told what the person said",
        27: "a pause is resumed or left alone; no call cancels it",
    }
    errors = {
        "unknown id": KeyError,
        "nothing pending": KeyError,
        "failed save": OSError,
        "newer version": ValueError,
    }
    refuses_used_ids = False

    def open(
        self, scene: Scene, *, durable: bool = False, streaming: bool = False, context: dict[str, Any] | None = None
    ) -> PlannerConversation:
        return PlannerConversation(self, scene, FileStore(self.folder) if durable else None, {"context": context})

    def reopen(self, scene: Scene, kept: dict[str, Any]) -> PlannerConversation:
        """By the token; `shown` and `begun` are the test's own notes."""
        return PlannerConversation(self, scene, FileStore(self.folder), kept)

    def rejection(self, tool: str, *, reason: str | None = None, message: str | None = None) -> str:
        return _no(reason, message)
