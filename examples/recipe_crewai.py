"""CrewAI: what a crew's models say are steps of hitl, and its tools ask a person.

    hitl serve examples.recipe_crewai:agent

A crew runs by `akickoff`, on the loop of its turn. `kickoff` would run its agents on loops of their own, in threads
that no turn knows of: it could not be paused while a person is asked. Keep to one task after the other
(`Process.sequential`, no `async_execution`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from crewai import LLM, Agent, BaseLLM, Crew, Task
from crewai.tools import tool

import hitl
from hitl import ChatMessage

DELETED = Path(os.environ.get("DELETED_FILES", "deleted_files.txt"))


class Journaled(BaseLLM):
    """Another model, each reply of which is a step."""

    of: Any

    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        self.of.stop = self.stop_sequences  # a crew says by itself where its models stop: before what a tool has to say
        return hitl.step.sync(self.of.call, messages, tools)


@hitl.requires_approval
def delete(path: str) -> str:
    with DELETED.open("a", encoding="utf-8") as deleted:
        deleted.write(f"{path}\n")
    return f"Deleted {path}."


@tool("delete_file")
def delete_file(path: str) -> str:
    """Delete a file."""
    try:
        return delete(path)
    except hitl.ToolRejected as no:
        return str(no)


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    name = os.environ.get("HITL_MODEL", "openai/gpt-5-mini")
    cleaner = Agent(
        role="Cleaner",
        goal="Delete what is old",
        backstory="You tidy up.",
        llm=Journaled(model=name, of=LLM(model=name)),
        tools=[delete_file],
    )
    task = Task(description=message.content or "", expected_output="What was deleted", agent=cleaner)
    said = await Crew(agents=[cleaner], tasks=[task]).akickoff()
    reply = ChatMessage.assistant_message(content=said.raw)
    return reply, [*state, message, reply]
