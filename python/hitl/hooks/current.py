"""The agent whose turn runs here, for what is made inside of one: events, and the contexts of tools."""

from __future__ import annotations

import contextvars
from typing import Any, Protocol


class AnyAgent(Protocol):
    """What is known below `hitl.hooks.agent` of an `Agent`, which explains it."""

    name: str
    session_id: str

    @property
    def hooks(self) -> Any: ...

    def __call__(self, prompt: Any, *, invocation_state: dict[str, Any] | None = None) -> Any: ...

    async def invoke_async(self, prompt: Any, *, invocation_state: dict[str, Any] | None = None) -> Any: ...


agent_var: contextvars.ContextVar[AnyAgent | None] = contextvars.ContextVar("hitl_hooks_agent", default=None)


def current_agent() -> AnyAgent | None:
    """The agent whose turn runs in this context."""
    return agent_var.get()
