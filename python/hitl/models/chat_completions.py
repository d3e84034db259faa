"""Chat clients on the `openai` package. Time-outs are that package's own (`timeout`), retries are ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from hitl.errors import HitlError
from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.models.recording import DEFAULT_RETRIES, record_model_call, turn_to_record_in
from hitl.turn.places import place_var
from hitl.turn.retrying import Retries, Transient, check_retries, is_transient, run_in_place

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
"""The two names that the limit of a reply has."""


class ModelNotConfigured(HitlError):
    """A chat client lacks its library, its key or its model."""

    code = "model_not_configured"


class OpenAIChatClient:
    """Chat completions of OpenAI, or of any server that speaks them (`base_url`).

    Nothing is imported, built or connected before the first request (or `prepare()`).
    """

    _key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    _sends_reasoning: ClassVar[bool] = False

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        stream: bool = True,
        retries: int | None = None,
        transient: Transient = "suspend",
        **client_options: Any,
    ):
        """
        Args:
            api_key: The key; by default `OPENAI_API_KEY`.
            base_url: Where the API is, up to and including `/v1`; by default `OPENAI_BASE_URL`, else OpenAI.
            parameters: Members of every request, as the server spells them: `{"temperature": 0}`. Those of a request's
                own `settings` win.
            stream: Whether to stream when somebody reads; False for servers that cannot.
            retries: How often a request is made again after an error that may pass (see `is_transient`), with growing
                pauses, or those of `Retry-After`; 2 by default. `max_retries`, the package's word, is the same.
            transient: What becomes of such an error when all tries are used up: "suspend" keeps the turn until it is
                retried, "raise" tells the agent.
            **client_options: As for `openai.AsyncOpenAI`: `timeout` (seconds), `default_headers`, `organization`, ...
        """
        self._require_library()
        most = client_options.pop("max_retries", None)
        check_retries(type(self).__name__, most if retries is None else retries, transient)
        self.retries: int = next(number for number in (retries, most, DEFAULT_RETRIES) if number is not None)
        self.transient = transient
        self._api_key = api_key
        self._base_url = base_url
        self._parameters = dict(parameters or {})
        self._stream = stream
        self._client_options = dict(client_options)
        # Connections belong to an event loop, so each loop has a client of its own.
        self._clients: dict[asyncio.AbstractEventLoop, AsyncOpenAI] = {}
        self._owner = os.getpid()
        self._spare: list[AsyncOpenAI] = []
        """One at most. A list, because taking from it is one step: two threads must not get the same."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._base_url!r})"  # never the key

    def prepare(self) -> None:
        """Import what a request needs, and build (not connect) the first client, so that forked workers have it."""
        # What openai and its HTTP library import lazily would otherwise be imported anew in every forked worker.
        from openai.resources.chat.chat import AsyncChat  # noqa: F401
        from openai.resources.chat.completions import AsyncCompletions  # noqa: F401
        from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: F401

        import hitl.models.wire  # noqa: F401

        with suppress(ImportError):  # a detail of anyio's: without it the first request is some 20 ms slower
            import_module("anyio._backends._asyncio")
        if self._find_key() and not self._spare:
            self._spare.append(self._build())

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask the model; raises `openai.OpenAIError` (after its retries), `ModelNotConfigured`.

        Inside a turn the call is a step of it: a replay gets the recorded reply, and `on_delta` is not called again.
        """
        turn = turn_to_record_in()
        if turn is not None:
            return await record_model_call(turn, self, self._complete, request)
        if place_var.get() is not None:  # whoever made a step of it tries again
            return await self._complete(request)
        return await run_in_place(Retries(self.retries, "raise", self._may_begin_anew), lambda: self._complete(request))

    def is_transient(self, error: Exception) -> bool | float:
        """Whether an error of `complete` may pass by itself: no connection, a time-out, the status 408, 409, 429 or
        5xx, an overloaded model. A number: yes, but not before that many seconds."""
        from openai import APIError

        asked = getattr(getattr(error, "response", None), "headers", {}).get("x-should-retry")
        if asked == "false":
            return False
        if isinstance(error, APIError) and not hasattr(error, "status_code"):  # said in the middle of a stream
            words = f"{error.type} {error.code} {error.message}".lower()
            if any(word in words for word in ("overloaded", "server_error", "rate_limit")):
                return True
        verdict = is_transient(error)
        return True if verdict is False and asked == "true" else verdict

    def _may_begin_anew(self, error: Exception) -> bool | float:
        """The same where pieces of the reply are with the reader, who would read them a second time."""
        # Late: see prepare().
        from hitl.models.wire import IncompleteReply

        return not isinstance(error, IncompleteReply) and self.is_transient(error)

    async def _complete(self, request: ModelRequest) -> ModelReply:
        # Late: see prepare().
        from hitl.models.wire import ReplyBuilder, response_format_to_wire, settings_to_wire, to_wire

        client = self._client()
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [to_wire(message, reasoning=self._sends_reasoning) for message in request.messages],
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
        builder = ReplyBuilder()
        if request.on_delta is None or not self._stream:
            completion = await client.chat.completions.create(**body)
            builder.add_completion(_plain(completion))
            return builder.finish()
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        async with await client.chat.completions.create(**body) as stream:
            async for chunk in stream:
                for delta in builder.add_chunk(_plain(chunk)):
                    request.on_delta(delta)
        return builder.finish()

    async def aclose(self) -> None:
        """Close the connections this event loop has; the client stays usable."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _client(self) -> AsyncOpenAI:
        if os.getpid() != self._owner:
            # Forked: sockets of the parent are not ours to use or to close. A spare has none.
            self._clients, self._owner = {}, os.getpid()
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for dead in [known for known in tuple(self._clients) if known.is_closed()]:
                self._clients.pop(dead, None)
            with suppress(IndexError):  # no spare, or another thread's loop has just taken it
                client = self._spare.pop()
            client = self._clients[loop] = client or self._build()
        return client

    def _build(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        key = self._find_key()
        if not key and not self._brings_credentials():
            variable = self._key_variables[0]
            raise ModelNotConfigured(
                f"{type(self).__name__} has no API key\n\n"
                f"hint: set {variable}, or pass {type(self).__name__}(api_key=...)"
            )
        options = dict(self._client_options)
        if key:
            options["api_key"] = key
        if self._base_url is not None:
            options["base_url"] = self._base_url
        return AsyncOpenAI(**options, max_retries=0)  # a try that fails is recorded, and the pause is a timer

    def _find_key(self) -> str | None:
        if self._api_key:
            return self._api_key
        return next((value for name in self._key_variables if (value := os.environ.get(name))), None)

    def _brings_credentials(self) -> bool:
        return bool(self._client_options.keys() & {"provider", "workload_identity", "admin_api_key"})

    def _require_library(self) -> None:
        # Looked for, not imported: importing takes most of a second, and an agent may never need it.
        if find_spec("openai") is None:
            raise ModelNotConfigured(
                f"{type(self).__name__} needs the openai package\n\nhint: pip install 'hitl-runtime[openai]'"
            )


class OpenRouterChatClient(OpenAIChatClient):
    """Any model of OpenRouter: `model_name="anthropic/claude-sonnet-4"`. Key: `OPENROUTER_API_KEY`."""

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


def _plain(model: Any) -> dict[str, Any]:
    """A response of the openai package as dictionaries, with the members it has no field for."""
    plain: dict[str, Any] = model.to_dict(warnings=False)
    return plain
