"""The one interface between an agent and whatever produces its messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, runtime_checkable

from hitl.model_settings import ModelSettings

if TYPE_CHECKING:
    from hitl.messages import ChatMessage


class Delta(TypedDict, total=False):
    """A piece of a reply, as it arrives. Exactly one member is present."""

    content: str
    reasoning: str


@dataclass(frozen=True)
class ResponseFormat:
    """The structure a final message must have."""

    name: str
    """Letters, digits, `_` and `-`; at most 64 characters."""

    schema: dict[str, Any]
    """JSON Schema of the message's content."""


@dataclass(frozen=True)
class ModelRequest:
    """One request to a model."""

    model: str
    """The model's name, as its provider calls it."""

    messages: list[ChatMessage]
    """The conversation, the system prompt first where there is one."""

    tools: list[dict[str, Any]] = field(default_factory=list)
    """Tool definitions: `{"type": "function", "function": {"name", "description", "parameters"}}`."""

    response_format: ResponseFormat | None = None
    """None: free text."""

    on_delta: Callable[[Delta], None] | None = None
    """Called with each piece of the reply in order, from the event loop. None: do not stream."""

    settings: ModelSettings = field(default_factory=ModelSettings)
    """How the model is asked; empty: as the client and the provider have it."""


@dataclass(frozen=True)
class ModelReply:
    """What a model said."""

    message: ChatMessage
    """Role `assistant`. Every tool call has an `id`, `type` "function" and `function: {name, arguments}`, where
    `arguments` is the string the model wrote, valid JSON or not."""

    usage: dict[str, float] = field(default_factory=dict)
    """Tokens: `input_tokens`, `output_tokens`, `total_tokens`, and where told `cached_tokens`,
    `reasoning_tokens`; `cost` in US dollars where the provider says it. Empty: not told."""

    finish_reason: str | None = None
    """`stop`, `tool_calls`, `length`, `content_filter`, or what else the provider says."""

    model: str | None = None
    """The model that said it, where it is another than the one that was asked for."""


@runtime_checkable
class ChatClient(Protocol):
    """A source of model replies.

    One client may be used by several turns, event loops and threads at once, and is made before workers are
    forked: connections belong to the loop that uses them, not to the client.

    A client may also have `prepare() -> None`: it imports what the first request will need, so that forked
    workers inherit it. It opens no connection and starts no thread. And it may have `default_model: str`, for agents
    that name no model.

    What may pass by itself is asked again after a pause: `is_transient(error) -> bool | float` says of what `complete`
    raised whether it may, a number: not before that many seconds; without it only a `hitl.TransientError` may.
    `retries: int` is how often (2 without it), `transient: "suspend" | "raise"` what becomes of the last error. What
    wraps another client hands these on.

    Example:
        class Echo:
            async def complete(self, request: ModelRequest) -> ModelReply:
                said = request.messages[-1].content
                return ModelReply(ChatMessage.assistant_message(content=said), finish_reason="stop")

        agent = ReActAgent(client=Echo(), model_name="echo")
    """

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask the model; raises what the provider's library raises."""
