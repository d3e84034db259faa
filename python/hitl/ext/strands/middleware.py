"""An agent's middleware, with ours inside of it."""

from __future__ import annotations

from typing import Any, Final

from strands.middleware import ExecuteToolStage, InvokeModelStage
from strands.middleware._registry import MiddlewareRegistry

from hitl.ext.strands.steps import Next, call_tool, invoke_model

_INNERMOST: Final[dict[Any, Any]] = {InvokeModelStage: invoke_model, ExecuteToolStage: call_tool}


class TurnMiddleware(MiddlewareRegistry):
    """The middleware of an agent, whenever it is added, and inside of all of it ours: a person is shown what runs."""

    def __init__(self, middleware: MiddlewareRegistry) -> None:
        self.__dict__.update(vars(middleware))

    def compose(self, stage: Any, terminal: Next) -> Next:
        if stage in _INNERMOST:
            terminal = _around(stage, _INNERMOST[stage], terminal)
        return super().compose(stage, terminal)


def _around(stage: Any, handler: Any, inner: Next) -> Next:
    """What calls ``handler`` with ``inner``, as Strands does it."""
    alone = MiddlewareRegistry()
    alone.add_middleware(stage, handler)
    return alone.compose(stage, inner)
