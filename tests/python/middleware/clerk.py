"""A thread that is served by one process after the other. `DIRECTORY ask|decide|finish|crash|look`.

`crash` approves, and dies while the tool is at work.
"""

from __future__ import annotations

import json
import os
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
    if step == "crash":
        os._exit(7)
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


report: Any
if step == "look":
    report = [entry["value"] for entry in agent.invoke(None, CONFIG)["__interrupt__"]]
elif step == "done":
    asked = next(e for e in agent.invoke(None, CONFIG)["__interrupt__"] if e["value"].get("type") == "unknown_outcome")
    report = shown(agent.invoke(Command(resume={asked.id: {"outcome": "done", "result": "gone, I looked"}}), CONFIG))
elif step == "ask":
    waiting = agent.invoke("tidy up", CONFIG)["__interrupt__"]
    report = {"action_requests": [entry["value"]["action_requests"][0] for entry in waiting]}
else:
    first = agent.invoke(None, CONFIG)["__interrupt__"][0]
    report = shown(agent.invoke(Command(resume={first.id: APPROVE}), CONFIG))
print(json.dumps(report))
