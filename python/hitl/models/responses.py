"""A chat client of OpenAI's Responses API, on the `openai` package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.models.openai_package import OpenAIPackageClient
from hitl.models.provider import read_stream, read_whole, reading, together, traced

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from hitl.models.responses_wire import ResponseBuilder

_WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt-4", "ft:gpt-3", "ft:gpt-4")
"""How the models are called that refuse to be asked for encrypted reasoning, since they have none."""


class OpenAIResponsesClient(OpenAIPackageClient):
    """The Responses API of OpenAI, or of any server that speaks it: `base_url` is where its API is, up to and including
    `/v1`, and `OPENAI_BASE_URL` by default, else OpenAI. Key: `OPENAI_API_KEY`.

    The provider keeps nothing (`store` is false): what a model thought comes encrypted, stands in the journal and in
    the session's state, and goes back to it with the results of its tool calls. Tools that the provider runs itself are
    given in `parameters={"tools": [{"type": "web_search"}]}`, beside the agent's own.

    Nothing is imported, built or connected before the first request (or `prepare()`).

    Example:
        searching = OpenAIResponsesClient(parameters={"tools": [{"type": "web_search"}]})
        agent = ReActAgent(client=searching, model_name="gpt-5")
    """

    def _import(self) -> None:
        from openai.resources.responses import AsyncResponses  # noqa: F401
        from openai.types.responses import Response, ResponseStreamEvent  # noqa: F401

        # Late: see prepare().
        import hitl.models.responses_wire  # noqa: F401

    async def _complete(self, request: ModelRequest) -> ModelReply:
        # Late: see prepare().
        from hitl.models.responses_wire import ResponseBuilder

        client = self._client()
        body = self._body(request)
        builder = ResponseBuilder()
        asked: dict[str, Any] = {"model": request.model, "extra_body": body, **traced()}
        if request.on_delta is None or not self._stream:
            await read_whole(client.responses.create(**asked), builder.add_response)
        else:
            async with await client.responses.create(**asked, stream=True) as stream:
                await read_stream(stream, builder.add_event, request.on_delta)
        return self._finished(client, builder)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        # Late: see prepare().
        from hitl.models.responses_wire import format_to_wire, input_of, settings_to_wire, tools_to_wire

        body: dict[str, Any] = {"store": False}
        if not request.model.startswith(_WITHOUT_REASONING):
            body["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            body["tools"] = tools_to_wire(request.tools)
        if request.response_format is not None:
            body["text"] = format_to_wire(request.response_format)
        settings = request.settings
        body = together(body, self._parameters)
        body = together(
            body, settings_to_wire(settings, has_tools=bool(body.get("tools"))), settings.get("extra_body", {})
        )
        return {**body, "input": input_of(request.messages, is_stored=body.get("store") is not False)}

    def _finished(self, client: AsyncOpenAI, builder: ResponseBuilder) -> ModelReply:
        if builder.failure is None:
            with reading():
                return builder.finish()
        from httpx2 import Request
        from openai import APIError

        # As the package raises what chat-completions say in the middle of a stream.
        asked = Request("POST", f"{client.base_url}responses")
        message = str(builder.failure.get("message") or "the model failed")
        raise APIError(message, asked, body=builder.failure)
