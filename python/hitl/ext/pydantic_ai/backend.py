"""What pydantic-ai does in a run that is not to be done twice, as steps of the turn. The innermost layer of a run."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, cast

from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BoundDurableOperation,
    CapabilityOperationId,
    DurableOperation,
    DurableOperationId,
    EventStreamHandlerId,
    JournalCallableOperationBackend,
    ModelRequestId,
    ResultCodec,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
    record_durable_unit,
)
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.tools import RunContext
from pydantic_core import to_jsonable_python

from hitl.agents.abandoned import UNFINISHED
from hitl.ext.arguments import as_written
from hitl.ext.pydantic_ai.gate import current_call
from hitl.ext.pydantic_ai.messages import compared, recorded
from hitl.ext.versions import reading
from hitl.strict_json import sendable, sendable_text
from hitl.turn.places import place_var
from hitl.turn.retrying import Retries, is_transient, run, seconds_asked
from hitl.turn.runtime import Turn, current_turn

_NO_CONFIG: RoleBasedOperationConfig[None] = RoleBasedOperationConfig(
    model=None, event=None, capability=None, tool=None
)

DISTRIBUTION: Final = "pydantic-ai-slim"
"""The package whose version matters."""

_RETURNED: Final = "tool_return"
_PUT_OFF: Final = ("approval_required", "call_deferred")
_WIRE: Final = "pydantic_ai"


class StepBackend(JournalCallableOperationBackend[None]):
    """Runs each operation as one step with a key of its own: what the framework does between them may change."""

    def __init__(
        self, agent_name: str, default_model_id: str | None, retries: Retries, *, stream: bool, can_stream: bool
    ) -> None:
        """``stream``: ask models for their words one by one; ``can_stream``: whether the agent's own model can."""
        super().__init__(agent_name=agent_name, default_model_id=default_model_id, config=_NO_CONFIG)
        self._agent = agent_name
        self._retries = retries
        self._stream = stream
        self._can_stream = can_stream
        self._requests: dict[bool, Callable[[Any], Awaitable[object]]] = {}
        """What asks a model, for all it has to say at once, and word by word."""

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> BoundDurableOperation[Any, Any, Any]:
        """What calls an operation. Of a model's request how it is made is decided here: where it streams for us alone
        the run around it need not, which would replay for nobody what is shown already."""
        if not isinstance(operation.operation_id, ModelRequestId):
            return super().bind(operation)
        streaming = operation.operation_id.streaming
        handler: Callable[[Any], Awaitable[object]] = operation.handler
        self._requests[streaming] = handler

        async def ask(params: Any) -> object:
            can_stream = params.model_id is not None or self._can_stream  # any other comes here as one that can
            request = self._requests.get((streaming or self._stream) and can_stream, handler)
            response = cast(ModelResponse, await request(params))
            if self._stream and not can_stream:
                _show_whole(response)
            return response

        return super().bind(replace(operation, handler=ask, result_codec=_ReplyCodec()))

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        """The wire form of what ``body`` makes, or has made in an earlier run of this turn."""
        if isinstance(operation_id, EventStreamHandlerId):
            return await body()  # it shows what streams, and shows nothing in a replay
        turn, executed = current_turn(name), False

        async def unit() -> object:
            nonlocal executed
            executed = True
            return await body()

        try:
            if isinstance(operation_id, ModelRequestId):
                return await self._ask_model(turn, unit, cache_key)
            if isinstance(operation_id, ToolsetCallToolId):
                return await self._call_tool(turn, unit, cache_key)
            key, shown = self._identity(operation_id, name, cache_key)
            return await turn.run_step("step", shown, unit, key=key)
        finally:
            record_durable_unit(executed=executed)

    async def _ask_model(self, turn: Turn, unit: Callable[[], Awaitable[object]], cache_key: tuple[Any, ...]) -> object:
        model_id, messages, _, parameters, context = cache_key
        # Messages and tools as everybody reads them: times and ids of runs differ from run to run, system prompts may
        # say what day it is, and what else is in the framework's own form differs from release to release.
        said = compared(messages)
        tools = {each.name: each.parameters_json_schema for each in parameters.function_tools}
        model = model_id or getattr(context.model, "model_name", None) or "model"
        return await run(
            turn,
            self._retries,
            "model",
            model,
            unit,
            key=f"model:{self._agent}",
            arguments={"messages": said, "tools": tools},
        )

    async def _call_tool(self, turn: Turn, unit: Callable[[], Awaitable[object]], cache_key: tuple[Any, ...]) -> object:
        name, arguments, context, _ = cache_key

        async def body() -> object:
            return _plain_result(await unit())

        given = to_jsonable_python(arguments, by_alias=True, fallback=lambda value: type(value).__qualname__)
        result = await turn.run_step(
            "tool",
            name,
            body,
            key=f"tool:{context.tool_call_id or name}",
            arguments=_as_written(given, context.tool_call_id),
            once=context.tool_call_approved,
            tool_call_id=context.tool_call_id,
            shown=given,
        )
        return _wire_result(result)

    def _identity(self, operation: DurableOperationId, name: str, cache_key: tuple[Any, ...]) -> tuple[str, str]:
        """Key and name of the step that an operation of any other kind is."""
        if isinstance(operation, ToolsetValidateToolArgumentsId):
            return f"validate:{cache_key[2].tool_call_id or cache_key[0]}", f"{cache_key[0]}.validate"
        if isinstance(operation, ToolsetGetToolsId):
            return f"tools:{operation.toolset_id}", f"{operation.toolset_id}.tools"
        if isinstance(operation, ToolsetGetInstructionsId):
            return f"instructions:{operation.toolset_id}", f"{operation.toolset_id}.instructions"
        if isinstance(operation, CapabilityOperationId):
            shown = f"{operation.capability_id}.{operation.operation}"
            return f"capability:{shown}", shown
        return name, name  # of a kind that a later release of pydantic-ai has


