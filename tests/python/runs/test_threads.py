"""Runs on the loops of several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import hitl
from hitl.testing import ScriptedChatClient


def test_one_agent_and_one_store_serve_several_threads() -> None:
    ran: list[str] = []

    @hitl.tool(requires_approval=True)
    def pay(to: str) -> str:
        ran.append(to)
        return f"paid {to}"

    script = [{"tool_calls": [{"name": "pay", "args": {"to": "ann"}}]}, {"content": "done"}]
    agent = hitl.ReActAgent(client=ScriptedChatClient(script), tools=[pay])
    store = hitl.Store("memory")

    def converse(session: str) -> str | None:
        paused = hitl.run_sync(agent, "pay ann", store=store, session=session)
        assert paused.state is not None
        result = hitl.run_sync(agent, paused.state.approve(paused.interrupts[0]))
        return None if result.response is None else result.response.content

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(converse, "abcdefgh")) == ["done"] * 8
    assert ran == ["ann"] * 8
