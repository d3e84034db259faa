"""What of Strands a turn cannot keep its promises for. Such an agent is refused before its first turn."""

from __future__ import annotations

from typing import Any

from strands import Agent
from strands.multiagent.base import MultiAgentBase
from strands.multiagent.graph import Graph
from strands.multiagent.swarm import Swarm

from hitl.errors import AgentLoadError


def refuse(agent: Any, name: str) -> None:
    """AgentLoadError, with a hint, for an agent that cannot run in turns, or has one that cannot."""
    _refuse(agent, name, set())


def _refuse(agent: Any, name: str, seen: set[int]) -> None:
    if id(agent) in seen:
        return
    seen.add(id(agent))
    if isinstance(agent, MultiAgentBase):
        if not isinstance(agent, Graph | Swarm):
            raise _error(name, f"is a {type(agent).__name__}", "a Graph and a Swarm are taken")
        if agent.session_manager is not None:
            raise _error(name, *_SESSION)
        for node_id, node in agent.nodes.items():
            _refuse(node.executor, node_id, seen)
        return
    if not isinstance(agent, Agent):
        raise _error(name, f"is a {type(agent).__name__}", "nodes are agents, graphs and swarms of this program")
    if agent._session_manager is not None:
        raise _error(name, *_SESSION)
    if agent._background_tasks is not None:
        raise _error(name, "has background_tasks", "leave it out: calls that wait for a person hold up no other")
    if agent._checkpointing:
        raise _error(name, "has checkpointing", "leave it out: hitl goes on after a crash without")
    _refuse_memory(agent.memory_manager, name)
    if agent.model.stateful:
        raise _error(name, "has a model that keeps the conversation itself", "make it with stateful=False")
    for tool in agent.tool_registry.registry.values():
        nested = getattr(tool, "agent", None)
        if tool.tool_type == "agent" and isinstance(nested, Agent):
            _refuse(nested, tool.tool_name, seen)


_SESSION = ("has a session manager", "leave it out: a session of hitl keeps the conversation, and the agent's state")


def _refuse_memory(memory: Any, name: str) -> None:
    """One that saves when nobody waits for it: what a turn leaves behind ends with it. What it has heard it keeps for
    the agent, besides, which the turns of all sessions share."""
    for binding in getattr(memory, "_extraction_stores", ()):
        raise _error(
            name,
            f"has a memory with extraction ({binding.store.name})",
            "make that store without: it would save what it hears when the turn is over already. With "
            "add_tool_config=True the model saves what is to stay",
        )
    add = getattr(memory, "_add_tool_config", None)
    if add and not add.get("wait_for_writes", True):
        raise _error(
            name,
            "has a memory whose tool does not wait for its writes",
            "make it with wait_for_writes=True, or without: a turn that ends does not wait either, and loses them",
        )


def _error(name: str, what: str, hint: str) -> AgentLoadError:
    return AgentLoadError(f"the agent {name!r} cannot be served: it {what}", hint)
