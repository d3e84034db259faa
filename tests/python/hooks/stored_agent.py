"""Run as a program: one call of an agent whose conversation is in a store. `stored_agent.py STORE SESSION PROMPT`."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from hitl.hooks import Agent, BeforeToolCallEvent, HookProvider, HookRegistry, tool
from hitl.testing import ScriptedChatClient


@tool
def delete_tool(path: str) -> bool:
    """Delete a file."""
    accident = Path(f"{path}.accident")
    if accident.exists():
        accident.unlink()
        os._exit(9)
    Path(path).unlink()
    return True


class ApprovalHook(HookProvider):
    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.approve)

    def approve(self, event: BeforeToolCallEvent) -> None:
        if event.interrupt("approval", reason={"user": event.invocation_state.get("user")}) is not True:
            event.cancel_tool = "not granted"


def main(store: str, session: str, prompt: Any, victim: str) -> None:
    script = [{"tool_calls": [{"name": "delete_tool", "args": {"path": victim}}]}, {"content": "done"}]
    agent = Agent(
        client=ScriptedChatClient(script), tools=[delete_tool], hooks=[ApprovalHook()], store=store, session_id=session
    )
    state = {"user": "ada"} if isinstance(prompt, str) else None
    try:
        result = agent(prompt, invocation_state=state)
    except Exception as error:  # noqa: BLE001
        print(json.dumps({"error": type(error).__name__}))
        return
    interrupts = [dataclasses.asdict(each) for each in result.interrupts]
    print(json.dumps({"stop_reason": result.stop_reason, "text": str(result), "interrupts": interrupts}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4])
