"""`AgentMiddleware`, and the model's request and reply under their names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hitl.agents.seams import changes_nothing
from hitl.models.chat_client import ModelReply as ModelResponse
from hitl.models.chat_client import ModelRequest

if TYPE_CHECKING:
    from hitl.agents.seams import AgentRuntime, ToolCallRequest
    from hitl.messages import ChatMessage
    from hitl.tools.definition import Tool

__all__ = ["AgentMiddleware", "ModelRequest", "ModelResponse"]

State = dict[str, Any]
"""`messages`: the conversation as it stands; and what middleware put beside it. Lives for one turn."""


class AgentMiddleware:
    """What stands around an agent's loop: override what you need, the rest changes nothing.

    It runs between the steps of a turn, so it runs again in a replay: what has effects belongs into a `hitl.step`.

    Each hook but `wrap_tools` has an async twin, `a` before its name, which is called in its place where both are
    overridden. Plain `wrap_model_call` and `wrap_tool_call` run in a thread, the other plain hooks on the event loop.
    `before_*` and `after_*` return None or a dict of changes to `state`; `before_*` may add `messages`. Those of the
    first middleware run first before, and last after. A method that looks like a hook and is none is a `TypeError` when
    the agent is made.

    Example:
        class Short(AgentMiddleware):
            def wrap_model_call(self, request: ModelRequest, handler: Callable[..., ModelReply]) -> ModelReply:
                return handler(replace(request, messages=request.messages[-20:]))

        agent = ReActAgent(middleware=[Short()])
    """

    @changes_nothing
    def wrap_tools(self, tools: tuple[Tool[..., Any], ...]) -> tuple[Tool[..., Any], ...]:
        """The tools the agent gets, in place of these. Called when the agent is made, and for tools that come later."""
        return tools

    @changes_nothing
    def before_agent(self, state: State, runtime: AgentRuntime) -> State | None:
        """Called before the model is asked for the first time in a turn."""
        return None

    @changes_nothing
    async def abefore_agent(self, state: State, runtime: AgentRuntime) -> State | None:
        """As `before_agent`."""
        return None

    @changes_nothing
    def before_model(self, state: State, runtime: AgentRuntime) -> State | None:
        """Called before each request to the model."""
        return None

    @changes_nothing
    async def abefore_model(self, state: State, runtime: AgentRuntime) -> State | None:
        """As `before_model`."""
        return None

    @changes_nothing
    def after_model(self, state: State, runtime: AgentRuntime) -> State | None:
        """Called after each reply, which is the last of `state["messages"]`, before its tools are called."""
        return None

    @changes_nothing
    async def aafter_model(self, state: State, runtime: AgentRuntime) -> State | None:
        """As `after_model`."""
        return None

    @changes_nothing
    def after_agent(self, state: State, runtime: AgentRuntime) -> State | None:
        """Called once the answer is there, for each agent that had the conversation in this turn."""
        return None

    @changes_nothing
    async def aafter_agent(self, state: State, runtime: AgentRuntime) -> State | None:
        """As `after_agent`."""
        return None

    @changes_nothing
    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        """Called in place of each model call; `handler` makes it. Both shapes are frozen: `dataclasses.replace`."""
        return handler(request)

    @changes_nothing
    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """As `wrap_model_call`."""
        return await handler(request)

    @changes_nothing
    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ChatMessage]
    ) -> ChatMessage:
        """Called in place of each tool call; `handler` makes it, approval and all, and returns the tool's message.

        The request may have other arguments (`request.override(tool_call={...})`): they are checked, and shown to
        people, in the place of the model's. Name and id are the call's own.
        """
        return handler(request)

    @changes_nothing
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ChatMessage]]
    ) -> ChatMessage:
        """As `wrap_tool_call`."""
        return await handler(request)
