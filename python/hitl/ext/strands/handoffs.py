"""The tool by which agents of a swarm hand over. It says how a run goes on: what it does is done in a replay too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from strands.multiagent.swarm import Swarm
from strands.types.tools import AgentTool

HANDOFF: Final = "handoff_to_agent"
"""What it is called."""

_FUNCTION: Final = f"{Swarm._create_handoff_tool.__qualname__}.<locals>.{HANDOFF}"


def handoff_of(swarm: Any) -> Any:
    """The tool that hands over, in this swarm. It needs no thread."""
    handoff = swarm._create_handoff_tool()
    hand_over: Callable[..., Any] = handoff._tool_func

    @functools.wraps(hand_over)
    async def handoff_to_agent(**arguments: Any) -> Any:
        return hand_over(**arguments)

    handoff._tool_func = handoff_to_agent
    return handoff


def is_handoff(tool: AgentTool) -> bool:
    """Whether it is such a tool, and none of the program's own that is called the same."""
    return getattr(getattr(tool, "_tool_func", None), "__qualname__", None) == _FUNCTION
