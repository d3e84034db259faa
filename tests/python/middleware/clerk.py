"""A thread that is served by one process after the other; see test_threads.py. `DIRECTORY ask|decide|finish`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hitl import tool
from hitl.middleware import Command, HumanInTheLoopMiddleware, ToolCallAgent
from hitl.testing import ScriptedChatClient

directory, step = Path(sys.argv[1]), sys.argv[2]
CONFIG = {"configurable": {"thread_id": "the clerk's"}}
APPROVE = {"type": "approve"}


@tool
def shred(path: str) -> str:
    """Destroy a file."""
    with (directory / "effects").open("a") as effects:
        effects.write(f"{path}\n")
    return "gone"


agent = ToolCallAgent(
    client=ScriptedChatClient(
        [{"tool_calls": [{"name": "shred", "args": {"path": path}} for path in ("/a", "/b")]}, {"content": "done"}]
    ),
    tools=[shred],
    middleware=[HumanInTheLoopMiddleware({"shred": True}, interrupt_mode="per_call")],
    store=f"sqlite:{directory / 'threads.db'}",
)


def shown(result: dict[str, Any]) -> dict[str, Any]:
    effects = (directory / "effects").read_text().split()
    return {"waits": len(result.get("__interrupt__", ())), "effects": effects}


if step == "ask":
    waiting = agent.invoke("tidy up", CONFIG)["__interrupt__"]
    report = {"action_requests": [entry["value"]["action_requests"][0] for entry in waiting]}
else:
    first = agent.invoke(None, CONFIG)["__interrupt__"][0]
    report = shown(agent.invoke(Command(resume={first.id: APPROVE}), CONFIG))
print(json.dumps(report))
