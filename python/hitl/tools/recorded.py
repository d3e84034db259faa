"""Arguments as the journal of an earlier release has them, which wrote sets as they came, and fields by other names."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from hitl import _core
from hitl.journal.codec import fingerprint
from hitl.tools.options import AnyTool
from hitl.tools.schema import Arguments
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn


def as_recorded(turn: Turn | None, tool: AnyTool, arguments: Arguments) -> Arguments:
    """Arguments as what comes next has them in the journal: as they were written, in one of a release that left them
    so."""
    place = place_var.get()
    if turn is None or place is None or arguments.unordered is None:
        return arguments
    recorded = turn.order.recorded_step(place.following_step())
    if recorded is None:
        return arguments
    step = recorded[1]

    def has(written: dict[str, Any]) -> bool:
        if step["kind"] == "interrupt":
            asked = {"type": "tool_approval", "tool_name": tool.name, "tool_args": written}
            payload = json.loads(_core.check_payload(asked, sys.maxsize))
            return step["arguments"].get("payload") == fingerprint(payload)
        now = {name: fingerprint(value) for name, value in written.items()}
        return all(now.get(name) == then for name, then in step["arguments"].items())

    if has(arguments.json) or not has(arguments.unordered):
        return arguments
    return replace(arguments, json=arguments.unordered, unordered=None, ordered=arguments.json)
