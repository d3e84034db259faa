"""What a turn's models cost, added up from its journal: every model's reply is an entry of it, whoever asked for it.

A nested agent's reply is there too when the step that the agent ran in is over and no replay goes into it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Usage = dict[str, float]
"""`requests`, and the sums of what `ModelReply.usage` holds; empty for a turn that asked no model."""


def usage_of(journal: Iterable[Mapping[str, Any]]) -> Usage:
    """What the models of a turn with this journal cost so far."""
    total: Usage = {}
    for entry in journal:
        if entry["entry"] == "step" and entry["step"]["kind"] == "model":
            add_usage(total, entry["step"], entry.get("result") or {})
    return total


def add_usage(total: Usage, step: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Count a recorded step, where it is a model's reply. `step` and `result` are those of its entry."""
    if step["kind"] != "model" or "value" not in result:
        return
    total["requests"] = total.get("requests", 0) + 1
    reply = result["value"]
    said = reply.get("usage") if isinstance(reply, dict) else None
    # An imported journal may say anything here, and is counted before it is checked: only plain numbers are added.
    for name, value in said.items() if isinstance(said, dict) else ():
        if type(value) in (int, float):
            total[name] = total.get(name, 0) + value
