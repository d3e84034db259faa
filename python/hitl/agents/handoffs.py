"""Handoffs: a tool `transfer_to_<agent>` by which a model gives the conversation to another agent.

Whoever has the conversation keeps it: over every pause and replay, and in the turns after it. Nothing but the messages
remembers who that is, so a session that is moved, exported or opened years later goes on in the right hands; an agent
that shall be able to give the conversation back needs a handoff for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from hitl.agents.participant import Participant
from hitl.messages import ChatMessage
from hitl.tools.definition import Tool
from hitl.tools.schema import SchemaParameters

AgentT = TypeVar("AgentT", bound=Participant)

HANDOFF_PREFIX = "transfer_to_"
"""How the names of their tools begin."""
_LONGEST_NAME = 64


def snake_case(name: str) -> str:
    """A name as models may call it: `Data agent` and `DataAgent` are `data_agent`."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"[^A-Za-z0-9]+", "_", parted).strip("_").lower()


class HandoffTool(Tool[..., Any]):
    """A tool that gives the conversation to `target`. Gated like any other, if middleware or a rule says so."""

    target: Participant


def read_handoffs(given: Iterable[AgentT]) -> list[AgentT]:
    """Check what is given as `handoffs=`."""
    agents = list(given)
    for agent in agents:
        transfer_name(agent)
    return agents


def transfer_name(agent: Any) -> str:
    """What the tool that hands over to `agent` is called; TypeError or ValueError where there can be none."""
    if not isinstance(agent, Participant):
        raise TypeError(f"ReActAgent: handoffs takes agents, got {agent!r}")
    slug = snake_case(agent.name or "")
    if not slug:
        raise ValueError("ReActAgent: an agent that is handed over to needs a name")
    return f"{HANDOFF_PREFIX}{slug}"[:_LONGEST_NAME]


def handoff_tools(agents: Sequence[Participant]) -> list[HandoffTool]:
    """A tool for each agent."""
    return [_make_tool(agent) for agent in agents]


def _make_tool(agent: Participant) -> HandoffTool:
    async def transfer() -> str:
        return _said_by(agent)

    about = f"Hand the conversation over to the agent {agent.name}."
    described = f"{about} {agent.description}" if agent.description else about
    no_arguments = SchemaParameters({"type": "object", "properties": {}, "additionalProperties": False}, trusted=True)
    made = HandoffTool.with_parameters(transfer, no_arguments, name=transfer_name(agent), description=described)
    assert isinstance(made, HandoffTool)
    made.target = agent
    return made


def agent_in_charge(first: Participant, messages: Iterable[ChatMessage]) -> Participant:
    """Who has the conversation after these messages, when `first` had it at their beginning.

    A transfer that is not open to the agent in charge (any more) is passed over.
    """
    current = first
    for message in messages:
        if message.role == "tool" and (message.name or "").startswith(HANDOFF_PREFIX):
            for target in current.handoffs:
                if message.name == transfer_name(target) and (message.content or "").startswith(_said_by(target)):
                    current = target
                    break
    return current


def _said_by(agent: Participant) -> str:
    return f"Transferred to {agent.name}."
