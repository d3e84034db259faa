"""What a model says in a turn, as one step; in a replay it is not asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Tool, Usage
from agents.exceptions import ModelBehaviorError
from agents.usage import deserialize_usage, serialize_usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputItem,
    ResponseOutputItemDoneEvent,
    ResponseUsage,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from hitl.ext.openai_agents import seams
from hitl.ext.openai_agents.hosted import ask_at_once
from hitl.ext.openai_agents.memory import memory_of, name_of, speaking_var, step_path
from hitl.ext.openai_agents.messages import Item, plain, spoken, suited, to_chat
from hitl.ext.replies import RecordedReply
from hitl.ext.turns import is_in_turn
from hitl.ext.versions import reading
from hitl.model_settings import InvalidSettings
from hitl.strict_json import sendable_text
from hitl.turn.places import place_var
from hitl.turn.retrying import run
from hitl.turn.runtime import Turn, agent_name, current_turn

_ASKED = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing")

_OUTPUT: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)


def journaled(agent: Agent[Any], run_config: RunConfig) -> Model:
    """The model of an agent. Whatever is asked until the next request is asked by this agent."""
    model: Model = seams.get_model(agent, run_config)
    if not is_in_turn() or isinstance(model, JournaledModel):
        return model
    name = name_of(current_turn(), agent)
    agent_name.set(name)
    speaking_var.set(agent)
    return JournaledModel(model, name)


class JournaledModel(Model):
    """A model each of whose replies is a step of the turn."""

    def __init__(self, model: Model, agent: str) -> None:
        self._model = model
        self._agent = agent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)

    async def close(self) -> None:
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        return self._model.get_retry_advice(request)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **more: Any,
    ) -> ModelResponse:
        """The reply, of the model or of the journal."""
        turn = current_turn("the model")
        memory = memory_of(turn)
        items = _told(turn, input)
        asked = (
            system_instructions,
            suited(items, self._model),
            model_settings,
            tools,
            output_schema,
            handoffs,
            tracing,
        )

        async def body() -> dict[str, Any]:
            response = await self._reply(turn, memory.stream, asked, more)
            return _recorded(response).to_json()

        # Messages and tools as everybody reads them: ids and what else is in the SDK's own form differ from release to
        # release, and instructions may say what day it is.
        talk = [{"role": "user", "content": items}] if isinstance(items, str) else items
        said = [each.to_dict() for each in to_chat(talk) if each.role != "system"]
        named = {each.name: getattr(each, "params_json_schema", None) for each in tools}
        to = {each.tool_name: each.input_json_schema for each in handoffs}
        try:
            reply: dict[str, Any] = await run(
                turn,
                memory.retries,
                "model",
                _title(self._model),
                body,
                key=f"model:{self._agent}",
                arguments={"messages": said, "tools": {**named, **to}},
            )
        except Exception as error:
            if turn.limits.reason(error) is not None:
                memory.suspended.setdefault(step_path(), error)
            raise
        with reading("openai-agents"):
            response = _response(reply["native"])
        ask_at_once(turn, self._agent, response, tools)
        return response

    async def stream_response(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        """The reply as one event: who streams in a turn is shown the words by hitl."""
        response = await self.get_response(*asked, **more)
        yield ResponseCompletedEvent(
            type="response.completed", sequence_number=0, response=_completed(response, _title(self._model))
        )

    async def _reply(self, turn: Turn, stream: bool, asked: Any, more: dict[str, Any]) -> ModelResponse:
        if stream:
            try:
                return await _collected(turn, self._model.stream_response(*asked, **more))
            except NotImplementedError:
                pass  # it says all it has to say at once
        _refuse_background(asked[_ASKED.index("model_settings")])
        # By name, as the SDK does: a model of the program's own need not have them in this order.
        return await self._model.get_response(**dict(zip(_ASKED, asked, strict=True)), **more)


def _refuse_background(settings: Any) -> None:
    """`InvalidSettings` where what comes back would only say that a reply is being made: the SDK drops its status."""
    said = [getattr(settings, name, None) for name in ("extra_args", "extra_body")]
    if any(isinstance(each, Mapping) and each.get("background") for each in said):
        raise InvalidSettings(
            "model_settings has the reply made in the background, and nobody asks for it again\n\n"
            "hint: leave out background of extra_args and extra_body"
        )


async def _collected(turn: Turn, events: AsyncIterator[Any]) -> ModelResponse:
    """What a stream comes to, shown as it comes where the outermost agent speaks."""
    place = place_var.get()
    step = None if place is None else place.step
    is_shown = step is not None and step.outer is None
    finished: list[Any] = []
    last: Response | None = None
    async for event in events:
        kind = event.type
        if kind == "response.output_text.delta" and is_shown and event.delta:
            turn.delta({"content": event.delta})
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            if is_shown and event.delta:
                turn.delta({"reasoning": event.delta})
        elif isinstance(event, ResponseOutputItemDoneEvent):
            finished.append(event.item)
        elif isinstance(event, ResponseCompletedEvent):
            last = event.response
        elif kind in ("response.incomplete", "response.failed", "error", "response.error"):
            why = getattr(event, "message", None) or getattr(getattr(event, "response", None), "error", None)
            raise ModelBehaviorError(f"the stream of the model ended with {kind}: {why}")
    if last is None:
        raise ModelBehaviorError("the stream of the model ended without a response")
    usage = Usage(requests=1) if last.usage is None else seams.usage_of(last.usage)
    return ModelResponse(
        output=list(last.output or finished),
        usage=usage,
        response_id=last.id,
        request_id=getattr(last, "_request_id", None),
    )


def _recorded(response: ModelResponse) -> RecordedReply:
    output = [_sendable(_wire(item)) for item in response.output]
    said = response.usage
    usage: dict[str, float] = {
        "input_tokens": said.input_tokens,
        "output_tokens": said.output_tokens,
        "total_tokens": said.total_tokens,
    }
    if cached := said.input_tokens_details.cached_tokens:
        usage["cached_tokens"] = cached
    if reasoning := said.output_tokens_details.reasoning_tokens:
        usage["reasoning_tokens"] = reasoning
    native = {
        "output": output,
        "usage": serialize_usage(said),
        "response_id": response.response_id,
        "request_id": response.request_id,
        "raw_usage": response.raw_usage,
    }
    return RecordedReply(
        spoken(output), usage, None, {key: value for key, value in native.items() if value is not None}
    )


def _response(native: dict[str, Any]) -> ModelResponse:
    return ModelResponse(
        output=[_item(item) for item in native["output"]],
        usage=deserialize_usage(native["usage"]),
        response_id=native.get("response_id"),
        request_id=native.get("request_id"),
        raw_usage=native.get("raw_usage"),
    )


def _wire(item: Any) -> Item:
    if isinstance(item, BaseModel):
        return item.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return plain([item])[0]


def _sendable(item: Item) -> Item:
    """An item whose arguments, a text of JSON, can be shown."""
    arguments = item.get("arguments")
    return {**item, "arguments": sendable_text(arguments)} if isinstance(arguments, str) else item


def _item(wire: Item) -> Any:
    """An item as the client of the API makes it. One of a kind that is not known here stays as it is."""
    try:
        return _OUTPUT.validate_python(wire)
    except ValidationError:
        return seams.lenient_item(wire)


def _completed(response: ModelResponse, model: str) -> Response:
    said = response.usage
    return Response.model_construct(
        id=response.response_id or "",
        created_at=0.0,
        model=model,
        object="response",
        output=response.output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        status="completed",
        usage=ResponseUsage.model_construct(
            input_tokens=said.input_tokens,
            output_tokens=said.output_tokens,
            total_tokens=said.total_tokens,
            input_tokens_details=said.input_tokens_details,
            output_tokens_details=said.output_tokens_details,
        ),
    )


def _told(turn: Turn, input: str | list[Any]) -> str | list[Any]:
    """What a model is asked, with what it is told beside results."""
    notes = memory_of(turn).notes
    return input if isinstance(input, str) or not notes else with_notes(input, notes, step_path())


def with_notes(items: list[Any], notes: dict[tuple[str, str], str], path: str) -> list[Any]:
    """Items with the notes on calls of the run at ``path``: each after the results that stand together with its own,
    since nothing may be said between them. In a session of the SDK they are there already."""
    told: list[Any] = []
    waiting: list[Any] = []
    for at, item in enumerate(items):
        is_output = isinstance(item, dict) and item.get("type") == "function_call_output"
        if not is_output:
            told += waiting if items[at : at + len(waiting)] != waiting else []
            waiting = []
        told.append(item)
        if is_output and (note := notes.get((path, item["call_id"]))) is not None:
            waiting.append({"role": "user", "content": note})
    return [*told, *waiting]


def _title(model: Model) -> str:
    name = getattr(model, "model", None)
    return name if isinstance(name, str) else type(model).__name__
