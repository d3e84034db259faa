"""Whether code of a framework runs in a turn."""

from __future__ import annotations

import asyncio

from hitl.turn.places import place_var


def is_in_turn() -> bool:
    """Whether this code is a turn's and can make steps. A run in a loop of its own, as ``run_sync`` or
    ``agent(...)`` in a tool is one, cannot: it is part of the step that the tool is."""
    place = place_var.get()
    if place is None:
        return False
    try:
        return asyncio.get_running_loop() is place.turn.loop
    except RuntimeError:  # a thread, for example of a plain tool
        return False
