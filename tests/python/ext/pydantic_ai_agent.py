"""The agent of the common proof, written as pydantic-ai's documentation writes agents."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.python.ext.proof import ABOUT, be_there, note, servers, stay


class Color(BaseModel):
    hex: str


async def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The model: what the last script says, and then what came of it."""
    begin = max(index for index, message in enumerate(messages) if script_of(message) is not None)
    said = script_of(messages[begin]) or {}
    done = sum(isinstance(message, ModelResponse) for message in messages[begin:])
    note("model")
    if "hold_model" in said and not done:
        await stay(said["hold_model"])
    be_there(said, done)
    if done < len(said["rounds"]):
        return ModelResponse(parts=[ToolCallPart(each["name"], each["args"]) for each in said["rounds"][done]])
    begin = 0 if said.get("recall") else begin
    parts = [part for message in messages[begin:] for part in message.parts]
    returned = {part.tool_call_id: str(part.content) for part in parts if isinstance(part, ToolReturnPart)}
    calls = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
    return ModelResponse(parts=[TextPart(json.dumps([returned[call] for call in calls]))])


def script_of(message: ModelMessage) -> dict[str, Any] | None:
    for part in message.parts:
        if isinstance(part, UserPromptPart) and isinstance(part.content, str) and part.content.startswith("{"):
            said: dict[str, Any] = json.loads(part.content)
            return said
    return None


def toolsets() -> list[Any]:
    """The MCP servers, where there are any."""
    shelf, desk = servers()
    if shelf is None and desk is None:
        return []
    # Here, for they take seconds.
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.toolsets import ApprovalRequiredToolset

    made = [] if shelf is None else [MCPToolset(shelf, id="shelf")]
    made += [] if desk is None else [MCPToolset(StdioTransport(**desk), id="desk", init_timeout=100)]
    return [ApprovalRequiredToolset(each, lambda ctx, tool, args: tool.name.endswith("_delete")) for each in made]


agent = Agent(FunctionModel(play), name="outer", toolsets=toolsets())
helper = Agent(FunctionModel(play), name="inner")


@agent.tool_plain(metadata={"hitl": ABOUT})
@helper.tool_plain
async def list_files(folder: str) -> str:
    note(f"list {folder}")
    return f"files of {folder}"


@agent.tool_plain(requires_approval=True, metadata={"hitl": {"source": ABOUT["source"]}, **ABOUT["metadata"]})
@helper.tool_plain(requires_approval=True)
def delete_file(path: str) -> str:
    note(f"delete {path}")
    return f"deleted {path}"


@agent.tool_plain
async def hold(port: int) -> str:
    note("hold")
    await stay(port)
    return "held"


@agent.tool_plain(requires_approval=True)
async def hold_gated(port: int) -> str:
    note("hold gated")
    await stay(port)
    return "held"


@agent.tool_plain
async def pick_color() -> str:
    raise CallDeferred(metadata={"hitl": {"type": "color", "response_schema": Color.model_json_schema()}})


@agent.tool
async def consult(ctx: RunContext[None], script: str) -> str:
    result = await helper.run(script, usage=ctx.usage)
    note("consulted")
    return result.output
