"""The capability that runs an agent of pydantic-ai inside a turn: what it did is in the journal, what it asks is ours.

It is pydantic-ai's own interface to durable execution. Every agent that runs in a turn has it, nested ones too, which
a tool calls: they get it when they run.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, ClassVar, cast
from weakref import WeakKeyDictionary

from pydantic import JsonValue, ValidationError
from pydantic_ai import Agent, CallToolsNode
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, AgentNode
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationBackend,
    ExternalEventError,
    ExternalEventWaiter,
    conversation_id_from_run_id,
    external_event_scope,
)
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import AgentStreamEvent, FilePart, TextPart, ToolCallPart
from pydantic_ai.models import CompletedStreamedResponse, Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, ExternalToolset, FunctionToolset

from hitl.errors import InterruptExpired
from hitl.ext.pydantic_ai.backend import StepBackend, may_pass, show
from hitl.ext.pydantic_ai.deferred import AskedFirst, GivenArguments
from hitl.ext.pydantic_ai.gate import (
    GatedToolset,
    PastTheLoop,
    ServersTools,
    current_call,
    is_put_off,
    refused_edit,
)
from hitl.ext.pydantic_ai.outputs import has_functions, made_once
from hitl.ext.turns import is_in_turn, is_past_the_loop
from hitl.turn.retrying import Retries, Transient, check_retries
from hitl.turn.runtime import Turn, agent_name, current_turn

UNNAMED = "agent"
"""What an agent without a name is called."""

_runs: WeakKeyDictionary[Turn, Counter[str]] = WeakKeyDictionary()
"""How many runs each step of a turn has begun."""


class HitlDurability(BaseDurabilityCapability[Any]):
    """Makes what an agent does in a turn steps of the turn, and what it asks interrupts. Outside of turns it does
    nothing. ``as_agent`` explains the options."""

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="hitl",
        durable_unit_noun="step",
        durable_container_noun="turn",
        codec=JSON_CODEC,
        # A connection that is kept over a question would keep the turn from pausing: each step that needs a server of
        # MCP connects to it.
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-never", "dynamic": "enter-never"},
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        name: str | None = None,
        stream: bool = True,
        retries: int = 2,
        transient: Transient = "suspend",
    ) -> None:
        check_retries("as_agent()", retries, transient)
        super().__init__(models=models, event_stream_handler=show if stream else None, name=name)
        self._retries = Retries(retries, transient, may_pass)
        self._backend: StepBackend | None = None
        self._operations: dict[tuple[str | None, str], Any] = {}
        """What asks a model, by its id and its name."""

    def for_agent(self, agent: AbstractAgent[Any, Any]) -> AbstractCapability[Any]:
        """This, for one agent."""
        _give_ids(agent)
        return super().for_agent(agent)

    def _bind_to_agent(self, agent: AbstractAgent[Any, Any]) -> None:
        self._backend = None  # this is a copy, and knows its models now
        self._operations = {}
        super()._bind_to_agent(agent)

    def _bind_model_operations(self, backend: Any, *, model_id: str | None, model_name: str) -> Any:
        """The framework binds them anew for each request, as other engines name them by it. Here one binding does."""
        known = self._operations.get((model_id, model_name))
        if known is None:
            known = super()._bind_model_operations(backend, model_id=model_id, model_name=model_name)
            self._operations[model_id, model_name] = known
        return known

    @property
    def in_durable_context(self) -> bool:
        """Whether a run here is part of a turn."""
        return is_in_turn()

    def get_durable_operation_backend(self) -> DurableOperationBackend[Any]:
        """What makes steps."""
        if self._backend is None:
            default = self._models_by_id.get("default")
            can_stream = default is None or _streams(default)
            stream = self._effective_event_stream_handler() is not None
            self._backend = StepBackend(
                self.name, self.default_model_id, self._retries, stream=stream, can_stream=can_stream
            )
        return self._backend

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether runs have to stream for our sake. What is shown is shown where a model is asked: see the backend."""
        return False

    def get_default_run_id(self) -> str | None:
        """The same in every replay: the turn's, the step's that the run is in, and its number there."""
        if not is_in_turn():
            return None
        return _next_run_id()

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """The session's id; of a nested run one of its own."""
        if not is_in_turn():
            return None
        turn = current_turn()
        return turn.session_id if turn.current_step is None and turn.session_id else conversation_id_from_run_id(run_id)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The tools as steps, and before each of them the gate."""
        if is_in_turn():
            toolset = self._with_given(toolset)
        leaves: list[AbstractToolset[Any]] = []
        toolset.apply(leaves.append)
        servers = frozenset(leaf.id for leaf in leaves if leaf.id and isinstance(leaf, _toolset_of_mcp()))
        return GatedToolset(super().get_wrapper_toolset(toolset) or toolset, servers)

    def _with_given(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """A run's toolsets, of which those are steps as well that the framework does not know: what ``run()`` and
        ``override()`` were given, what capabilities of the run have, and what is of a class of its own."""
        numbers = count(1)

        def taken(leaf: AbstractToolset[Any]) -> AbstractToolset[Any]:
            known = self._toolsets_by_id.get(leaf._explicit_id or "")
            if known is not None and known.wrapped is leaf:
                return leaf
            id_ = f"given-{next(numbers)}"
            if isinstance(leaf, DynamicToolset):
                chosen = None if isinstance(leaf.id, _Numbered) else leaf.id
                leaf = DynamicToolset(leaf.toolset_func, per_run_step=leaf.per_run_step, id=chosen)
            _give_id(leaf, id_)
            if isinstance(leaf, ExternalToolset):
                return leaf  # none of its tools runs here
            return self._wrap_leaf_toolset(leaf) or self._build_function_toolset(cast(Any, leaf))

        return toolset.visit_and_replace(taken)

    def get_wrapper_model(self, model: Model) -> Model | None:
        """A model that cannot stream is asked without. The backend knows of the agent's own."""
        is_other = model is not self._models_by_id.get("default")
        return _Whole(model) if is_other and is_in_turn() and not _streams(model) else None

    def wrap_run_event_stream(
        self, ctx: RunContext[Any], *, stream: AsyncIterable[AgentStreamEvent]
    ) -> AsyncIterable[AgentStreamEvent]:
        """The events of a run for who reads them: none is for us."""
        return stream

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[Any]]) -> Any:
        """What is asked in a run is asked by its agent; what it waits for is waited for by the turn."""
        if not is_in_turn():
            return await super().wrap_run(ctx, handler=handler)
        token = agent_name.set(self.name)
        try:
            with external_event_scope(_Waiter()):
                return await super().wrap_run(ctx, handler=handler)
        finally:
            agent_name.reset(token)

    async def before_node_run(self, ctx: RunContext[Any], *, node: AgentNode[Any]) -> AgentNode[Any]:
        """Let no text of a reply end a run that calls for a person in the same reply. The framework does not either,
        by the kind of the tool, which the gate has changed."""
        is_early = isinstance(ctx.agent, Agent) and ctx.agent.end_strategy == "early"
        if not (is_early and is_in_turn() and isinstance(node, CallToolsNode)):
            return node
        response = node.model_response
        if not any(is_put_off(ctx.tools.get(call.tool_name)) for call in response.tool_calls):
            return node
        parts = [part for part in response.parts if not isinstance(part, TextPart | FilePart)]
        return replace(node, model_response=replace(response, parts=parts))

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: Callable[[str | dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Let a person's arguments be what they were read as: validators saw them when they came, and see them once.

        The wrapping hooks of other capabilities, which are around this one, see them twice: when they came, and before
        the call is made. Both times they have what validators made of them, and what comes of the second is run.
        """
        if not (is_in_turn() and isinstance(call.args, GivenArguments)):
            return await handler(args)
        if call.args.read is None:
            call.args.read = await handler(args)
        return dict(call.args.read)  # a hook may change what it gets

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Let the gate see the call as the model wrote it."""
        token = current_call.set(call)
        try:
            return await handler(args)
        finally:
            current_call.reset(token)

    async def wrap_output_process(
        self,
        ctx: RunContext[Any],
        *,
        output_context: OutputContext,
        output: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Let functions that make the output of a run do so once."""
        if not is_in_turn() or ctx.partial_output or not has_functions(ctx, output_context):
            return await handler(output)
        call = output_context.tool_call
        call_id = None if call is None else call.tool_call_id
        return await made_once(self.name, output_context, call_id, lambda: handler(output))

    async def on_tool_validate_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        error: ValidationError | ModelRetry,
    ) -> dict[str, Any]:
        """Let a person's arguments that do not fit cost none of the model's tries."""
        if is_in_turn() and isinstance(call.args, GivenArguments) and not call.args.is_tried:
            raise await refused_edit(tool_def.name, error) from error
        raise error


_NEW = "new"
"""The id of a conversation by which a run asks for one of its own."""


def _next_run_id() -> str:
    turn = current_turn()
    step = turn.current_step
    inside = "" if step is None else step.path
    numbers = _runs.setdefault(turn, Counter())
    numbers[inside] += 1
    return f"{turn.turn_id}:{inside}:{numbers[inside]}"


class _Numbered(str):
    """An id that nobody has chosen."""

    __slots__ = ()


_functions = count(1)


def _give_ids(agent: AbstractAgent[Any, Any]) -> None:
    """An id for each toolset without one."""
    leaves: list[AbstractToolset[Any]] = []
    for toolset in agent.toolsets:
        toolset.apply(leaves.append)
    for number, leaf in enumerate(leaves):
        _give_id(leaf, f"toolset-{number}")


def _give_id(leaf: AbstractToolset[Any], id_: str) -> None:
    """An id for a toolset without one. The framework names steps by them; ours have the ids of calls, so that of the
    program's own functions any will do. What others name their steps by is the same in every process."""
    if isinstance(leaf, DynamicToolset) and not isinstance(leaf.toolset_func, _ServerMarker):
        leaf.toolset_func = _ServerMarker(leaf.toolset_func)
    if isinstance(leaf, FunctionToolset) and leaf.id is None:
        # Once it is made there is no other way. Its place would not do: two agents may have it, each at another.
        leaf._id = _Numbered(f"functions-{next(_functions)}")
    elif isinstance(leaf, DynamicToolset) and leaf.id is None:
        leaf._id = _Numbered(id_)
    elif isinstance(leaf, _toolset_of_mcp()) and leaf._explicit_id is None:
        leaf.id = leaf.id or _Numbered(id_)  # a server's own name, where it tells one


def _mark_servers(toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return ServersTools(toolset) if isinstance(toolset, _toolset_of_mcp()) else toolset


class _ServerMarker:
    """A function that makes a toolset for a run or a step. Only it sees which servers are in there: they are marked."""

    def __init__(self, make: Callable[[RunContext[Any]], Any]) -> None:
        self._make = make

    async def __call__(self, ctx: RunContext[Any]) -> AbstractToolset[Any] | None:
        made = self._make(ctx)
        toolset: AbstractToolset[Any] | None = await made if inspect.isawaitable(made) else made
        return None if toolset is None else toolset.visit_and_replace(_mark_servers)


def _toolset_of_mcp() -> Any:
    """The class of toolsets of MCP servers; none where nobody has imported it, so that there is no such toolset."""
    return getattr(sys.modules.get("pydantic_ai.mcp"), "MCPToolset", ())


class _Whole(WrapperModel):
    """A model that says all it has to say at once."""

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[CompletedStreamedResponse]:
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)


def _streams(model: Model) -> bool:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    # The second is a FunctionModel without a function for it.
    return (
        type(model).request_stream is not Model.request_stream and getattr(model, "stream_function", model) is not None
    )


class _Waiter(ExternalEventWaiter):
    """Waits for an event from outside as for any answer: by an interrupt, which its token names."""

    async def wait(
        self, name: str, *, ask: Callable[[str], Awaitable[JsonValue]], timeout: timedelta | None
    ) -> JsonValue:
        turn = current_turn("waiting for an external event")

        async def hand_over() -> JsonValue:
            return await ask(turn.idempotency_key())

        answer: JsonValue = await turn.run_step("step", name, hand_over, key=f"event:{name}")
        if answer is not None:
            return answer
        try:
            given: JsonValue = await turn.ask(
                name,
                {"type": name},
                key=f"ask:{name}",
                expires_in=None if timeout is None else timeout.total_seconds(),
            )
        except InterruptExpired as expired:
            raise ExternalEventError(str(expired)) from expired
        return given


def _give_to_nested_runs() -> None:
    """Let every run in a turn be journaled, and ask of its calls first: agents that a tool calls are in nobody's list,
    and have no hook for it."""
    begin = Agent.iter

    @functools.wraps(begin)
    def iter_(
        self: Agent[Any, Any], *args: Any, capabilities: Sequence[Any] | None = None, **kwargs: Any
    ) -> AbstractAsyncContextManager[Any]:
        given = list(capabilities or ())
        if is_past_the_loop():
            given.append(PastTheLoop())
        if is_in_turn():
            given.append(AskedFirst())
        if is_in_turn() and kwargs.get("conversation_id") == _NEW:
            # The framework would take what our default is, which may be the session's.
            kwargs["conversation_id"] = conversation_id_from_run_id(_next_run_id())
        if is_in_turn() and HitlDurability.from_agent(self) is None and not any(map(_is_ours, given)):
            given.append(HitlDurability(name=self.name or UNNAMED))
        return begin(self, *args, capabilities=given or None, **kwargs)

    Agent.iter = iter_  # type: ignore[method-assign]


def _is_ours(capability: AbstractCapability[Any] | Any) -> bool:
    return isinstance(capability, HitlDurability)


_give_to_nested_runs()
