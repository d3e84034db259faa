"""Whether code of a framework runs in a turn."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from hitl.turn.places import place_var
from hitl.turn.runtime import current_turn
from hitl.turn.schedule import is_counted


def is_in_turn() -> bool:
    """Whether this code is a turn's, on the turn's loop, and can make steps. A run in a loop of its own, as that of
    ``asyncio.run`` in a tool, cannot: it is part of the step that the tool is."""
    place = place_var.get()
    if place is None:
        return False
    try:
        return asyncio.get_running_loop() is place.turn.loop
    except RuntimeError:  # a thread, for example of a plain tool
        return False


def is_past_the_loop() -> bool:
    """Whether this code is a turn's, but not on the turn's loop."""
    return place_var.get() is not None and not is_in_turn()


def is_in_thread() -> bool:
    """Whether this code is a turn's, in a thread that the turn knows of and that may wait for its loop."""
    if place_var.get() is None or not is_counted():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def let_the_loop_run(kind: type, blocking: str, awaited: str) -> None:
    """Where a plain function of a turn calls ``kind``'s method ``blocking``, let the turn's loop run ``awaited``, which
    takes the same and comes to the same: what is done in it are steps too, and rules hold for it."""
    original = getattr(kind, blocking)

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_in_thread():
            return original(self, *args, **kwargs)
        name = f"{kind.__name__}.{blocking}()"
        return current_turn(name).run_sync(name, lambda: getattr(self, awaited)(*args, **kwargs))

    setattr(kind, blocking, run)


def check_rules_reach(what: Callable[[], str], instead: str, *, blocks: bool = False) -> None:
    """Before a tool is called: RuntimeError where this code is a turn's, but not on its loop, and there may be rules.
    Only there they can be asked about what a model wants called, and here it would be called without. ``blocks``: or on
    the loop, in a plain function, which cannot wait for their answer."""
    place = place_var.get()
    if place is None or (is_in_turn() and not blocks) or not place.turn.may_have_rules:
        return
    raise RuntimeError(
        f"{what()} runs past the turn's event loop, where alone the rules of the policy can be asked about its tools; "
        f"{instead}"
    )
