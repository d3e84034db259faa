"""The agent of the common proof, written as the OpenAI Agents SDK's documentation writes agents."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, Model, ModelResponse, RunContextWrapper, Runner, Usage, function_tool, set_tracing_disabled
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from agents.testing import assistant_message, function_call
from pydantic import BaseModel

import hitl
from hitl.ext.openai_agents import as_agent
from tests.python.ext.proof import ABOUT, be_there, note, servers, stay

set_tracing_disabled(True)


class Color(BaseModel):
    hex: str


def script_of(item: Any) -> dict[str, Any] | None:
    content = item.get("content") if item.get("role") == "user" else None
    if isinstance(content, str) and content.startswith("{"):
        said: dict[str, Any] = json.loads(content)
        return said
    return None


class Player(Model):
    """What the last script says, and then what came of it."""

    async def get_response(
        self, system_instructions: str | None, input: str | list[Any], *asked: Any, **more: Any
    ) -> ModelResponse:
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        begin = max(index for index, item in enumerate(items) if script_of(item) is not None)
        said = script_of(items[begin]) or {}
        calls = [item["call_id"] for item in items[begin:] if item.get("type") == "function_call"]
        note("model")
        done = rounds_done(said["rounds"], len(calls))
        if "hold_model" in said and not done:
            await stay(said["hold_model"])
        be_there(said, done)
        usage = Usage(requests=1, input_tokens=3, output_tokens=4, total_tokens=7)
        if done < len(said["rounds"]):
            made = [
                function_call(each["name"], each["args"], call_id=f"call_{begin}_{done}_{n}")
                for n, each in enumerate(said["rounds"][done])
            ]
            return ModelResponse(output=made, usage=usage, response_id=None)
        begin = 0 if said.get("recall") else begin
        calls = [item["call_id"] for item in items[begin:] if item.get("type") == "function_call"]
        returned = {
            item["call_id"]: item["output"] for item in items[begin:] if item.get("type") == "function_call_output"
        }
        text = json.dumps([returned[call] for call in calls])
        return ModelResponse(output=[assistant_message(text)], usage=usage, response_id=None)

    def stream_response(self, *asked: Any, **more: Any) -> Any:
        raise NotImplementedError


def rounds_done(rounds: list[list[Any]], calls: int) -> int:
    done = 0
    while done < len(rounds) and calls >= len(rounds[done]):
        calls -= len(rounds[done])
        done += 1
    return done


@function_tool
async def list_files(folder: str) -> str:
    note(f"list {folder}")
    return f"files of {folder}"


@function_tool(needs_approval=True)
def delete_file(path: str) -> str:
    note(f"delete {path}")
    return f"deleted {path}"


@function_tool
async def hold(port: int) -> str:
    note("hold")
    await stay(port)
    return "held"


@function_tool(needs_approval=True)
async def hold_gated(port: int) -> str:
    note("hold gated")
    await stay(port)
    return "held"


@function_tool
async def pick_color() -> dict[str, str]:
    color = await hitl.interrupt({"type": "color"}, response_schema=Color)
    return {"hex": color.hex}


helper = Agent(name="inner", model=Player(), tools=[list_files, delete_file])


@function_tool
async def consult(context: RunContextWrapper[None], script: str) -> str:
    result = await Runner.run(helper, script, context=context.context)
    note("consulted")
    return str(result.final_output)


def mcp_servers() -> list[MCPServer]:
    """Where there are any."""

    def options(name: str) -> Any:
        gated = {"always": {"tool_names": [f"{name}_delete"]}}
        return {"name": name, "require_approval": gated, "client_session_timeout_seconds": 100}

    shelf, desk = servers()
    made: list[MCPServer] = []
    if shelf is not None:
        made.append(MCPServerStreamableHttp({"url": shelf}, **options("shelf")))
    if desk is not None:
        made.append(MCPServerStdio(desk, **options("desk")))  # type: ignore[arg-type]
    return made


outer = Agent(
    name="outer",
    model=Player(),
    tools=[list_files, delete_file, hold, hold_gated, pick_color, consult],
    mcp_servers=mcp_servers(),
)
agent = as_agent(outer, approvals={"list_files": ABOUT, "delete_file": ABOUT})  # type: ignore[dict-item]
