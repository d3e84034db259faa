"""A chat client of Anthropic's messages, on the `anthropic` package."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.models.provider import ProviderClient, read_stream, read_whole, reading, together, traced

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

MOST_TOKENS = 32_000
"""Tokens a reply may have where neither the client's parameters nor the request's settings say: the API wants a limit,
and this is the least of those that its models have."""

_PASSING = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
_OTHER_CREDENTIALS = (
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
)


class AnthropicChatClient(ProviderClient["AsyncAnthropic"]):
    """Claude, by Anthropic's messages: `base_url` is `ANTHROPIC_BASE_URL` by default, else Anthropic, without `/v1`.
    Key: `ANTHROPIC_API_KEY`, or what else the package shows itself by.

    What a model thought comes signed, stands in the journal and in the session's state, and goes back to it with the
    results of its tool calls. `parameters={"thinking": {"type": "adaptive"}}` lets it think, and
    `parameters={"cache_control": {"type": "ephemeral"}}` lets the provider keep the conversation in its cache. Tools
    that the provider runs itself are given in `parameters={"tools": [...]}`, beside the agent's own.

    Replies are streamed also where nobody reads them, since the API refuses to make long ones wait; `stream=False` is
    for servers that cannot. Nothing is imported, built or connected before the first request (or `prepare()`).

    Example:
        thinking = AnthropicChatClient(parameters={"thinking": {"type": "adaptive"}})
        agent = ReActAgent(client=thinking, model_name="claude-sonnet-4-5")
    """

    provider: ClassVar[str] = "anthropic"
    _package: ClassVar[str] = "anthropic"
    _key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    _credentials: ClassVar[frozenset[str]] = frozenset({"auth_token", "credentials", "config", "profile"})

    def _import(self) -> None:
        from anthropic.resources.messages import AsyncMessages  # noqa: F401
        from anthropic.types import Message, RawMessageStreamEvent  # noqa: F401

        # Late: see prepare().
        import hitl.models.anthropic_wire  # noqa: F401

    def _make(self, options: dict[str, Any]) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(**options, max_retries=0)

    async def _close(self, client: AsyncAnthropic) -> None:
        await client.close()

    def _brings_credentials(self) -> bool:
        return super()._brings_credentials() or any(os.environ.get(name) for name in _OTHER_CREDENTIALS)

    def _is_passing_in_stream(self, error: Exception) -> bool:
        from anthropic import APIStatusError

        # What is said in the middle of a stream has the status of its beginning.
        return isinstance(error, APIStatusError) and error.status_code < 400 and error.type in _PASSING

    async def _complete(self, request: ModelRequest) -> ModelReply:
        # Late: see prepare().
        from hitl.models.anthropic_wire import MessageBuilder

        client = self._client()
        body = self._body(request)
        builder = MessageBuilder()
        asked: dict[str, Any] = {
            "model": request.model,
            "max_tokens": body.pop("max_tokens"),
            "messages": body.pop("messages"),
            # Through extra_body, because the package has no argument for what is newer than it.
            "extra_body": body,
            **traced(),
        }
        if not self._stream:
            # With a time-out of its own the package makes no guess whether the reply may take too long to wait for.
            await read_whole(client.messages.create(**asked, timeout=client.timeout), builder.add_message)
        else:
            async with await client.messages.create(**asked, stream=True) as stream:
                await read_stream(stream, builder.add_event, request.on_delta)
        with reading():
            return builder.finish()

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        # Late: see prepare().
        from hitl.models import anthropic_wire as wire

        system, messages = wire.conversation_to_wire(request.messages)
        body: dict[str, Any] = {"max_tokens": MOST_TOKENS}
        if request.tools:
            body["tools"] = wire.tools_to_wire(request.tools)
        wanted = request.response_format
        if wanted is not None and wire.can_be_guaranteed(wanted.schema):
            from anthropic import transform_schema

            body["output_config"] = {"format": {"type": "json_schema", "schema": transform_schema(wanted.schema)}}
        elif wanted is not None:
            system = "\n\n".join(filter(None, (system, wire.told_format(wanted))))
        settings = request.settings
        body = together(body, self._parameters)
        has_tools = bool(body.get("tools"))
        body = together(body, wire.settings_to_wire(settings, has_tools=has_tools), settings.get("extra_body", {}))
        return {**body, **({"system": system} if system else {}), "messages": messages}
