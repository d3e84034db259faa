"""Where code of others gets into an agent's loop: middleware and hooks.

What a middleware may have is in `MIDDLEWARE_HOOKS`, LangChain's names among them. A name that looks like one of these
and is none is refused when the agent is made: a gate that is never called would be no gate.

Both run between the steps of a turn, so they may run again in a replay: what has effects, or may say something else
the next time, belongs into a `hitl.step`. A hook is a step itself.
"""

from __future__ import annotations

import contextvars
import difflib
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hitl.agents.participant import Participant
from hitl.errors import HitlError
from hitl.messages import ChatMessage
from hitl.models.chat_client import ModelReply, ModelRequest
from hitl.tools.definition import Tool
from hitl.tools.guardrails import guardrail_name
from hitl.turn.callables import check_takes
from hitl.turn.runtime import current_turn

if TYPE_CHECKING:
    ModelCall = Callable[[ModelRequest], Awaitable[ModelReply]]
    ToolMessageCall = Callable[["ToolCallRequest"], Awaitable[ChatMessage]]

logger = logging.getLogger("hitl.middleware")

_TWINS: Final = ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")
MIDDLEWARE_HOOKS: Final = ("wrap_tools", *_TWINS, *(f"a{name}" for name in _TWINS))
"""What a middleware may have. Of `x` and `ax` the second is called where there are both."""

_LOOKS_LIKE_A_HOOK = re.compile(
    r"a?(before|after|wrap|around|modify|on)_(agent|model|llm|tool|call|turn|request|response)"
)
_NO_JUMPS: Final = (
    "which this loop does not have\n\nhint: wrap_model_call may return a reply without asking the model, and "
    "wrap_tool_call a message without running the tool"
)
_CHANGES_NOTHING = "__hitl_changes_nothing__"


@dataclass(frozen=True)
class HookCall:
    """A tool call that is about to begin, as a hook sees it.

    Example:
        async def on_call(call: HookCall) -> str | None:
            if call.name != "delete_file":
                return None  # let it go on
            sure = await hitl.interrupt({"type": "sure", "args": call.args}, response_schema=bool)
            return None if sure else "nothing was deleted"

        agent = ReActAgent(tools=[delete_file], hooks=[on_call])
    """

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


Hook = Callable[[HookCall], str | Awaitable[str | None] | None]
"""`(HookCall) -> str | None`, plain or async."""


@dataclass(frozen=True)
class AgentRuntime:
    """Which run a middleware is called in."""

    agent: Participant
    """The agent that works: after a handoff, the one that has the conversation."""

    context: Any = None
    """The object given to the run."""

    session_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True)
class ToolCallRequest:
    """A call that is about to be made, as `wrap_tool_call` and a `when` predicate see it."""

    tool_call: dict[str, Any]
    """`{"name", "args", "id", "type": "tool_call"}`; the arguments are a copy."""

    tool: Tool[..., Any] | None
    """None where the agent has no tool of that name."""

    state: dict[str, Any]
    """`messages`: the conversation as it stands; and what middleware put beside it."""

    runtime: AgentRuntime | None

    def override(self, **changes: Any) -> ToolCallRequest:
        """A changed copy."""
        return replace(self, **changes)


@dataclass
class AgentRun:
    """One agent at work on one conversation; see `current_run`."""

    runtime: AgentRuntime
    state: dict[str, Any] = field(default_factory=dict)
    """`messages`: the conversation as it stands, the live list; and what middleware put beside it."""

    def update(self, hook: str, changes: Any) -> None:
        """Take what the hook of a middleware returned: None, or a dict of changes. `messages` are added to those that
        are there; only before a model is asked, since a reply and its tools' messages belong together."""
        if changes is None:
            return
        if not isinstance(changes, Mapping):
            raise TypeError(f"{hook}() must return None or a dict of state updates, got {type(changes).__name__}")
        if "jump_to" in changes:
            raise TypeError(f"{hook}() returned jump_to, {_NO_JUMPS}")
        if "messages" in changes:
            self._add(hook, changes["messages"])
        self.state.update({name: value for name, value in changes.items() if name != "messages"})

    def _add(self, hook: str, messages: Any) -> None:
        given = messages if isinstance(messages, list | tuple) else [messages]
        known = self.state["messages"]
        new = [message for message in given if not any(message is each for each in known)]
        if new and "before" not in hook:
            raise TypeError(
                f"{hook}() returned messages: only before_agent and before_model add some\n\nhint: wrap_model_call "
                "changes a reply, and wrap_tool_call the message of a tool"
            )
        for message in new:
            if not isinstance(message, ChatMessage):
                raise TypeError(f"{hook}() must return ChatMessages as messages, got {type(message).__name__}")
            known.append(message)


