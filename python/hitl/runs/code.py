"""The code version of an agent that this program runs itself."""

from __future__ import annotations

import sys
from typing import Any

from hitl.driver.code_version import code_version
from hitl.driver.shapes import LoadedAgent

_known: dict[tuple[str, str | None], tuple[Any, str]] = {}
"""Versions by the agent's name and module, each with what that was loaded from: another one once it is loaded again."""


def code_of(agent: LoadedAgent) -> str:
    """As ``code_version`` at the first run of that agent. As on a server, what it imports while it runs makes no other
    code of it: its turns would not go on in the process that has begun them."""
    if agent.options.version is not None:
        return agent.options.version
    module = agent.module or getattr(agent.target, "__module__", None)
    loaded = getattr(sys.modules.get(module or ""), "__spec__", None)
    known = _known.get((agent.name, module))
    if known is None or known[0] is not loaded:
        known = _known[agent.name, module] = (loaded, code_version(agent))
    return known[1]
