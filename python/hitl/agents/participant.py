"""An agent of the loop between models and tools, as the modules know it that `ReActAgent` is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hitl.messages import ChatMessage
from hitl.model_settings import ModelSettings
from hitl.models.chat_client import ChatClient, ResponseFormat
from hitl.tools.context import SystemPrompt
from hitl.tools.definition import Tool
from hitl.tools.guardrails import OutputGuardrail
from hitl.turn.resources import Resources
from hitl.turn.retrying import Transient
from hitl.turn.runtime import Turn

if TYPE_CHECKING:
    # What only says the type of `sources` needs no MCP where there is none.
    from hitl.tools.mcp import MCPTools


class Participant:
    """What may have a conversation, or be given one. `ReActAgent` explains each of these."""

    name: str | None
    description: str | None
    model_name: str | None
    system_prompt: str | SystemPrompt | None
    tools: tuple[Tool[..., Any], ...]
    sources: tuple[MCPTools, ...]
    handoffs: Sequence[Participant]
    middleware: Any
    """A `hitl.agents.seams.Middleware`, which knows agents."""
    hooks: tuple[Any, ...]
    """`hitl.agents.seams.Hook`s."""
    output_guardrails: tuple[OutputGuardrail, ...]
    resources: Resources[Any] | None
    retries: int | None
    transient: Transient | None
    settings: ModelSettings
    max_parallel_tools: int | None
    output_retries: int | None
    history_processors: tuple[Any, ...]
    """`hitl.agents.history.HistoryProcessor`s, and one `hitl.agents.compaction.Compaction` at most, which knows agents;
    in order."""

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    @abstractmethod
    def response_format(self) -> ResponseFormat | None: ...

    @abstractmethod
    async def run_turn(
        self, message: ChatMessage, state: list[ChatMessage]
    ) -> tuple[ChatMessage, list[ChatMessage]]: ...

    @abstractmethod
    def messages_of(self, message: ChatMessage) -> list[ChatMessage]: ...

    @abstractmethod
    async def guard_input(self, turn: Turn, message: ChatMessage) -> ChatMessage: ...

    @abstractmethod
    def complaint(self, reply: ChatMessage) -> str | None: ...

    @abstractmethod
    def reachable(self) -> Sequence[Participant]: ...

    @abstractmethod
    def chat_client(self) -> ChatClient: ...

    @abstractmethod
    def model(self) -> str: ...
