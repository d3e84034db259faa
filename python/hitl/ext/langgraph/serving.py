"""A compiled graph as one of our agents: a message in, a run of the graph, a reply out."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINTER
from langgraph.channels.delta import DeltaChannel
from langgraph.prebuilt.tool_node import ToolNode
from langgraph.pregel import Pregel
from pydantic import BaseModel
from pydantic_core import to_json

from hitl.agents.abandoned import tell_elsewhere
from hitl.errors import AgentLoadError
from hitl.ext.langgraph import hooks as hooks  # lets turns in
from hitl.ext.langgraph.inside import graph_name_var, next_uuid, tools_var
from hitl.ext.langgraph.keeping import MESSAGES, PastTurns, TurnSaver, reply_of, turn_of, without_checkpoints
from hitl.ext.langgraph.messages import from_chats, prompt_of, text_of
from hitl.ext.langgraph.models import retries_var
from hitl.ext.langgraph.streamed import stream_var
from hitl.ext.langgraph.tools import read_result
from hitl.ext.langgraph.tracing import next_run_id
from hitl.messages import ChatMessage
from hitl.turn.permits import permit
from hitl.turn.retrying import Retries, Transient, check_retries, is_transient
from hitl.turn.runtime import agent_name, current_turn
from hitl.turn.steps import patched

UNNAMED = "LangGraph"
"""What LangGraph calls a graph that nobody has named."""

Make = Callable[[Any], Any | Awaitable[Any]]
"""Makes something of what a turn began with: the ``context`` of ``hitl.run``, or else the message's ``user_params``."""


def is_agent(candidate: Any) -> bool:
    """Whether it is a compiled graph, or what ``@entrypoint`` makes."""
    return isinstance(candidate, Pregel)


def as_agent(
    graph: Pregel[Any, Any, Any, Any],
    *,
    name: str | None = None,
    context: Make | None = None,
    input: Callable[[ChatMessage], Any] | None = None,
    output: Callable[[Any], Any] | None = None,
    config: dict[str, Any] | None = None,
    stream: bool = True,
    retries: int = 0,
    transient: Transient = "raise",
) -> LangGraph:
    """A compiled graph, an ``@entrypoint`` or the result of ``create_agent`` to be served or run, with options.

    - ``name``: what clients, rules and the journal call it; the graph's own name otherwise.
    - ``context``: makes the graph's runtime context, at the begin of each run of a turn, also when it goes on after a
      restart, of the JSON that the turn began with: the ``context`` of ``hitl.run``, or else the ``user_params`` of the
      message. It may be awaitable. Called inside the turn, and not journaled. Without it: the ``context`` of
      ``hitl.run`` as it is, of which LangGraph makes a ``context_schema`` that is a dataclass or a pydantic model.
    - ``input``: makes the graph's input of a message. Without it: for a graph with messages, the message; for another
      the message's ``user_params`` where they have something in them, or else its content, read as JSON where it is
      JSON.
    - ``output``: makes the reply of the graph's output, a text, a message, or what is told as JSON. Without it: what
      the last message says, or the output as JSON.
    - ``config``: more of the graph's config, for example ``{"recursion_limit": 50}``.
    - ``stream``: whether models are asked for their words one by one, for whoever watches.
    - ``retries``: how often a model is asked again after errors that may pass, besides what it does itself;
      ``transient``: whether the last of them suspends the turn, to be retried, or is raised, as LangChain's middleware
      expects.
    """
    if not is_agent(graph):
        raise TypeError(f"as_agent() takes a compiled graph, got {type(graph).__name__}")
    check_retries("as_agent()", retries, transient)
    return LangGraph(
        graph, name, context, input, output, config or {}, stream, Retries(retries, transient, is_transient)
    )


