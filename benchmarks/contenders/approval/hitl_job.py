"""The job of ``benchmarks.bench_runs`` in hitl: the run state as a string, or a session in a SQLite file.

``job.time_jobs`` says what is timed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from job import CALL_ARGS, DONE, TOOL, time_jobs

import hitl
from hitl.models.chat_client import ModelReply, ModelRequest


class Scripted:
    """Calls the tool, then says that it is done."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """The next reply."""
        if any(message.role == "tool" for message in request.messages):
            return ModelReply(hitl.ChatMessage.assistant_message(content=DONE))
        call = {"id": "call-1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(CALL_ARGS)}}
        return ModelReply(hitl.ChatMessage.assistant_message(tool_calls=[call]))


@hitl.tool(requires_approval=True)
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


async def as_a_string(agent: hitl.ReActAgent, number: int) -> str:
    """Nothing is on disk; the text is what is kept."""
    paused = await hitl.run(agent, "delete it")
    state = hitl.RunState.from_string(agent, paused.state.to_string())
    for interrupt in state.interrupts:
        state.approve(interrupt)
    return (await hitl.run(agent, state)).output


async def in_a_store(agent: hitl.ReActAgent, store: hitl.Store) -> str:
    """Every step is on disk, with sync, before the next."""
    paused = await hitl.run(agent, "delete it", store=store)
    state = await hitl.RunState.from_store(agent, store, paused.session_id)
    for interrupt in state.interrupts:
        state.approve(interrupt)
    return (await hitl.run(agent, state, store=store)).output


def main() -> None:
    """Run the job as often as asked."""
    agent = hitl.ReActAgent(Scripted(), "scripted", name="agent", tools=[delete_file])
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory() as folder:
        if sys.argv[2] == "string":
            time_jobs(lambda number: runner.run(as_a_string(agent, number)), int(sys.argv[1]))
        else:
            store = hitl.Store(f"sqlite:{Path(folder) / 'runs.db'}")
            time_jobs(lambda number: runner.run(in_a_store(agent, store)), int(sys.argv[1]))
            runner.run(store.close())


if __name__ == "__main__":
    main()
