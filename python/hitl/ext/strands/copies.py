"""Copies of agents, one for each turn: what a run changes in an agent is seen by no other turn, and found by no replay.

An agent that a tool calls begins each call as it was made.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from strands import Agent
from strands.handlers.callback_handler import PrintingCallbackHandler, null_callback_handler
from strands.interventions.registry import InterventionRegistry
from strands.models import Model
from strands.telemetry.metrics import EventLoopMetrics

from hitl.ext.strands import tracing
from hitl.ext.strands.hooks import TurnHooks, let_approve
from hitl.ext.strands.middleware import TurnMiddleware
from hitl.ext.strands.state import TurnState
from hitl.ext.strands.structured import Structured
from hitl.ext.strands.turns import InTurn, in_turn_at_work, in_turn_of, know, may_pass
from hitl.ext.turns import is_in_turn, is_past_the_loop, let_the_loop_run
from hitl.turn.retrying import Retries
from hitl.turn.runtime import current_turn
from hitl.turn.steps import patched

UNNAMED: Final = "agent"
"""What an agent without a name is called."""

_RETRIES: Final = Retries(2, "suspend", may_pass)


def name_of(agent: Agent) -> str:
    """What it is called, if it is called anything."""
    return UNNAMED if agent.name == _unnamed else agent.name


def copy_for(agent: Agent, in_turn: InTurn) -> Agent:
    """An agent as it was made, for a turn: what it does there is journaled, what it asks are interrupts.

    Model, tools, hooks and plugins are those of ``agent``; messages, state, and what else a run changes, are its own.
    """
    return _copied(agent, in_turn, {})


def _copied(agent: Agent, in_turn: InTurn, made: dict[int, Agent]) -> Agent:
    _equip(agent)
    own = made[id(agent)] = copy.copy(agent)
    know(own, in_turn)
    own.messages = copy.deepcopy(agent.messages)
    own.state = TurnState(agent.state.get())
    own.event_loop_metrics = EventLoopMetrics()
    own.trace_span = None
    own.hooks = TurnHooks(agent.hooks)
    own.conversation_manager = copy.copy(agent.conversation_manager)
    own.tool_registry = copy.copy(agent.tool_registry)
    own.tool_registry.registry = {
        name: _copied_tool(tool, in_turn, made) for name, tool in agent.tool_registry.registry.items()
    }
    own.tool_registry.dynamic_tools = dict(agent.tool_registry.dynamic_tools)
    own.tool_registry._tool_providers = []  # theirs are the agent's, and not given back with the copy
    own.tool_caller = type(agent.tool_caller)(own)
    own._interrupt_state = type(agent._interrupt_state)()
    own._concurrency = type(agent._concurrency)(agent.concurrent_invocation_mode)
    own._model_state = copy.deepcopy(agent._model_state)
    own._cancel_signal = threading.Event()
    if isinstance(agent.callback_handler, PrintingCallbackHandler):
        own.callback_handler = null_callback_handler  # what a server prints is its log
    return own


def _copied_tool(tool: Any, in_turn: InTurn, made: dict[int, Agent]) -> Any:
    """A tool that is an agent, with an agent of its own; every other tool as it is."""
    agent = getattr(tool, "agent", None)
    if tool.tool_type != "agent" or not isinstance(agent, Agent):
        return tool
    own = copy.copy(tool)
    own._agent = made.get(id(agent)) or _copied(agent, in_turn.of_another(name_of(agent)), made)
    own._lock = threading.Lock()
    return own


def _equip(agent: Agent) -> None:
    """Let what it does be journaled in turns, once and for all of its copies."""
    if not isinstance(agent._middleware_registry, TurnMiddleware):
        agent._middleware_registry = TurnMiddleware(agent._middleware_registry)
    interventions: InterventionRegistry = agent._intervention_registry
    let_approve(interventions.handlers)


def _of_turn(agent: Agent) -> Agent:
    """The agent, where it is one that runs in this turn; else a copy that does."""
    if in_turn_of(agent) is not None:
        return agent
    name, caller = name_of(agent), in_turn_at_work()
    alone = InTurn(current_turn(), name, _RETRIES, {}, stream=True)
    return copy_for(agent, alone if caller is None else caller.of_another(name))


def _give_to_nested_runs() -> None:
    """Let every run in a turn be journaled: nobody tells of agents that a tool calls by itself."""
    begin: Any = Agent.stream_async

    @functools.wraps(begin)
    def stream_async(self: Agent, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if is_past_the_loop():
            _equip(self)  # what it calls is refused while there are rules
        events: AsyncIterator[Any] = begin(_of_turn(self) if is_in_turn() else self, *args, **kwargs)
        return events

    ask: Any = Agent.structured_output_async

    @functools.wraps(ask)
    async def structured_output_async(self: Agent, *args: Any, **kwargs: Any) -> Any:
        if not is_in_turn() or not await patched("hitl.structured_output"):
            return await ask(self, *args, **kwargs)
        agent = _of_turn(self)
        in_turn, own = in_turn_of(agent), copy.copy(agent)
        assert in_turn is not None
        own.model = cast(Model, Structured(agent, in_turn))
        know(own, in_turn)
        return await ask(own, *args, **kwargs)

    Agent.stream_async = stream_async  # type: ignore[method-assign]
    Agent.structured_output_async = structured_output_async  # type: ignore[method-assign]
    let_the_loop_run(Agent, "__call__", "invoke_async")
    let_the_loop_run(Agent, "structured_output", "structured_output_async")


_unnamed: Final = "Strands Agents"
_give_to_nested_runs()
tracing.install()
