"""Agents that the tests of runs have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hitl import ReActAgent, Tool, tool
from hitl.testing import ScriptedChatClient


class Files:
    """A tool that asks before it deletes, and what it deleted."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: where a file notes each deletion, for tests of several processes."""
        self.deleted: list[str] = []

        @tool(requires_approval=True)
        async def delete_file(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            if folder is not None:
                with (folder / "deleted").open("a") as file:
                    file.write(f"{path}\n")
            return f"deleted {path}"

        self.tool: Tool = delete_file

    def agent(self, *paths: str, **options: Any) -> ReActAgent:
        """An agent whose model wants these deleted, in one reply, and then says done."""
        calls = [{"name": "delete_file", "args": {"path": path}} for path in paths]
        client = ScriptedChatClient([{"tool_calls": calls}, {"content": "done"}])
        return ReActAgent(client=client, model_name="scripted", tools=[self.tool], **options)
