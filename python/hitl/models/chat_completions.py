"""Chat clients of chat-completions, on the `openai` package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.models.openai_package import OpenAIPackageClient
from hitl.models.provider import ModelNotConfigured as ModelNotConfigured
from hitl.models.provider import read_stream, read_whole, reading, traced

TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
"""The two names that the limit of a reply has."""


class OpenAIChatClient(OpenAIPackageClient):
    """Chat completions of OpenAI, or of any server that speaks them: `base_url` is where its API is, up to and
    including `/v1`, and `OPENAI_BASE_URL` by default, else OpenAI. Key: `OPENAI_API_KEY`.

    Nothing is imported, built or connected before the first request (or `prepare()`).

    Example:
        local = OpenAIChatClient("none", "http://127.0.0.1:11434/v1")
        agent = ReActAgent(client=local, model_name="qwen3")
    """

    _sends_reasoning: ClassVar[bool] = False

    def _import(self) -> None:
        from openai.resources.chat.chat import AsyncChat  # noqa: F401
        from openai.resources.chat.completions import AsyncCompletions  # noqa: F401
        from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: F401

        # Late: see prepare().
        import hitl.models.wire  # noqa: F401

    async def _complete(self, request: ModelRequest) -> ModelReply:
        # Late: see prepare().
        from hitl.models.wire import ReplyBuilder, conversation_to_wire, response_format_to_wire, settings_to_wire

        client = self._client()
        body: dict[str, Any] = {
            "model": request.model,
            "messages": conversation_to_wire(request.messages, reasoning=self._sends_reasoning),
        }
        if request.tools:
            body["tools"] = request.tools
        if request.response_format is not None:
            body["response_format"] = response_format_to_wire(request.response_format)
        own = _is_openai(client.base_url.host)
        settings = settings_to_wire(request.settings, has_tools=bool(request.tools), is_openai=own)
        if members := _together(self._parameters, settings):
            # Through extra_body, because gateways take members that the package has no argument for.
            body["extra_body"] = members
        body |= traced()
        builder = ReplyBuilder()
        if request.on_delta is None or not self._stream:
            await read_whole(client.chat.completions.create(**body), builder.add_completion)
        else:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            async with await client.chat.completions.create(**body) as stream:
                await read_stream(stream, builder.add_chunk, request.on_delta)
        with reading():
            return builder.finish()


class OpenRouterChatClient(OpenAIChatClient):
    """Any model of OpenRouter: `model_name="anthropic/claude-sonnet-4"`. Key: `OPENROUTER_API_KEY`.

    Example:
        agent = ReActAgent(client=OpenRouterChatClient(), model_name="anthropic/claude-sonnet-4")
    """

    provider: ClassVar[str] = "openrouter"
    _key_variables: ClassVar[tuple[str, ...]] = ("OPENROUTER_API_KEY",)
    # OpenRouter hands reasoning back to the model that wrote it, which needs it between its tool calls.
    _sends_reasoning: ClassVar[bool] = True

    def __init__(self, api_key: str | None = None, base_url: str | None = None, **options: Any):
        """As `OpenAIChatClient`; `base_url` is `OPENROUTER_BASE_URL` or OpenRouter by default."""
        address = base_url or os.environ.get("OPENROUTER_BASE_URL") or "https://openrouter.ai/api/v1"
        super().__init__(api_key, address, **options)


def _is_openai(host: str) -> bool:
    """Whether the server is OpenAI's own, or that of Azure, and not one that speaks like them."""
    return host.endswith((".openai.com", ".azure.com"))


def _together(parameters: Mapping[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Members of a body: the client's own, and over them those of the request."""
    members = dict(parameters)
    if any(name in settings for name in TOKEN_LIMITS):
        for name in TOKEN_LIMITS:  # two limits by two names are refused
            members.pop(name, None)
    return members | settings
