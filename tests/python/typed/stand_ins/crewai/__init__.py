"""As much of the interface of crewai 1.15 as the recipe uses; the package brings hundreds of megabytes."""

from __future__ import annotations

from typing import Any


class BaseLLM:
    stop_sequences: list[str]

    def __init__(self, *, model: str, **options: Any) -> None: ...
    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class LLM(BaseLLM): ...


class Agent:
    def __init__(self, *, role: str, goal: str, backstory: str, llm: BaseLLM, tools: list[Any]) -> None: ...


class Task:
    def __init__(self, *, description: str, expected_output: str, agent: Agent) -> None: ...


class CrewOutput:
    raw: str


class Crew:
    def __init__(self, *, agents: list[Agent], tasks: list[Task]) -> None: ...
    async def akickoff(self) -> CrewOutput:
        raise NotImplementedError
