"""Graphs and swarms: several agents that are one. Their nodes are copies for a turn, as single agents are."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import math
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from strands import Agent
from strands.multiagent import graph
from strands.multiagent.base import MultiAgentBase, MultiAgentResult, Status
from strands.multiagent.graph import Graph, GraphEdge, GraphNode, GraphState
from strands.multiagent.swarm import Swarm, SwarmState

from hitl.ext.strands.copies import UNNAMED, copy_for, name_of
from hitl.ext.strands.handoffs import HANDOFF, handoff_of
from hitl.ext.strands.hooks import TurnHooks
from hitl.ext.strands.turns import InTurn, know
from hitl.ext.turns import is_in_turn, let_the_loop_run
from hitl.turn.runtime import Turn

T = TypeVar("T")


class _Node(GraphNode):
    """A node whose place in a set is the same in every process."""

    def __hash__(self) -> int:
        return zlib.crc32(self.node_id.encode())


def copy_of_several(turn: Turn, several: MultiAgentBase, in_turn: InTurn) -> Any:
    """A graph or swarm for a turn, as ``in_turn`` says."""
    own: Any = copy.copy(several)
    know(own, in_turn)
    own.hooks = TurnHooks(own.hooks)
    own._interrupt_state = type(own._interrupt_state)()
    own.nodes = {node_id: copy.copy(node) for node_id, node in own.nodes.items()}
    taken: set[str] = set()
    for node_id, node in own.nodes.items():
        name = name_of(node.executor) if isinstance(node.executor, Agent) else UNNAMED
        name = node_id if name == UNNAMED or name in taken else name
        taken.add(name)
        of_node = in_turn.of_another(name)
        if isinstance(node.executor, Agent):
            node.executor = copy_for(node.executor, of_node)
        else:
            node.executor = copy_of_several(turn, node.executor, of_node)
    if isinstance(own, Graph):
        _connect(own)
    else:
        own.shared_context = type(own.shared_context)()
        handoff = handoff_of(own)
        for node in own.nodes.values():
            node.swarm = own
            node.executor.tool_registry.registry[HANDOFF] = handoff
    return own


def text_of(several: Any, result: MultiAgentResult) -> str:
    """What a graph or swarm says: what the nodes say after which there is none. RuntimeError where it failed."""
    if result.status == Status.FAILED:
        came_to = ", ".join(result.results) or "none"
        raise RuntimeError(f"the {type(several).__name__} {several.id!r} failed; nodes that ran: {came_to}")
    if isinstance(several, Graph):
        leads_on = {edge.from_node.node_id for edge in several.edges}
        last = [node.node_id for node in several.state.execution_order if node.node_id not in leads_on]
    else:
        last = [node.node_id for node in several.state.node_history[-1:]]
    texts = [str(result.results[node_id]).strip() for node_id in dict.fromkeys(last)]
    return "\n\n".join(texts) if texts else str(result)


def _connect(own: Graph) -> None:
    """Let edges lead to the nodes of this graph, in an order that does not depend on the process."""
    for node in own.nodes.values():
        node.__class__ = _Node
    for node in own.nodes.values():
        node.dependencies = {own.nodes[each.node_id] for each in node.dependencies}
    own.edges = {_edge(own, edge) for edge in own.edges}
    begin = sorted(each.node_id for each in own.entry_points)
    own.entry_points = [own.nodes[node_id] for node_id in begin]  # type: ignore[assignment]


def _edge(own: Graph, edge: GraphEdge) -> GraphEdge:
    return GraphEdge(own.nodes[edge.from_node.node_id], own.nodes[edge.to_node.node_id], edge.condition)


class _Unhurried:
    """``asyncio``, as graphs know it: in a turn they do not look ten times a second whether nodes have ended, and no
    node is out of time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def wait_for(awaited: Awaitable[T], timeout: float | None) -> T:
        return await (awaited if is_in_turn() else asyncio.wait_for(awaited, timeout))


def _leave_time() -> None:
    """Let no graph and no swarm run out of time in a turn, those that tools run included: a person's time is not
    theirs, and a replay is told of another time."""
    for state in (GraphState, SwarmState):
        state.should_continue = _without(state.should_continue, "execution_timeout", math.inf)  # type: ignore[method-assign]
    Swarm._stream_with_timeout = _without(Swarm._stream_with_timeout, "timeout", None)  # type: ignore[method-assign]


def _without(function: Callable[..., Any], name: str, value: Any) -> Any:
    """A method whose argument of this name has this value in turns."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if is_in_turn():
            given.arguments[name] = value
        return function(*given.args, **given.kwargs)

    return method


vars(graph)["asyncio"] = _Unhurried()
_leave_time()
for kind in (Graph, Swarm):
    let_the_loop_run(kind, "__call__", "invoke_async")
