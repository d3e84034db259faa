"""The agent of the common proof, written as Strands' documentation writes agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, ToolContext, tool
from strands.models import Model
from strands.vended_interventions.hitl import HumanInTheLoop

from hitl.ext.strands import as_agent
from tests.python.ext.proof import ABOUT, be_there, note, servers, stay


class Player(Model):
    """The model: what the last script says, and then what came of it."""

    def get_config(self) -> Any:
        return {"model_id": "player"}

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        begin = max(index for index, message in enumerate(messages) if script_of(message) is not None)
        said = script_of(messages[begin]) or {}
        first = 0 if said.get("recall") else begin
        blocks = [block for message in messages[first:] for block in message["content"]]
        done = sum(message["role"] == "assistant" for message in messages[begin:])
        note("model")
        if "hold_model" in said and not done:
            await stay(said["hold_model"])
        be_there(said, done)
        yield {"messageStart": {"role": "assistant"}}
        if done < len(said["rounds"]):
            for number, each in enumerate(said["rounds"][done]):
                use = {"name": each["name"], "toolUseId": f"call-{begin + done}-{number}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(each["args"])}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
            return
        results = {each["toolUseId"]: each["content"][0] for block in blocks if (each := block.get("toolResult"))}
        calls = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        text = json.dumps([results[call].get("text") or str(results[call]["json"]) for call in calls])
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}
        yield {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}, "metrics": {}}}


def script_of(message: Any) -> dict[str, Any] | None:
    for block in message["content"]:
        if str(block.get("text", "")).startswith("{"):
            said: dict[str, Any] = json.loads(block["text"])
            return said
    return None


@tool
async def list_files(folder: str) -> str:
    """List the files of a folder."""
    note(f"list {folder}")
    return f"files of {folder}"


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    note(f"delete {path}")
    return f"deleted {path}"


@tool
async def hold(port: int) -> str:
    """Stay at work."""
    note("hold")
    await stay(port)
    return "held"


@tool
async def hold_gated(port: int) -> str:
    """Stay at work, once somebody approves it."""
    note("hold gated")
    await stay(port)
    return "held"


SCHEMA = {"type": "object", "properties": {"hex": {"type": "string"}}, "required": ["hex"]}


@tool(context=True)
async def pick_color(tool_context: ToolContext) -> str:
    """Let somebody pick a color."""
    return str(tool_context.interrupt("color", reason={"hitl": {"type": "color", "response_schema": SCHEMA}}))


@tool
async def consult(script: str) -> str:
    """Ask the helper."""
    result = await helper.invoke_async(script)
    note("consulted")
    return str(result).strip()


def clients() -> list[Any]:
    """Of the MCP servers, where there are any."""
    shelf, desk = servers()
    if shelf is None and desk is None:
        return []
    # Here, for they take a second.
    from mcp import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from strands.tools.mcp import MCPClient

    made = [] if shelf is None else [MCPClient(lambda: streamable_http_client(shelf))]
    if desk is not None:
        made.append(MCPClient(lambda: stdio_client(StdioServerParameters(**desk)), startup_timeout=100))
    return made


def approval() -> HumanInTheLoop:
    gated = ("delete_file", "hold_gated", "shelf_delete", "desk_delete")
    return HumanInTheLoop(allowed_tools=["*", *(f"!{name}" for name in gated)])


helper = Agent(Player(), name="inner", tools=[list_files, delete_file], interventions=[approval()])


CLIENTS = clients()


def make() -> Any:
    """One for each turn: it connects when it is made, where nobody has yet."""
    tools = [list_files, delete_file, hold, hold_gated, pick_color, consult, *CLIENTS]
    outer = Agent(Player(), name="outer", tools=tools, interventions=[approval()])
    of_servers = {f"{name}_delete": {"source": f"mcp:{name}"} for name in ("shelf", "desk")}
    return as_agent(outer, approvals={"list_files": ABOUT, "delete_file": ABOUT, **of_servers})  # type: ignore[dict-item]


agent = make if CLIENTS else make()
