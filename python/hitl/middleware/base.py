"""`AgentMiddleware`, and the model's request and reply under their names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hitl.models.chat_client import ModelReply as ModelResponse
from hitl.models.chat_client import ModelRequest

if TYPE_CHECKING:
    from hitl.agents.seams import AgentRuntime
    from hitl.tools import Tool

__all__ = ["AgentMiddleware", "ModelRequest", "ModelResponse"]


class AgentMiddleware:
    """What stands around an agent's loop: override what you need, the rest changes nothing.

    It runs between the steps of a turn, so it runs again in a replay: what has effects belongs into a `hitl.step`.
    """

    def wrap_tools(self, tools: tuple[Tool[..., Any], ...]) -> tuple[Tool[..., Any], ...]:
        """The tools the agent gets, in place of these. Called when the agent is made, and for tools that come later."""
        return tools

    def before_agent(self, state: dict[str, Any], runtime: AgentRuntime) -> dict[str, Any] | None:
        """Called before the model is asked for the first time in a turn; what is returned is put into `state`."""
        return None

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Called in place of each model call; `handler` makes it. Both shapes are frozen: `dataclasses.replace`."""
        return await handler(request)
