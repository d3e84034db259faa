"""The agent, of LangChain: a graph of LangGraph."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool


class Player(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "player"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        done = sum(isinstance(message, AIMessage) for message in messages)
        if done < int(messages[0].text):
            reply = AIMessage("", tool_calls=[{"name": "look", "args": {"number": done}, "id": f"call-{done}"}])
        else:
            reply = AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return self._generate(messages)


@tool
async def look(number: int) -> str:
    """Look."""
    return f"saw {number}"


def make() -> Any:
    return create_agent(Player(), [look], name="bench")


async def alone(agent: Any, calls: int) -> str:
    result = await agent.ainvoke({"messages": [("user", str(calls))]})
    return str(result["messages"][-1].text)
