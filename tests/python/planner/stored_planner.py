"""Run as a program: `stored_planner.py DIRECTORY run|resume [TOKEN] [INPUT]`. Pauses are files of the directory."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hitl.planner import ModelRegistry, Node, PlannerPause, ReactPlanner, ToolContext, build_catalog, tool
from hitl.testing import ScriptedChatClient


class Args(BaseModel):
    text: str


class Out(BaseModel):
    ok: bool


class Files:
    """A state store of files. Tokens are secrets, and so is this directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        (self.directory / token).write_text(json.dumps(payload))

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        file = self.directory / token
        return json.loads(file.read_text()) if file.exists() else None

    async def claim_planner_state(self, token: str) -> bool:
        try:
            (self.directory / f"{token}.claim").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def make(directory: Path) -> ReactPlanner:
    @tool(desc="Write a line", side_effects="write")
    async def write_line(args: Args, ctx: ToolContext) -> Out:
        if ctx.tool_context.get("approved") is not True:
            await ctx.pause("approval_required", {"preview": args.text})
        with (directory / "written.txt").open("a") as file:
            file.write(args.text + "\n")
        return Out(ok=True)

    registry = ModelRegistry()
    registry.register("write_line", Args, Out)
    call = {"tool_calls": [{"name": "write_line", "args": {"text": "hello"}}]}
    client = ScriptedChatClient([call, call, {"content": "done"}])
    return ReactPlanner(llm=client, catalog=build_catalog([Node(write_line)], registry), state_store=Files(directory))


async def main(directory: Path, command: str, *arguments: str) -> None:
    planner = make(directory)
    try:
        if command == "run":
            result = await planner.run("write", tool_context={"session_id": "s"})
        else:
            token, said = arguments
            context = {"session_id": "s", "approved": said == "yes"}
            result = await planner.resume(token, said, tool_context=context)
    except KeyError:
        print(json.dumps({"error": "KeyError"}))
        return
    if isinstance(result, PlannerPause):
        print(json.dumps({"payload": result.payload, "token": result.resume_token}))
    else:
        print(json.dumps({"reason": result.reason, "payload": result.payload}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