def changes_nothing(method: Any) -> Any:
    """Mark a hook of a base class as one that need not be called."""
    setattr(method, _CHANGES_NOTHING, True)
    return method


current_run_var: contextvars.ContextVar[AgentRun | None] = contextvars.ContextVar("hitl_agent_run", default=None)


def current_run() -> AgentRun | None:
    """The agent's run that this code is part of: in middleware, hooks, policies, descriptions and tools; else None.

    Example:
        run = hitl.current_run()
        if run is not None:
            print(run.runtime.context)
    """
    return current_run_var.get()


class Middleware:
    """The middleware of one agent, in the order given; the first is the outermost."""

    def __init__(self, given: Iterable[Any]) -> None:
        """`given`: objects with one or more of `MIDDLEWARE_HOOKS`, and nothing that only looks like one; else
        `TypeError`."""
        self._each = tuple(given)
        for item in self._each:
            if isinstance(item, type):
                raise TypeError(f"middleware takes objects, and {item.__name__} is a class: use {item.__name__}(...)")
            _refuse_unknown_hooks(item)
            if not any(callable(getattr(item, hook, None)) for hook in MIDDLEWARE_HOOKS):
                known = ", ".join(MIDDLEWARE_HOOKS)
                raise TypeError(f"a middleware has {known}, one at least; got {type(item).__name__}")
        self._shown: tuple[set[str], ...] = tuple(set() for _ in self._each)
        """The names of the tools that each of them was asked about, over all turns."""
        self._warned: set[str] = set()

    def wrap_tools(self, tools: Iterable[Tool[..., Any]]) -> tuple[Tool[..., Any], ...]:
        """The tools as every middleware left them."""
        wrapped = tuple(tools)
        for item, shown in zip(reversed(self._each), reversed(self._shown), strict=True):
            wrap = getattr(item, "wrap_tools", None)
            if wrap is None:
                continue
            shown.update(tool.name for tool in wrapped)
            given: tuple[Any, ...] = tuple(wrap(wrapped))
            for made in given:
                if not isinstance(made, Tool):
                    raise TypeError(f"{type(item).__name__}.wrap_tools() must return tools, got {made!r} among them")
            wrapped = given
        return wrapped

    def check_gates(self, label: str, later: str) -> None:
        """`ValueError` for a gate that the agent `label` was meant to have and has not: it names no tool of it, but
        one that is much like a tool without a gate; or none of its gates does. Tools whose names begin with `later` may
        still come. Any other gate of no tool may be for another agent with the same gates, and is logged."""
        for item, shown in zip(self._each, self._shown, strict=True):
            gates = _gates(item)
            unknown = [name for name in gates if name not in shown and not name.startswith(later)]
            for name in unknown:
                if len(unknown) == len(gates) or _near(name, shown.difference(gates)):
                    raise ValueError(_unknown_gate(label, name, shown))
                self._warn(label, name, shown)

    def warn_of_unknown_gates(self, label: str) -> None:
        """Log each gate of no tool, once, when all tools have come, those of MCP servers too: what a server has may
        change while a turn waits, which must not end it."""
        for item, shown in zip(self._each, self._shown, strict=True):
            for name in _gates(item):
                if name not in shown:
                    self._warn(label, name, shown)

    def _warn(self, label: str, name: str, shown: Iterable[str]) -> None:
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("%s", _unknown_gate(label, name, shown))

    async def before_agent(self, run: AgentRun) -> None:
        """Before the model is asked for the first time; a dict that one returns is put into the state."""
        await self._tell("before_agent", self._each, run)

    async def before_model(self, run: AgentRun) -> None:
        """Before each request to the model."""
        await self._tell("before_model", self._each, run)

    async def after_model(self, run: AgentRun) -> None:
        """After each reply, the last middleware first; the reply is the last of the messages."""
        await self._tell("after_model", reversed(self._each), run)

    async def after_agent(self, run: AgentRun) -> None:
        """After the answer, the last middleware first."""
        await self._tell("after_agent", reversed(self._each), run)

    async def _tell(self, name: str, each: Iterable[Any], run: AgentRun) -> None:
        for item in each:
            own, hook = _hook(item, name)
            if hook is None:
                continue
            changes = hook(run.state, run.runtime)
            if inspect.isawaitable(changes):
                changes = await changes
            run.update(f"{type(item).__name__}.{own}", changes)

    def around(self, ask: ModelCall) -> ModelCall:
        """`ask` with every middleware around it."""
        for item in reversed(self._each):
            own, hook = _hook(item, "wrap_model_call")
            if hook is not None:
                ask = _around(f"{type(item).__name__}.{own}", hook, ask, ModelReply)
        return ask

    @property
    def wraps_tool_calls(self) -> bool:
        """Whether any of them stands around tool calls."""
        return any(_hook(item, "wrap_tool_call")[1] is not None for item in self._each)

    def around_tool_call(self, answer: ToolMessageCall) -> ToolMessageCall:
        """`answer` with every middleware around it."""
        for item in reversed(self._each):
            own, hook = _hook(item, "wrap_tool_call")
            if hook is not None:
                answer = _around(f"{type(item).__name__}.{own}", hook, answer, ChatMessage)
        return answer


