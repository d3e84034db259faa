"""What an agent says of its turns. Apart from what makes it runnable: whoever only defines one needs none of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hitl.turn.callables import check_takes

if TYPE_CHECKING:
    from hitl.driver.requests import ContextFrom
    from hitl.turn.resources import Resources


class DeclaringAgent:
    """An agent that says itself what its turns need; ``ReActAgent`` explains both. Told by its class: what an agent of
    another framework has by such a name may be anything."""

    resources: Resources[Any] | None
    context_from: ContextFrom | None


def check_context_from(owner: str, function: Any) -> ContextFrom | None:
    """TypeError for what is no function of one argument."""
    if function is None:
        return None
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"{owner}: context_from is a function of a TurnRequest, got {function!r}")
    check_takes(f"{owner}: context_from", function, "the TurnRequest")
    made: ContextFrom = function
    return made
