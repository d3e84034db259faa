"""A local server that speaks OpenAI's Responses API, for driving the real `openai` package.

Its replies and events are made of the package's own types, which are the published schema, and its requests are checked
against them; it refuses what the real API refuses of a conversation that it does not keep itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from openai.types.responses import (
    EasyInputMessageParam,
    FunctionToolParam,
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseCreatedEvent,
    ResponseError,
    ResponseErrorEvent,
    ResponseFailedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseFunctionToolCallParam,
    ResponseIncompleteEvent,
    ResponseOutputItem,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningItemParam,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseRefusalDeltaEvent,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_input_param import FunctionCallOutput
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel, TypeAdapter, ValidationError

from tests.python.support.model_server import Failure, ModelServer, pieces

USAGE = ResponseUsage(
    input_tokens=11,
    input_tokens_details=InputTokensDetails(cached_tokens=4, cache_write_tokens=0),
    output_tokens=7,
    output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
    total_tokens=18,
)

# Those of the API's many kinds of items and tools that a client of ours sends.
_INPUT: TypeAdapter[Any] = TypeAdapter(
    list[EasyInputMessageParam | ResponseFunctionToolCallParam | FunctionCallOutput | ResponseReasoningItemParam]
)
_TOOLS: TypeAdapter[Any] = TypeAdapter(list[FunctionToolParam])


def text(said: str, *, phase: Any = None) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=said, annotations=[])
    return ResponseOutputMessage(
        id="msg_1", type="message", role="assistant", status="completed", content=[part], phase=phase
    )


def refusal(said: str) -> ResponseOutputMessage:
    part = ResponseOutputRefusal(type="refusal", refusal=said)
    return ResponseOutputMessage(id="msg_1", type="message", role="assistant", status="completed", content=[part])


def call(identity: str, name: str, arguments: str, *, status: Any = "completed") -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{identity}", type="function_call", call_id=identity, name=name, arguments=arguments, status=status
    )


def thought(identity: str, *summary: str, encrypted: str | None = "gAAAA") -> ResponseReasoningItem:
    parts = [Summary(type="summary_text", text=each) for each in summary]
    return ResponseReasoningItem(id=identity, type="reasoning", summary=parts, encrypted_content=encrypted)


@dataclass
class Reply:
    """One response; `output` are its items."""

    output: list[ResponseOutputItem] = field(default_factory=list)
    incomplete: Any = None
    """Why it was cut short."""
    failed: Any = None
    """The code of what it failed with."""

    def response(self, status: Any = None) -> Response:
        if status is None:
            status = "incomplete" if self.incomplete else "failed" if self.failed else "completed"
        is_over = status != "in_progress"
        return Response(
            id="resp_1",
            object="response",
            created_at=1_700_000_000,
            model="test-model",
            status=status,
            output=self.output if is_over else [],
            incomplete_details=IncompleteDetails(reason=self.incomplete) if is_over and self.incomplete else None,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            usage=USAGE if is_over and not self.failed else None,
            error=ResponseError(code=self.failed, message="no") if is_over and self.failed else None,
        )


class ResponsesServer(ModelServer):
    """Answers request after request from `replies`; keeps what it received."""

    path = "/v1/responses"
    prefix = "/v1"

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def wrong(self, body: dict[str, Any]) -> str | None:
        try:
            for checked in (_INPUT.validate_python(body["input"]), _TOOLS.validate_python(body.get("tools", []))):
                assert isinstance(checked, list)
        except ValidationError as error:
            return str(error)
        return wrong_input(body["input"], is_stored=body.get("store") is not False)

    def error(self, failure: Failure) -> dict[str, Any]:
        return {"error": {"message": failure.message, "type": failure.kind, "param": None, "code": None}}

    def events(self, reply: Reply, body: dict[str, Any]) -> list[str]:
        return stream(reply)

    def whole(self, reply: Reply) -> dict[str, Any]:
        return plain(reply.response())


def wrong_input(items: list[dict[str, Any]], *, is_stored: bool) -> str | None:
    """What the real API says to calls and results that do not match, and to thoughts that it cannot find or place."""
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for identity in calls:
        if identity not in results:
            return f"No tool output found for function call {identity}."
    for identity in results:
        if identity not in calls:
            return f"No tool call found for function call output with call_id {identity}."
    for item, after in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") != "reasoning":
            continue
        if not is_stored and not item.get("encrypted_content"):
            return f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
        if after.get("type") not in ("reasoning", "function_call") and after.get("role") != "assistant":
            return f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
    return None


def plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


def sse(event: BaseModel) -> str:
    return f"event: {event.type}\ndata: {event.model_dump_json(by_alias=True)}\n\n"  # type: ignore[attr-defined]


def stream(reply: Reply) -> list[str]:
    """A reply as the text of its events."""
    return [sse(event) for event in events(reply)]


def events(reply: Reply) -> Iterator[BaseModel]:
    number = iter(range(10_000))
    yield ResponseCreatedEvent(
        type="response.created", sequence_number=next(number), response=reply.response("in_progress")
    )
    for index, item in enumerate(reply.output):
        begun = item.model_copy(update={"status": "in_progress", "content": [], "arguments": "", "summary": []})
        yield ResponseOutputItemAddedEvent.model_construct(
            type="response.output_item.added", sequence_number=next(number), output_index=index, item=begun
        )
        yield from deltas(item, index, number)
        yield ResponseOutputItemDoneEvent(
            type="response.output_item.done", sequence_number=next(number), output_index=index, item=item
        )
    last = reply.response()
    if last.status == "failed":
        yield ResponseFailedEvent(type="response.failed", sequence_number=next(number), response=last)
    elif last.status == "incomplete":
        yield ResponseIncompleteEvent(type="response.incomplete", sequence_number=next(number), response=last)
    else:
        yield ResponseCompletedEvent(type="response.completed", sequence_number=next(number), response=last)


def deltas(item: Any, index: int, number: Iterator[int]) -> Iterator[BaseModel]:
    where: dict[str, Any] = {"item_id": item.id, "output_index": index}
    if isinstance(item, ResponseFunctionToolCall):
        for piece in pieces(item.arguments):
            yield ResponseFunctionCallArgumentsDeltaEvent(
                type="response.function_call_arguments.delta", sequence_number=next(number), delta=piece, **where
            )
    elif isinstance(item, ResponseReasoningItem):
        for part, summary in enumerate(item.summary):
            for piece in pieces(summary.text):
                yield ResponseReasoningSummaryTextDeltaEvent(
                    type="response.reasoning_summary_text.delta",
                    sequence_number=next(number),
                    summary_index=part,
                    delta=piece,
                    **where,
                )
    elif isinstance(item, ResponseOutputMessage):
        for part, content in enumerate(item.content):
            yield ResponseContentPartAddedEvent(
                type="response.content_part.added",
                sequence_number=next(number),
                content_index=part,
                part=content,
                **where,
            )
            said = content.refusal if isinstance(content, ResponseOutputRefusal) else content.text
            for piece in pieces(said):
                common: dict[str, Any] = {
                    **where,
                    "sequence_number": next(number),
                    "content_index": part,
                    "delta": piece,
                }
                if isinstance(content, ResponseOutputRefusal):
                    yield ResponseRefusalDeltaEvent(type="response.refusal.delta", **common)
                else:
                    yield ResponseTextDeltaEvent(type="response.output_text.delta", logprobs=[], **common)


def error_event(code: str, message: str) -> str:
    return sse(ResponseErrorEvent(type="error", code=code, message=message, param=None, sequence_number=1))
