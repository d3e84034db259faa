"""The agent of the common proof, written as LangChain's documentation writes agents."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langgraph.types import interrupt
from pydantic import BaseModel

from hitl.ext.langgraph import as_agent
from tests.python.ext.proof import ABOUT, be_there, note, servers, stay


class Color(BaseModel):
    hex: str


class ScriptedModel(BaseChatModel):
    """The model: what the last script says, and then what came of it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        raise AssertionError("asked without the loop")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        begin = max(index for index, message in enumerate(messages) if isinstance(message, HumanMessage))
        said = json.loads(str(messages[begin].text))
        replies = [message for message in messages[begin:] if isinstance(message, AIMessage)]
        note("model")
        if "hold_model" in said and not replies:
            await stay(said["hold_model"])
        be_there(said, len(replies))
        if len(replies) < len(said["rounds"]):
            calls = [
                {**each, "id": f"{begin}-{len(replies)}-{n}"} for n, each in enumerate(said["rounds"][len(replies)])
            ]
            return _reply(AIMessage("", tool_calls=calls))
        if said.get("recall"):
            begin, replies = 0, [message for message in messages if isinstance(message, AIMessage)]
        returned = {each.tool_call_id: str(each.text) for each in messages[begin:] if isinstance(each, ToolMessage)}
        asked = [call["id"] for reply in replies for call in reply.tool_calls]
        # Where a person has changed a call, the middleware tells the model in front of the result.
        results = [returned[call].rpartition("Tool response:\n")[2] for call in asked]
        return _reply(AIMessage(json.dumps(results)))


def _reply(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


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
    """Stay at work, once it may."""
    note("hold gated")
    await stay(port)
    return "held"


@tool
def pick_color() -> str:
    """Ask for a color."""
    color = interrupt({"type": "color", "prompt": "Which?"}, response_schema=Color)
    return str({"hex": color.hex})


gate = HumanInTheLoopMiddleware(
    {
        "delete_file": {"allowed_decisions": ["approve", "edit", "reject", "respond"]},
        "hold_gated": True,
        "shelf_delete": True,
        "desk_delete": True,
    },
    interrupt_mode="per_call",
)

helper = create_agent(ScriptedModel(), [list_files, delete_file], middleware=[gate], name="inner")


@tool
def consult(script: str) -> str:
    """Let another agent work."""
    result = helper.invoke({"messages": [("user", script)]})
    note("consulted")
    return str(result["messages"][-1].text)


async def tools_of_servers() -> list[Any]:
    """The MCP servers' tools, where there are any."""
    shelf, desk = servers()
    connections: dict[str, Any] = {}
    if shelf is not None:
        connections["shelf"] = {"transport": "http", "url": shelf}
    if desk is not None:
        connections["desk"] = {"transport": "stdio", **desk}
    if not connections:
        return []
    from langchain_mcp_adapters.client import MultiServerMCPClient

    return list(await MultiServerMCPClient(connections).get_tools())


def told(of: BaseTool) -> BaseTool:
    """The outer agent's own tool, with what people are told of it."""
    return of.model_copy(update={"metadata": {"hitl": {"source": ABOUT["source"]}, **ABOUT["metadata"]}})


def of_server(of: BaseTool) -> BaseTool:
    return of.model_copy(update={"metadata": {"hitl": {"source": f"mcp:{of.name.partition('_')[0]}"}}})


agent = create_agent(
    ScriptedModel(),
    [
        told(list_files),
        told(delete_file),
        hold,
        hold_gated,
        pick_color,
        consult,
        *map(of_server, asyncio.run(tools_of_servers())),
    ],
    middleware=[gate],
    name="outer",
)
suspending = as_agent(agent, transient="suspend")
