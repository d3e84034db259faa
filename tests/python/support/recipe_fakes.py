"""As much of two libraries as the recipes for them use: each brings hundreds of megabytes that nothing else needs."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

CALL = {"path": "old.log"}


def claude_agent_sdk() -> dict[str, Any]:
    """The modules of `claude_agent_sdk`. Its agent wants one file deleted, and says what came of it."""

    @dataclass
    class TextBlock:
        text: str

    @dataclass
    class AssistantMessage:
        content: list[Any]

    @dataclass
    class PermissionResultAllow:
        updated_input: dict[str, Any] | None = None

    @dataclass
    class PermissionResultDeny:
        message: str = ""

    @dataclass
    class ToolPermissionContext:
        tool_use_id: str | None = None

    @dataclass
    class ClaudeAgentOptions:
        can_use_tool: Any = None

    class ClaudeSDKClient:
        def __init__(self, options: Any) -> None:
            self._options = options

        async def __aenter__(self) -> ClaudeSDKClient:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def query(self, prompt: str) -> None: ...

        async def receive_response(self) -> AsyncIterator[Any]:
            result = await self._options.can_use_tool("delete_file", CALL, ToolPermissionContext("call-1"))
            said = result.message if isinstance(result, PermissionResultDeny) else f"Deleted {result.updated_input}."
            yield AssistantMessage([TextBlock(said)])

    found = dict(locals())
    module = types.ModuleType("claude_agent_sdk")
    vars(module).update(found)
    return {"claude_agent_sdk": module}


def crewai() -> dict[str, Any]:
    """The modules of `crewai`. A crew has its first tool called once, with one model's request before and one after."""

    class BaseLLM:
        stop: list[str] = []

        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

        @property
        def stop_sequences(self) -> list[str]:
            return self.stop

    class LLM(BaseLLM):
        asked: list[Any] = []

        def call(self, messages: Any, tools: Any = None) -> str:
            assert self.stop == ["Observation:"]
            self.asked.append(messages)
            return messages[-1]["content"]

    @dataclass
    class Agent:
        role: str
        goal: str
        backstory: str
        llm: Any
        tools: list[Any]

    @dataclass
    class Task:
        description: str
        expected_output: str
        agent: Agent

    @dataclass
    class Crew:
        agents: list[Agent]
        tasks: list[Task]

        async def akickoff(self) -> Any:
            return await asyncio.to_thread(self._run)

        def kickoff(self) -> Any:
            return asyncio.run(self.akickoff())

        def _run(self) -> Any:
            agent = self.tasks[0].agent
            agent.llm.stop = ["Observation:"]
            agent.llm.call([{"role": "user", "content": self.tasks[0].description}])
            result = agent.tools[0](**CALL)
            return types.SimpleNamespace(raw=agent.llm.call([{"role": "tool", "content": result}]))

    def tool(name: str) -> Any:
        return lambda function: function

    module, tools = types.ModuleType("crewai"), types.ModuleType("crewai.tools")
    vars(module).update(BaseLLM=BaseLLM, LLM=LLM, Agent=Agent, Task=Task, Crew=Crew)
    vars(tools).update(tool=tool)
    return {"crewai": module, "crewai.tools": tools}
