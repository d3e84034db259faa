"""Defaults that are made anew for each call: what was made is recorded, so that a replay has the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitl.tools.options import AnyTool
from hitl.tools.schema import Arguments, InvalidArguments
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn


async def check(turn: Turn | None, tool: AnyTool, given: Mapping[str, Any]) -> Arguments:
    """The arguments of a call, checked, with defaults; raises `InvalidArguments`."""
    arguments = tool.check(given)
    left_out = [name for name, names in tool.parameters.made.items() if names.isdisjoint(given)]
    name = f"{tool.name}.defaults"
    place = place_var.get()
    if turn is None or place is None or not left_out:
        return arguments
    recorded = turn.order.recorded_step(place.following_step())
    if recorded is not None and recorded[1]["name"] != name:
        return arguments  # the journal is of a release that went on without a record

    async def make() -> dict[str, Any]:
        return {each: arguments.json[each] for each in left_out if each in arguments.json}

    made = await turn.run_step("clock", name, make)
    try:
        return tool.check({**given, **made})
    except InvalidArguments:
        return arguments  # its JSON cannot be read back; where anybody has to see it, that is refused
