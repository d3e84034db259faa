"""Run as a program: one step of a payment that asks, is decided, and goes on, each in a process of its own.

`three_processes.py ask|decide|resume FOLDER EDITION`; an edition is how the agent's code was edited since it asked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import hitl
from hitl import ReActAgent, RunState, tool
from hitl.testing import ScriptedChatClient
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import DONE, call, calls


def make_agent(ledger: Ledger, edition: str) -> ReActAgent:
    """The agent as it was, with words and a tool more (`compatible`), or with another tool (`incompatible`)."""

    @tool(requires_approval=True, name="transfer" if edition == "incompatible" else "pay")
    async def pay(cents: int) -> str:
        """Pay."""
        ledger.write(f"pay {cents}")
        return f"paid {cents}"

    @tool
    async def look(account: str) -> str:
        """Look at an account; it came with a later edition."""
        return f"{account} is empty"

    is_edited = edition == "compatible"
    client = ScriptedChatClient([calls(call("pay", cents=1), call("pay", cents=2)), DONE])
    return ReActAgent(
        client=client,
        model_name="scripted",
        name="clerk",
        system_prompt="You are a careful clerk." if is_edited else "You are a clerk.",
        tools=[tool(pay, description="Pay somebody."), look] if is_edited else [pay],
    )


def main(step: str, folder: Path, edition: str) -> dict[str, Any]:
    """What came of the step."""
    agent, file = make_agent(Ledger(folder), edition), folder / "state.json"
    if step == "ask":
        paused = hitl.run_sync(agent, "pay")
        assert paused.state is not None
        file.write_text(paused.state.to_string(), encoding="utf-8")
        return {"asked": [asked.tool_args for asked in paused.interrupts]}
    state = RunState.from_string(agent, file.read_text(encoding="utf-8"))
    if step == "decide":
        first, second = state.interrupts
        file.write_text(state.approve(first).reject(second, reason="twice").to_string(), encoding="utf-8")
        return {"open": len(state.interrupts)}
    result = hitl.run_sync(agent, state)
    told = [message.content for message in result.messages if message.role == "tool"]
    return {"status": result.status, "error": result.error, "error_code": result.error_code, "told": told}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])))
