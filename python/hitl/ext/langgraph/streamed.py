"""What a chat model says is shown as it is said. So it is asked for its words one by one where LangChain would ask for
them all at once, and what came of that has to be as good: half a reply is no reply, and half a call is not made."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Iterator
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult
from langchain_core.runnables.config import ensure_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langchain_core.tracers.event_stream import _AstreamEventsCallbackHandler
from langgraph.constants import TAG_NOSTREAM

from hitl.turn.places import StepScope, place_var
from hitl.turn.runtime import Turn

stream_var: contextvars.ContextVar[bool] = contextvars.ContextVar("hitl_langgraph_stream", default=True)

_SAY_WHY_THEY_END: Final = frozenset(
    {"anthropic", "deepseek", "google_genai", "groq", "mistralai", "ollama", "openai", "xai"}
)
"""The providers, by LangChain's names, whose models say of each whole reply why it ends."""

_WHY_IT_ENDS: Final = ("finish_reason", "stop_reason", "done_reason", "status")


def with_reader(callbacks: Any, turn: Turn) -> tuple[Any, Reader | None]:
    """The callbacks of a request, and one that shows the words of the agent that people talk to; it is there alone
    too, or None."""
    place = place_var.get()
    if not stream_var.get() or place is None or _is_in_tool(place.step):
        return callbacks, None
    reader = Reader(turn)
    if callbacks is None or isinstance(callbacks, list):
        return [*(callbacks or []), reader], reader
    copied = callbacks.copy()
    copied.add_handler(reader, inherit=False)
    return copied, reader


def in_one_piece(message: AIMessage) -> AIMessageChunk:
    """A message as the only chunk of a stream, to which others can be added as to any."""
    return AIMessageChunk(
        content=message.content,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        name=message.name,
        id=message.id,
        usage_metadata=message.usage_metadata,
        tool_calls=message.tool_calls,
        invalid_tool_calls=message.invalid_tool_calls,
        chunk_position="last",
    )


def tells_events(config: Any) -> bool:
    """Whether ``astream_events`` is what a request is made for."""
    callbacks = ensure_config(config)["callbacks"]
    handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", ())
    return any(isinstance(each, _AstreamEventsCallbackHandler) for each in handlers)


def _is_in_tool(scope: StepScope | None) -> bool:
    while scope is not None and scope.kind != "tool":
        scope = scope.outer
    return scope is not None


class _CallInPieces:
    """A call, in the pieces that came."""

    def __init__(self, index: int | str | None) -> None:
        self.index = index
        """By which pieces of one call know each other; None of one that came as a whole."""
        self.id: str | None = None
        self.written: list[str] = []


class Reader(AsyncCallbackHandler, _StreamingCallbackHandler[Any]):
    """Asks the model to say its words one by one, shows them, and keeps the arguments of calls as they were written."""

    run_inline = True
    ignore_chat_model = True
    """It wants no beginnings: for those LangChain would make one text of the whole conversation, at each request."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._is_streaming = False
        self._calls: list[_CallInPieces] = []

    async def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        tags: list[str] | None = None,
        **_: Any,
    ) -> None:
        text = token if isinstance(token, str) else "".join(_texts(token))
        if text and TAG_NOSTREAM not in (tags or ()):  # LangGraph's own word, which a summary bears
            self._turn.delta({"content": text})
        if isinstance(chunk, ChatGenerationChunk):
            self._is_streaming = True
            if isinstance(chunk.message, AIMessageChunk):
                self._keep(chunk.message.tool_call_chunks)

    def _keep(self, pieces: list[ToolCallChunk]) -> None:
        for piece in pieces:
            index, call_id = piece["index"], piece["id"]
            call = next((each for each in reversed(self._calls) if index is not None and each.index == index), None)
            if call is None or (call_id and call.id and call_id != call.id):
                call = _CallInPieces(index)
                self._calls.append(call)
            call.id = call.id or call_id
            call.written.append(piece["args"] or "")

    def tap_output_aiter(self, run_id: Any, output: Any) -> Any:
        return output

    def tap_output_iter(self, run_id: Any, output: Any) -> Any:
        return output

    def is_cut(self, result: LLMResult) -> bool:
        """Whether the stream ended before the model did."""
        message = _streamed(result) if self._is_streaming else None
        if message is None or message.response_metadata.get("model_provider") not in _SAY_WHY_THEY_END:
            return False
        return not any(message.response_metadata.get(name) for name in _WHY_IT_ENDS)

    def take_out_halves(self, result: LLMResult) -> None:
        """Make each call whose arguments are not whole an invalid one. LangChain, which mends JSON as it comes, takes
        it for one."""
        message = _streamed(result)
        if message is None:
            return
        halves = {call.id: text for call in self._calls if not _is_whole(text := "".join(call.written))}
        cut = [
            InvalidToolCall(
                type="invalid_tool_call", id=call["id"], name=call["name"], args=halves[call["id"]], error=None
            )
            for call in message.tool_calls
            if call["id"] in halves
        ]
        if cut:
            message.tool_calls = [call for call in message.tool_calls if call["id"] not in halves]
            message.invalid_tool_calls = [*message.invalid_tool_calls, *cut]


def _streamed(result: LLMResult) -> AIMessage | None:
    message = getattr(result.generations[0][0], "message", None)
    return message if isinstance(message, AIMessage) else None


def _is_whole(arguments: str) -> bool:
    try:
        json.loads(arguments or "{}", strict=False)
    except ValueError:
        return False
    return True


def _texts(blocks: list[str | dict[str, Any]]) -> Iterator[str]:
    return (block if isinstance(block, str) else str(block.get("text", "")) for block in blocks)