class LangGraph:
    """A graph that runs turns. Made by ``as_agent``."""

    distribution: Final = "langgraph"
    """The package whose version matters for what waits."""

    def __init__(
        self,
        graph: Pregel[Any, Any, Any, Any],
        name: str | None,
        context: Make | None,
        input: Callable[[ChatMessage], Any] | None,
        output: Callable[[Any], Any] | None,
        config: dict[str, Any],
        stream: bool,
        retries: Retries,
    ) -> None:
        self.graph = graph
        self.name = name or _name_of(graph)
        self._context = context
        self._input = input
        self._output = output
        self._config = config
        self._stream = stream
        self._retries = retries
        builder = getattr(graph, "builder", None)
        self._takes_messages = builder is not None and MESSAGES in builder.schemas.get(builder.input_schema, ())
        nodes = (node.bound for node in graph.nodes.values())
        self._tools = {
            name: tool for node in nodes if isinstance(node, ToolNode) for name, tool in node.tools_by_name.items()
        }

    def prepare(self) -> None:
        """Find out before the first turn what would keep each of them from running: AgentLoadError."""
        required = _required_fields(self.graph.context_schema)
        if self._context is None and required:
            raise AgentLoadError(
                f"the graph {self.name!r} needs a context with {', '.join(required)}",
                "serve as_agent(graph, context=...) of hitl.ext.langgraph: context= is a function that makes it",
            )

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        """One run of the graph, which goes on from the session's messages, and from what it is told of turns that were
        given up: a graph without messages has no place for that."""
        turn = current_turn()
        retries_var.set(self._retries)
        stream_var.set(self._stream)
        tools_var.set(self._tools)
        graph_name_var.set(self.graph.name)
        agent_name.set(None)
        past, saver = PastTurns(state), TurnSaver()
        thread = turn.session_id or turn.turn_id
        saver.begin(thread, past.checkpoints)
        given = await self._context_for(message)
        configurable = {**self._config.get("configurable", {}), "thread_id": thread, CONFIG_KEY_CHECKPOINTER: saver}
        told = await tell_elsewhere(turn, state, read_result) if self._takes_messages else []
        told_messages, prompt_id = list(from_chats(told)), None
        if self._input is None:
            value = await self._input_of(message, past, told_messages)
            prompt_id = value[MESSAGES][-1].id if self._takes_messages else None
        else:
            value, is_told = _with_told(self._input(message), told_messages)
            if not is_told:  # nor may the session say so
                told, told_messages = [], []
        while True:
            known = {**self._config, "configurable": configurable, "run_id": next_run_id()}
            config = cast(RunnableConfig, known)
            output = await self.graph.ainvoke(value, config, context=given, durability="sync")
            stopped = await self.graph.aget_state(config)
            if not stopped.next:
                break
            await _ask_to_go_on(stopped.next)
            value = None
        checkpoints = saver.last()
        if "" in checkpoints:
            checkpoints[""] = _whole(checkpoints[""], self.graph.channels, stopped.values)
        reply = self._reply_of(output, checkpoints)
        messages = turn_of(message, [*past.messages, *told_messages], checkpoints, reply, prompt_id)
        return messages[-1], [*without_checkpoints(state), *told, *messages]

    async def _context_for(self, message: ChatMessage) -> Any:
        began_with = current_turn().context
        if self._context is None:
            return began_with
        made = self._context(message.user_params if began_with is None else began_with)
        return await made if inspect.isawaitable(made) else made

    async def _input_of(self, message: ChatMessage, past: PastTurns, told: list[BaseMessage]) -> Any:
        if self._takes_messages:
            prompt = prompt_of(message)
            history = [*([] if past.has_checkpoint else past.messages), *told]
            for each in (*history, prompt):
                each.id = each.id or str(next_uuid())
            return {MESSAGES: [*history, prompt]}
        params = message.user_params
        if params is not None and (params or not message.content or not await patched("hitl.empty_user_params")):
            return params
        try:
            return json.loads(message.content or "")
        except ValueError:
            return message.content or ""

    def _reply_of(self, output: Any, checkpoints: dict[str, dict[str, Any]]) -> str:
        if self._output is None:
            said = reply_of(output, checkpoints)
            if said is not None:
                return said
        else:
            output = self._output(output)
            if inspect.isawaitable(output):
                if inspect.iscoroutine(output):
                    output.close()  # nobody awaits it
                raise TypeError(f"the output= of the graph {self.name!r} is asynchronous; make it a plain function")
            if isinstance(output, BaseMessage):
                return text_of(output)
        return output if isinstance(output, str) else to_json(output, fallback=repr).decode()


def _with_told(value: Any, told: list[BaseMessage]) -> tuple[Any, bool]:
    """An input that ``input=`` has made, with what is told in front of its messages, and whether it could be put there:
    a mapping, a pydantic model or a dataclass has a place for it."""
    if not told:
        return value, False
    for each in told:
        each.id = each.id or str(next_uuid())
    if isinstance(value, Mapping):
        return {**value, MESSAGES: _before(told, value.get(MESSAGES, []))}, True
    if not hasattr(value, MESSAGES):
        return value, False
    messages = _before(told, getattr(value, MESSAGES))
    if isinstance(value, BaseModel):
        return value.model_copy(update={MESSAGES: messages}), True
    if any(each.name == MESSAGES and each.init for each in _fields_of(value)):
        return dataclasses.replace(value, messages=messages), True
    return value, False


def _before(told: list[BaseMessage], own: Any) -> list[Any]:
    """The messages of an input, with what is told in front."""
    return [*told, *(own if isinstance(own, list) else [own])]


def _fields_of(value: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()


def _whole(checkpoint: dict[str, Any], channels: Any, values: Any) -> dict[str, Any]:
    """A checkpoint that needs no others before it: channels that keep only what was added have their values in it."""
    kept = {name: values[name] for name, each in channels.items() if isinstance(each, DeltaChannel) and name in values}
    return {**checkpoint, "channel_values": {**checkpoint["channel_values"], **kept}} if kept else checkpoint


async def _ask_to_go_on(nodes: tuple[str, ...]) -> None:
    """A breakpoint, ``interrupt_before`` or ``interrupt_after``: any answer lets the graph go on."""
    shown = ", ".join(nodes)
    with permit():
        await current_turn().ask(
            "breakpoint",
            {"type": "breakpoint", "nodes": list(nodes)},
            message=f"Go on with {shown}?",
            key=f"breakpoint:{shown}",
        )


def _name_of(graph: Pregel[Any, Any, Any, Any]) -> str:
    """A graph's name; of an ``@entrypoint`` its function's."""
    if graph.name == UNNAMED and not hasattr(graph, "builder") and len(graph.nodes) == 1:
        return next(iter(graph.nodes))
    return graph.name or UNNAMED


def _required_fields(schema: Any) -> list[str]:
    """What a graph's context has to have; empty where that cannot be told."""
    if dataclasses.is_dataclass(schema):
        missing = dataclasses.MISSING
        return [each.name for each in dataclasses.fields(schema) if each.default is each.default_factory is missing]
    fields = getattr(schema, "model_fields", None)
    if fields is not None:
        return [name for name, field in fields.items() if field.is_required()]
    return sorted(getattr(schema, "__required_keys__", ()))
