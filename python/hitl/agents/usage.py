"""What a turn's models cost, added up over all of its agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hitl.runtime import Turn


def add_usage(turn: Turn, usage: Mapping[str, float]) -> None:
    """Count one model reply; called with what the journal holds, so a resumed turn counts the same."""
    total = turn.usage
    total["requests"] = total.get("requests", 0) + 1
    for name, value in usage.items():
        total[name] = total.get(name, 0) + value


def usage_of(turn: Turn) -> dict[str, float]:
    """`requests`, and the sums of what `ModelReply.usage` holds; empty for a turn that asked no model."""
    return dict(turn.usage)
