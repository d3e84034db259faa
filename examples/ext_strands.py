"""The agent with interrupts of Strands' documentation, which deletes files, served by hitl as it is.

    hitl serve examples.ext_strands:agent

Try `clean up`: the hook's question waits for somebody, in the inbox at http://127.0.0.1:8000 or in `hitl chat`; answer
`"y"`. Kill the server with `kill -9` meanwhile: what was inspected is not inspected again, and the files are deleted
once.

With AWS credentials in the environment Strands' default model answers (`pip install 'hitl-runtime[strands]'`).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from strands.models import Model

FILES = {"logs/old.log": 12, "logs/older.log": 30, "todo.txt": 1}
DELETED = Path(os.environ.get("DELETED_FILES", "deleted_files.txt"))


class Offline(Model):
    """A model without a mind, for those who have no credentials: it inspects the files, and deletes the old ones."""

    def get_config(self) -> Any:
        return {}

    def update_config(self, **model_config: Any) -> None:
        """It has none."""

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        blocks = messages[-1]["content"]
        results = [block["toolResult"]["content"][0] for block in blocks if "toolResult" in block]
        yield {"messageStart": {"role": "assistant"}}
        if results and "json" not in results[0]:
            yield {"contentBlockDelta": {"delta": {"text": "\n".join(result["text"] for result in results)}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        name, arguments = "inspect_files", {"paths": list(FILES)}
        if results:
            name, arguments = "delete_files", {"paths": [path for path, days in results[0]["json"].items() if days > 5]}
        use = {"name": name, "toolUseId": f"call-{len(messages)}"}
        yield {"contentBlockStart": {"start": {"toolUse": use}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


@tool
def inspect_files(paths: list[str]) -> dict[str, Any]:
    """How many days old files are.

    Args:
        paths: The files.
    """
    return {"status": "success", "content": [{"json": {path: FILES[path] for path in paths}}]}


@tool
def delete_files(paths: list[str]) -> str:
    """Delete files.

    Args:
        paths: The files.
    """
    with DELETED.open("a", encoding="utf-8") as deleted:
        deleted.writelines(f"{path}\n" for path in paths)
    return f"Deleted {', '.join(paths)}."


class ApprovalHook(HookProvider):
    def __init__(self, app_name: str) -> None:
        self.app_name = app_name

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.approve)

    def approve(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] != "delete_files":
            return
        approval = event.interrupt(f"{self.app_name}-approval", reason={"paths": event.tool_use["input"]["paths"]})
        if approval.lower() != "y":
            event.cancel_tool = "User denied permission to delete files"


agent = Agent(
    model=None if {"AWS_ACCESS_KEY_ID", "AWS_PROFILE"} & os.environ.keys() else Offline(),
    name="cleaner",
    hooks=[ApprovalHook("myapp")],
    system_prompt="You delete files older than 5 days",
    tools=[delete_files, inspect_files],
)
