"""A planner with one tool that writes after an approval, for the tests of `hitl.planner`."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from hitl.planner import (
    ModelRegistry,
    Node,
    NodeSpec,
    PlannerEvent,
    PlannerFinish,
    PlannerPause,
    ReactPlanner,
    ToolContext,
    build_catalog,
    tool,
)
from hitl.testing import ScriptedChatClient

DONE = {"content": "done"}
APPROVED = {"session_id": "demo", "approvals": {"write_line": True}}


class Text(BaseModel):
    text: str


class Ok(BaseModel):
    ok: bool


def spec(function: Any, name: str | None = None, args: Any = Text, out: Any = Ok) -> NodeSpec:
    """A function as the one entry of a catalog."""
    registry = ModelRegistry()
    name = name or function.__name__
    registry.register(name, args, out)
    return build_catalog([Node(function, name=name)], registry)[0]


class Written(list[str]):
    """A tool that writes where `approvals` say so, else pauses; and what it wrote."""

    @property
    def spec(self) -> NodeSpec:
        @tool(desc="Write a line to a system (approval required)", side_effects="write")
        async def write_line(args: Text, ctx: ToolContext) -> Ok:
            approvals = ctx.tool_context.get("approvals") or {}
            if not approvals.get("write_line"):
                await ctx.pause("approval_required", {"title": "Approve write", "preview": args.text})
            self.append(args.text)
            return Ok(ok=True)

        return spec(write_line)


def write(*texts: str, tool: str = "write_line") -> dict[str, Any]:
    """A reply of a model that writes."""
    return {"tool_calls": [{"name": tool, "args": {"text": text}} for text in texts]}


class Planner(ReactPlanner):
    """With a scripted model, and the events it emitted."""

    def __init__(self, script: list[dict[str, Any]], *specs: NodeSpec, **options: Any) -> None:
        self.client = ScriptedChatClient(script)
        self.events: list[PlannerEvent] = []
        super().__init__(llm=self.client, catalog=specs, **{"event_callback": self.events.append, **options})

    @property
    def told(self) -> list[Any]:
        """What the model was told of its calls, in the last request; JSON where it is."""
        messages = self.client.requests[-1]["messages"]
        return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


def paused(result: PlannerFinish | PlannerPause) -> PlannerPause:
    """It must be a pause."""
    assert isinstance(result, PlannerPause), result
    return result


class Store:
    """A state store in memory that counts."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.fail_save = self.fail_load = False

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        if self.fail_save:
            raise OSError("disk full")
        self.records[token] = json.loads(json.dumps(payload))

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        if self.fail_load:
            raise OSError("not there")
        return self.records.get(token)


class SharedStore(Store):
    """One that says who was first."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed: set[str] = set()

    async def claim_planner_state(self, token: str) -> bool:
        is_first = token not in self.claimed
        self.claimed.add(token)
        return is_first
