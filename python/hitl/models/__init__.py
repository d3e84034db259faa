"""Chat clients: what an agent asks for its next message.

`OpenAIChatClient` and `OpenRouterChatClient` speak chat-completions and `OpenAIResponsesClient` the Responses API,
through the `openai` package (`pip install hitl-runtime[openai]`); `AnthropicChatClient` speaks Anthropic's messages,
through the `anthropic` package (`pip install hitl-runtime[anthropic]`). `FallbackChatClient` asks one after the other.
Anything that satisfies `ChatClient` can stand in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitl.messages import ChatMessage
    from hitl.model_settings import InvalidSettings, ModelSettings
    from hitl.models.anthropic_messages import AnthropicChatClient
    from hitl.models.chat_client import ChatClient, Delta, ModelReply, ModelRequest, ResponseFormat
    from hitl.models.chat_completions import OpenAIChatClient, OpenRouterChatClient
    from hitl.models.fallback import FallbackChatClient
    from hitl.models.responses import OpenAIResponsesClient

__all__ = [
    "AnthropicChatClient",
    "ChatClient",
    "ChatMessage",
    "Delta",
    "FallbackChatClient",
    "InvalidSettings",
    "ModelReply",
    "ModelRequest",
    "ModelSettings",
    "OpenAIChatClient",
    "OpenAIResponsesClient",
    "OpenRouterChatClient",
    "ResponseFormat",
]

_HOMES = {
    "AnthropicChatClient": "hitl.models.anthropic_messages",
    "ChatClient": "hitl.models.chat_client",
    "ChatMessage": "hitl.messages",
    "Delta": "hitl.models.chat_client",
    "FallbackChatClient": "hitl.models.fallback",
    "InvalidSettings": "hitl.model_settings",
    "ModelReply": "hitl.models.chat_client",
    "ModelRequest": "hitl.models.chat_client",
    "ModelSettings": "hitl.model_settings",
    "OpenAIChatClient": "hitl.models.chat_completions",
    "OpenAIResponsesClient": "hitl.models.responses",
    "OpenRouterChatClient": "hitl.models.chat_completions",
    "ResponseFormat": "hitl.models.chat_client",
}


def _get(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # A checker that saw it would take every misspelt name for a public one.
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted(__all__)