def _gates(item: Any) -> tuple[str, ...]:
    """The tools that a middleware lets wait for a person."""
    return tuple(getattr(item, "gated_tools", ()))


def _near(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that may have been meant by `name`."""
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), folded, 1, 0.8)
    return folded[close[0]] if close else None


def _unknown_gate(label: str, name: str, known: Iterable[str]) -> str:
    near = _near(name, known)
    meant = "" if near is None else f"; did you mean {near!r}?"
    tools = ", ".join(sorted(known)) or "none"
    return (
        f"interrupt_on names {name!r}, which is no tool of {label}{meant} (its tools: {tools})\n\n"
        "hint: a gate holds for the tools of the agent whose middleware it is"
    )


def _hook(item: Any, name: str) -> tuple[str, Callable[..., Any] | None]:
    """The hook `name` of a middleware, or its async twin, which comes first; None where it has none of its own."""
    for own in (f"a{name}", name):
        hook: Callable[..., Any] | None = getattr(item, own, None)
        if hook is not None and not getattr(hook, _CHANGES_NOTHING, False):
            return own, hook
    return name, None


def _around(
    name: str, wrap: Callable[..., Any], inner: Callable[[Any], Awaitable[Any]], wanted: type
) -> Callable[[Any], Awaitable[Any]]:
    is_async = inspect.iscoroutinefunction(wrap) or name.rpartition(".")[2].startswith("a")

    async def call(request: Any) -> Any:
        if is_async:
            reply = await wrap(request, inner)
        else:
            turn = current_turn(name)

            def handler(request: Any) -> Any:
                return turn.run_sync(name, lambda: _awaited(inner(request)))

            reply = await turn.run_in_thread(wrap, request, handler)
        if not isinstance(reply, wanted):
            raise TypeError(f"{name}() must return a {wanted.__name__}, got {type(reply).__name__}")
        return reply

    return call


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _refuse_unknown_hooks(item: Any) -> None:
    """`TypeError` for a method that its author takes for a hook, and that nothing would ever call."""
    for name in dir(item):
        if name.startswith("_") or not callable(inspect.getattr_static(item, name)):
            continue
        what = f"{type(item).__name__}.{name}()"
        if name not in MIDDLEWARE_HOOKS:
            close = difflib.get_close_matches(name, MIDDLEWARE_HOOKS, 1, 0.85)
            if close or _LOOKS_LIKE_A_HOOK.match(name):
                use = close[0] if close else f"one of {', '.join(MIDDLEWARE_HOOKS)}"
                raise TypeError(
                    f"{what} looks like a hook, and would never be called\n\n"
                    f"hint: use {use}; a method that is none of them begins with an underscore"
                )
        elif getattr(getattr(item, name), "__can_jump_to__", None):
            raise TypeError(f"{what} wants to jump, {_NO_JUMPS}")


def read_hooks(hooks: Iterable[Any]) -> tuple[Hook, ...]:
    """Check hooks when the agent is made."""
    checked: list[Hook] = []
    for hook in hooks:
        if not callable(hook) or isinstance(hook, type):
            raise TypeError(f"a hook is a function of a HookCall, got {hook!r}")
        check_takes(f"hook {guardrail_name(hook)!r}", hook, "the HookCall")
        checked.append(hook)
    return tuple(checked)
