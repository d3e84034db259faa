"""Where code of others gets into an agent's loop: middleware and hooks.

Both run between the steps of a turn, so they may run again in a replay: what has effects, or may say something else
the next time, belongs into a `hitl.step`. A hook is a step itself.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hitl.errors import HitlError
from hitl.guardrails import guardrail_name

if TYPE_CHECKING:
    from hitl.agents.react import ReActAgent
    from hitl.models.chat_client import ModelReply, ModelRequest
    from hitl.tools import Tool

    ModelCall = Callable[[ModelRequest], Awaitable[ModelReply]]

_METHODS = ("wrap_tools", "before_agent", "awrap_model_call")


@dataclass(frozen=True)
class HookCall:
    """A tool call that is about to begin, as a hook sees it."""

    name: str
    """The tool."""

    args: dict[str, Any]
    """What the model wrote, not checked yet; a copy."""

    tool_call_id: str
    """The id the model gave the call."""

    agent: str | None
    """Name of the agent whose model made it."""


class HookFailed(HitlError):
    """Raised by a hook, it ends the turn. Every other error of a hook is told to the model as that of the call."""

    code = "hook_failed"


Hook = Callable[[HookCall], Any]
"""`(HookCall) -> str | None`, plain or async."""


@dataclass(frozen=True)
class AgentRuntime:
    """Which run a middleware is called in."""

    agent: ReActAgent
    """The agent that works: after a handoff, the one that has the conversation."""

    context: Any = None
    """The object given to the run."""

    session_id: str | None = None
    turn_id: str | None = None


@dataclass
class AgentRun:
    """One agent at work on one conversation; see `current_run`."""

    runtime: AgentRuntime
    state: dict[str, Any] = field(default_factory=dict)
    """`messages`: the conversation as it stands, the live list; and what `before_agent` put beside it."""


current_run_var: contextvars.ContextVar[AgentRun | None] = contextvars.ContextVar("hitl_agent_run", default=None)


def current_run() -> AgentRun | None:
    """The agent's run that this code is part of: in middleware, hooks, policies, descriptions and tools; else None."""
    return current_run_var.get()


class Middleware:
    """The middleware of one agent, in the order given; the first is the outermost."""

    def __init__(self, given: Iterable[Any]) -> None:
        """`given`: objects with one or more of `wrap_tools`, `before_agent`, `awrap_model_call`; else `TypeError`."""
        self._each = tuple(given)
        for item in self._each:
            if isinstance(item, type):
                raise TypeError(f"middleware takes objects, and {item.__name__} is a class: use {item.__name__}(...)")
            if not any(callable(getattr(item, method, None)) for method in _METHODS):
                raise TypeError(f"a middleware has {', '.join(_METHODS)}, one at least; got {type(item).__name__}")

    def wrap_tools(self, tools: Iterable[Tool[..., Any]]) -> tuple[Tool[..., Any], ...]:
        """The tools as every middleware left them."""
        from hitl.tools import Tool

        wrapped = tuple(tools)
        for item in reversed(self._each):
            wrap = getattr(item, "wrap_tools", None)
            if wrap is None:
                continue
            given: tuple[Any, ...] = tuple(wrap(wrapped))
            for made in given:
                if not isinstance(made, Tool):
                    raise TypeError(f"{type(item).__name__}.wrap_tools() must return tools, got {made!r} among them")
            wrapped = given
        return wrapped

    async def before_agent(self, run: AgentRun) -> None:
        """Let each look at the state before the model is asked; a dict that one returns is put into it."""
        for item in self._each:
            before = getattr(item, "before_agent", None)
            if before is None:
                continue
            update = before(run.state, run.runtime)
            if inspect.isawaitable(update):
                update = await update
            if update is not None:
                run.state.update(update)

    def around(self, ask: ModelCall) -> ModelCall:
        """`ask` with every middleware around it."""
        for item in reversed(self._each):
            wrap = getattr(item, "awrap_model_call", None)
            if wrap is not None:
                ask = _around(item, wrap, ask)
        return ask


def _around(item: Any, wrap: Callable[..., Awaitable[Any]], ask: ModelCall) -> ModelCall:
    async def call(request: ModelRequest) -> ModelReply:
        from hitl.models.chat_client import ModelReply

        reply: Any = await wrap(request, ask)
        if not isinstance(reply, ModelReply):
            name = f"{type(item).__name__}.awrap_model_call()"
            raise TypeError(f"{name} must return a ModelReply, got {type(reply).__name__}")
        return reply

    return call


def read_hooks(hooks: Iterable[Any]) -> tuple[Hook, ...]:
    """Check hooks when the agent is made."""
    checked: list[Hook] = []
    for hook in hooks:
        if not callable(hook) or isinstance(hook, type):
            raise TypeError(f"a hook is a function of a HookCall, got {hook!r}")
        try:
            inspect.signature(hook).bind(None)
        except TypeError as error:
            raise TypeError(f"hook {guardrail_name(hook)!r} must take one argument, the HookCall: {error}") from None
        except ValueError:  # a builtin whose signature cannot be read
            pass
        checked.append(hook)
    return tuple(checked)
