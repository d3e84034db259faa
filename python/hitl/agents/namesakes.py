"""Agents of one name: what is decided for always about a tool of one is not decided about that of another.

Grants, rules and people know an agent by its name, which two agents of one program may have. Of those that a run can
reach, each but the one that was given to the run then says where it is, as its tools' source.
"""

from __future__ import annotations

import contextvars
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hitl.agents.participant import Participant

INNER_AGENT: Final = "__hitl_inner_agent__"
"""Where the function of a tool that is an agent says which."""

_places: contextvars.ContextVar[dict[int, str] | None] = contextvars.ContextVar("hitl_agent_places", default=None)


@contextmanager
def told_apart(root: Participant) -> Iterator[None]:
    """In this block, a run of `root`, `place_of` knows the agents that share a name. The outermost run decides."""
    if _places.get() is not None:
        yield
        return
    token = _places.set(_find(root))
    try:
        yield
    finally:
        _places.reset(token)


def place_of(agent: Participant) -> str | None:
    """`outer/tool`: where an agent is that shares its name with another; None for every other one."""
    return (_places.get() or {}).get(id(agent))


def _find(root: Participant) -> dict[int, str]:
    found: dict[int, tuple[Participant, str]] = {}
    ahead = [(root, root.label)]
    for agent, place in ahead:
        if id(agent) in found:
            continue
        found[id(agent)] = (agent, place)
        ahead += [(target, f"{place}/{target.name}") for target in agent.handoffs]
        for tool in agent.tools:
            inner: Participant | None = getattr(tool.function, INNER_AGENT, None)
            if inner is not None:
                ahead.append((inner, f"{place}/{tool.name}"))
    names = Counter(agent.name for agent, _ in found.values() if agent.name)
    return {
        id: place for id, (agent, place) in found.items() if agent is not root and names.get(agent.name or "", 0) > 1
    }
