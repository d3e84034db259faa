"""As much of the interface of claude-agent-sdk 0.2 as the recipe uses; the package brings hundreds of megabytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self


@dataclass
class TextBlock:
    text: str


@dataclass
class ToolUseBlock:
    name: str


@dataclass
class AssistantMessage:
    content: list[TextBlock | ToolUseBlock]


@dataclass
class ResultMessage:
    result: str | None


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
    can_use_tool: (
        Callable[[str, dict[str, Any], ToolPermissionContext], Awaitable[PermissionResultAllow | PermissionResultDeny]]
        | None
    ) = None


class ClaudeSDKClient:
    def __init__(self, options: ClaudeAgentOptions) -> None: ...
    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(self, *args: object) -> bool:
        raise NotImplementedError

    async def query(self, prompt: str) -> None: ...
    def receive_response(self) -> AsyncIterator[AssistantMessage | ResultMessage]:
        raise NotImplementedError
