"""Requests to chat models as steps: what a model said is what it said, in every replay."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from hitl.ext.langgraph.messages import recorded
from hitl.ext.langgraph.streamed import Reader, with_reader
from hitl.ext.langgraph.wire import from_wire, to_wire
from hitl.ext.versions import reading
from hitl.turn.places import place_var
from hitl.turn.retrying import Retries, is_transient, run
from hitl.turn.runtime import Turn, agent_name, call_blocking, current_turn

Generate = Callable[..., Any]

DEFAULT_RETRIES = Retries(0, "raise", is_transient)
"""LangChain's models try again themselves, and its middleware falls back to others: errors are theirs first."""

retries_var: contextvars.ContextVar[Retries] = contextvars.ContextVar("hitl_langgraph_retries", default=DEFAULT_RETRIES)


def is_asking() -> bool:
    """Whether a model is asked here already: one that is made of others is one step."""
    place = place_var.get()
    return place is not None and place.step is not None and place.step.kind == "model"


async def ask_model(
    generate: Generate,
    model: BaseChatModel,
    messages: list[BaseMessage],
    stop: Any,
    callbacks: Any,
    options: dict[str, Any],
) -> LLMResult:
    """What ``generate``, which is the model's own, makes of the messages."""
    turn = current_turn("a model")

    async def body() -> dict[str, Any]:
        shown, reader = with_reader(callbacks, turn)
        made = await generate(model, [messages], stop, shown, **options)
        if reader is not None and reader.is_cut(made):
            # As LangChain would have asked by itself; half of it is shown, and none of that is kept.
            made, reader = await generate(model, [messages], stop, callbacks, **options), None
        return _to_journal(made, reader)

    return await _record(turn, model, messages, options, body)


def ask_model_in_thread(
    generate: Generate,
    model: BaseChatModel,
    messages: list[BaseMessage],
    stop: Any,
    callbacks: Any,
    options: dict[str, Any],
) -> LLMResult:
    """The same from a plain function."""
    turn = current_turn("a model")

    async def body() -> dict[str, Any]:
        shown, reader = with_reader(callbacks, turn)
        made: LLMResult = await call_blocking(turn, lambda: generate(model, [messages], stop, shown, **options))
        if reader is not None and reader.is_cut(made):  # as above
            made = await call_blocking(turn, lambda: generate(model, [messages], stop, callbacks, **options))
            reader = None
        return _to_journal(made, reader)

    return turn.run_sync("a model", lambda: _record(turn, model, messages, options, body))


async def _record(
    turn: Turn,
    model: BaseChatModel,
    messages: list[BaseMessage],
    options: dict[str, Any],
    body: Callable[[], Awaitable[dict[str, Any]]],
) -> LLMResult:
    # Without system prompts, which may say what day it is, and without ids, which differ from run to run.
    said = [_compared(each) for each in messages if each.type != "system"]
    tools = to_jsonable_python(options.get("tools"), fallback=lambda value: type(value).__qualname__)
    reply = await run(
        turn,
        retries_var.get(),
        "model",
        _name_of(model),
        body,
        key=f"model:{agent_name.get() or turn.agent}",
        arguments={"messages": said, "tools": tools},
    )
    with reading("langchain-core"):
        return _from_journal(reply["native"])


def _compared(message: BaseMessage) -> list[Any]:
    if isinstance(message, AIMessage):
        calls = [[call["name"], call["args"], call["id"]] for call in message.tool_calls]
        return [message.type, message.content, calls]
    return [message.type, message.content, getattr(message, "tool_call_id", None)]


def _name_of(model: BaseChatModel) -> str:
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(model, attribute, None) if _may_have(model, attribute) else None
        if isinstance(name, str) and name:
            return name
    kind: Any = model._llm_type  # of a model that names none it may be anything
    return kind if isinstance(kind, str) and kind else type(model).__name__


def _may_have(model: BaseChatModel, attribute: str) -> bool:
    """Whether a look for it may find something: pydantic takes long to say that a model has no such member."""
    extra = getattr(model, "__pydantic_extra__", None)  # of a model that was made without its __init__ there is none
    return attribute in vars(model) or bool(extra) or _all_may_have(type(model), attribute)


@functools.lru_cache(maxsize=256)  # asked at each request
def _all_may_have(kind: Any, attribute: str) -> bool:
    """The same of all models of that class."""
    if getattr(kind, "__getattr__", None) is not _ASKED:
        return True
    return any(attribute in vars(each) for each in kind.__mro__)


_ASKED: Final = getattr(BaseModel, "__getattr__", None)


def _to_journal(result: LLMResult, reader: Reader | None) -> dict[str, Any]:
    if reader is not None:
        reader.take_out_halves(result)
    generations = [
        {"message": to_wire(each.message), "info": to_jsonable_python(each.generation_info, fallback=repr)}
        for each in result.generations[0]
        if isinstance(each, ChatGeneration)
    ]
    native = {"generations": generations, "llm_output": to_jsonable_python(result.llm_output, fallback=repr)}
    first = result.generations[0][0]
    assert isinstance(first, ChatGeneration)
    return recorded(first.message, native).to_json()


def _from_journal(native: Any) -> LLMResult:
    generations = [
        ChatGeneration(message=from_wire(each["message"]), generation_info=each["info"])
        for each in native["generations"]
    ]
    return LLMResult(generations=[list(generations)], llm_output=native["llm_output"])
