"""The code version of an agent that this program runs itself."""

from __future__ import annotations

import sys

from hitl.driver.code_version import code_version
from hitl.driver.shapes import LoadedAgent

_known: tuple[int, str | None, str] | None = None


def code_of(agent: LoadedAgent) -> str:
    """As ``code_version``, without reading the sources again while nothing was imported."""
    global _known
    if agent.options.version is not None:
        return agent.options.version
    imported = len(sys.modules)
    if _known is None or _known[:2] != (imported, agent.module):
        _known = (imported, agent.module, code_version(agent))
    return _known[2]
