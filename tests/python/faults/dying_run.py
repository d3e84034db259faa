"""A program that runs an agent without a server, and may die anywhere: ``python -m tests.python.faults.dying_run STORE
EFFECTS``.

It takes up what the store holds of its session, answers what waits, and goes on until the turn is over. It says which
steps had finished when it began, and how its turn ended, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import hitl
from hitl.testing import ScriptedChatClient

SESSION = "the-one"
EFFECTS = Path(sys.argv[2])


def effects() -> list[str]:
    """What has happened so far, in all processes."""
    return EFFECTS.read_text().split() if EFFECTS.exists() else []


def happen(what: str) -> str:
    """One effect on the world outside."""
    with EFFECTS.open("a") as file:
        file.write(what + "\n")
    return f"{what} has happened"


@hitl.tool
async def look() -> str:
    """Look at something."""
    return happen("looked")


@hitl.tool(requires_approval=True)
async def pay(cents: int) -> str:
    """Pay."""
    return happen(f"paid-{cents}")


agent = hitl.ReActAgent(
    ScriptedChatClient(
        [
            {"tool_calls": [{"name": "look", "args": {}}, {"name": "pay", "args": {"cents": 1}}]},
            {"tool_calls": [{"name": "pay", "args": {"cents": 2}}]},
            {"content": "done"},
            {"content": "done before"},
        ]
    ),
    "scripted",
    name="agent",
    tools=[look, pay],
)


def answer(state: hitl.RunState) -> None:
    """Approve; and say of a payment that a crash hit whether it was made."""
    for interrupt in state.interrupts:
        if interrupt.type == "tool_approval":
            state.approve(interrupt)
            continue
        payment = f"paid-{interrupt.tool_args['cents']}"
        done = payment in effects()
        state.answer(interrupt, {"outcome": "done", "result": payment} if done else {"outcome": "not_done"})


def finished(state: hitl.RunState) -> list[str]:
    """The calls that have a result in the journal."""
    entries = json.loads(state.to_string())["journal"]
    return [entry["step"]["name"] for entry in entries if entry["entry"] == "step" and entry["step"]["kind"] == "tool"]


async def main() -> None:
    """One turn, to its end."""
    async with hitl.Store(sys.argv[1]) as store:
        found = await hitl.RunState.from_store(agent, store, SESSION)
        begun_with = {"finished": [] if found is None else finished(found), "effects": effects()}
        given: Any = found or "go"
        while True:
            if isinstance(given, hitl.RunState):
                answer(given)
            result = await hitl.run(agent, given, store=store, session=SESSION if given == "go" else None)
            if result.status != "interrupted":
                break
            given = result.state
    said = {**begun_with, "status": result.status, "output": result.output, "roles": [m.role for m in result.messages]}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