def _as_written(given: dict[str, Any], call_id: str | None) -> dict[str, Any]:
    """The arguments of a call that it is told by in a replay."""
    call = current_call.get()
    if call is None or call.tool_call_id != call_id:
        return given
    written = call.args_as_dict()
    if len(given) == 1 and not given.keys() & written.keys():  # a model's, whose members are the arguments
        return {name: as_written(value, written) for name, value in given.items()}
    return cast(dict[str, Any], as_written(given, written))


class _ReplyCodec(ResultCodec[ModelResponse]):
    """A model's reply as the journal has it: what everybody reads of it beside the framework's own form."""

    def dump(self, value: ModelResponse) -> object:
        value = replace(value, parts=[_sendable(part) for part in value.parts])
        return recorded(value, JSON_CODEC.dump(ModelResponse, value)).to_json()

    def load(self, payload: object) -> ModelResponse:
        with reading(DISTRIBUTION):
            return cast(ModelResponse, JSON_CODEC.load(ModelResponse, cast(dict[str, Any], payload)["native"]))


def _sendable(part: ModelResponsePart) -> ModelResponsePart:
    """A part of a reply as its wire form can have it: without halves of characters."""
    if isinstance(part, ToolCallPart):
        args = sendable_text(part.args) if isinstance(part.args, str) else sendable(part.args)
        return part if args == part.args else replace(part, args=args)
    if isinstance(part, TextPart | ThinkingPart) and not part.content.isascii():
        return replace(part, content=sendable(part.content))
    return part


def _plain_result(wire: Any) -> Any:
    """What a tool returned, for the journal: as it is, so that people can read it, and say it in a tool's place where
    a crash has left that open. Whatever else came of the call is kept in the framework's form."""
    if wire.keys() == {"kind", "result"} and wire["kind"] == _RETURNED:
        result = wire["result"]
        if not (isinstance(result, dict) and _WIRE in result):
            return result
    return {_WIRE: wire}


def _wire_result(result: Any) -> Any:
    if isinstance(result, dict) and _WIRE in result:
        return result[_WIRE]
    return {"kind": _RETURNED, "result": result}


def read_result(recorded: Any) -> Any:
    """What a tool returned, or what the model was told instead, of the record of its step."""
    wire = _wire_result(recorded)
    if wire["kind"] in _PUT_OFF:
        return UNFINISHED
    result = wire.get("result", wire.get("message", wire.get("errors")))
    is_whole = isinstance(result, dict) and result.get("kind") == "tool-return"
    return result["return_value"] if is_whole else result


def may_pass(error: Exception) -> bool | float:
    """Whether a model's error may pass by itself; a number: not before that many seconds."""
    if isinstance(error, ModelHTTPError):
        asked = seconds_asked(error.headers)
        return is_transient(error) and (True if asked is None else asked)
    if isinstance(error, ModelAPIError):
        cause = error.__cause__
        return is_transient(cause) if isinstance(cause, Exception) else False
    return is_transient(error)


async def show(_: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
    """Show what a model says, as it says it. Only the outermost agent speaks to the reader."""
    if _is_shown():
        turn = current_turn()
        async for event in events:
            _show(turn, *_said(event))


def _show_whole(response: ModelResponse) -> None:
    """The same of what a model has said at once."""
    if _is_shown():
        turn = current_turn()
        for index, part in enumerate(response.parts):
            _show(turn, *_said(PartStartEvent(index=index, part=part)))


def _is_shown() -> bool:
    place = place_var.get()
    step = None if place is None else place.step
    return step is not None and step.kind == "model" and step.outer is None


def _show(turn: Turn, content: str | None, reasoning: str | None) -> None:
    if content:
        turn.delta({"content": content})
    elif reasoning:
        turn.delta({"reasoning": reasoning})


def _said(event: AgentStreamEvent) -> tuple[str | None, str | None]:
    part: object = None
    if isinstance(event, PartStartEvent):
        part = event.part
    elif isinstance(event, PartDeltaEvent):
        part = event.delta
    if isinstance(part, TextPart):
        return part.content, None
    if isinstance(part, TextPartDelta):
        return part.content_delta, None
    if isinstance(part, ThinkingPart):
        return None, part.content
    return None, part.content_delta if isinstance(part, ThinkingPartDelta) else None
