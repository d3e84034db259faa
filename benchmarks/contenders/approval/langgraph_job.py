"""The job of ``benchmarks.bench_runs`` in LangGraph: its prebuilt agent with approval, over its SQLite saver.

Runs in an environment of its own; ``job.time_jobs`` says what is timed.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

from job import CALL_ARGS, DONE, TOOL, time_jobs
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command


class Scripted(BaseChatModel):
    """Calls the tool, then says that it is done."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:  # type: ignore[override]
        """The tools are known to the script."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if any(isinstance(message, ToolMessage) for message in messages):
            reply = AIMessage(content=DONE)
        else:
            reply = AIMessage(content="", tool_calls=[{"name": TOOL, "args": CALL_ARGS, "id": "call-1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def main() -> None:
    """Run the job as often as asked."""
    with tempfile.TemporaryDirectory() as folder:
        saver = SqliteSaver(sqlite3.connect(Path(folder) / "runs.db", check_same_thread=False))
        agent = create_agent(
            Scripted(),
            tools=[delete_file],
            middleware=[HumanInTheLoopMiddleware(interrupt_on={TOOL: True})],
            checkpointer=saver,
        )

        def job(number: int) -> str:
            # The checkpoint in the file is what is kept; another process would go on from the thread's id.
            config: Any = {"configurable": {"thread_id": str(number)}}
            paused = agent.invoke({"messages": [{"role": "user", "content": "delete it"}]}, config)
            if not paused["__interrupt__"]:
                raise RuntimeError("the agent did not pause")
            result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
            return str(result["messages"][-1].content)

        time_jobs(job, int(sys.argv[1]))


if __name__ == "__main__":
    main()
