"""What happens before a tool call, told to callbacks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypedDict, runtime_checkable

from hitl.agents.seams import HookCall, current_run
from hitl.hooks.current import AnyAgent
from hitl.hooks.interrupts import InterruptException, Interruptible, Questions
from hitl.turn.runtime import current_turn
from hitl.turn.threads import call_blocking

CANCELLED = "tool cancelled by user"
"""What the model is told where `cancel_tool` is only True."""


class ToolUse(TypedDict):
    """A tool call as a model made it."""

    toolUseId: str
    name: str
    input: Any


class BeforeToolCallEvent(Interruptible):
    """A tool call is about to begin.

    Example:
        def sure(event: BeforeToolCallEvent) -> None:
            if event.tool_use["name"] == "delete_file" and event.interrupt("sure") != "y":
                event.cancel_tool = "nobody said yes"
    """

    def __init__(
        self,
        agent: AnyAgent | None = None,
        tool_use: ToolUse | None = None,
        invocation_state: dict[str, Any] | None = None,
        cancel_tool: bool | str = False,
        *,
        _questions: Questions | None = None,
    ) -> None:
        """
        Args:
            agent: Whose model made the call.
            tool_use: The call. What runs is what the model wrote: changing it here is a `TypeError` of the turn.
            invocation_state: What `agent(..., invocation_state=...)` was given.
            cancel_tool: Set it to a text, which the model gets in the place of the result, or to True.
        """
        call: ToolUse = {"toolUseId": "", "name": "", "input": {}} if tool_use is None else tool_use
        self.agent = agent
        self.tool_use = call
        self.invocation_state = {} if invocation_state is None else invocation_state
        self.cancel_tool = cancel_tool
        self._questions = Questions("before_tool_call", call) if _questions is None else _questions
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "cancel_tool" and getattr(self, "_made", False):
            raise AttributeError(f"{name} of a BeforeToolCallEvent cannot be set; cancel_tool can")
        super().__setattr__(name, value)


Callback = Callable[[BeforeToolCallEvent], "Awaitable[None] | None"]


@runtime_checkable
class HookProvider(Protocol):
    """Something that registers callbacks.

    Example:
        class Approval(HookProvider):
            def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
                registry.add_callback(BeforeToolCallEvent, self.sure)

            def sure(self, event: BeforeToolCallEvent) -> None:
                event.interrupt("sure", reason=event.tool_use["name"])
    """

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Call `registry.add_callback` for each callback; called once, when the agent is made."""


class HookRegistry:
    """The callbacks of one agent, in the order in which they were added.

    Example:
        def sure(event: BeforeToolCallEvent) -> None:
            event.interrupt("sure")

        registry = HookRegistry()
        registry.add_callback(BeforeToolCallEvent, sure)
    """

    def __init__(self) -> None:
        self._callbacks: list[Callback] = []

    def add_callback(self, event_type: type[BeforeToolCallEvent], callback: Callback) -> None:
        """Have `callback`, plain or async, called for each event of a type; `BeforeToolCallEvent` is the only one, and
        anything else a TypeError."""
        if event_type is not BeforeToolCallEvent:
            raise TypeError(f"add_callback() takes BeforeToolCallEvent and a callback of it, got {event_type!r}")
        if not callable(callback):
            raise TypeError(f"add_callback() needs a callable, got {callback!r}")
        self._callbacks.append(callback)

    def add_hook(self, hook: HookProvider) -> None:
        """Let a provider register its callbacks; TypeError for what is none."""
        if isinstance(hook, type) or not isinstance(hook, HookProvider):
            raise TypeError(f"hooks takes objects with register_hooks(registry), got {hook!r}")
        hook.register_hooks(self)

    async def before_tool_call(self, agent: AnyAgent, call: HookCall) -> str | None:
        """Call every callback, as often as answers come in; the text that cancels the call, or None.

        Runs inside of the hook's step. Raises what callbacks raise, and TypeError where one changed the call.
        """
        turn, run = current_turn(), current_run()
        tool_use: ToolUse = {"toolUseId": call.tool_call_id, "name": call.name, "input": call.args}
        context = None if run is None else run.runtime.context
        questions = Questions("before_tool_call", tool_use, turn.idempotency_key())

        async def call_all() -> BeforeToolCallEvent:
            event = BeforeToolCallEvent(agent, copy.deepcopy(tool_use), context, _questions=questions)
            for index, callback in enumerate(self._callbacks):
                questions.begin_callback(index)
                try:
                    if inspect.iscoroutinefunction(callback):
                        await callback(event)
                    else:
                        made = await call_blocking(turn, callback, event)
                        if inspect.isawaitable(made):
                            await made
                except InterruptException as raised:
                    if not questions.has_raised(raised):
                        raise
            if event.tool_use != tool_use:
                raise TypeError(
                    f"a callback changed the tool_use of {call.name}; what runs is what the model wrote\n\n"
                    "hint: set event.cancel_tool, or let a person edit the arguments: tool(requires_approval=True)"
                )
            return event

        event = await questions.answered(call_all)
        return _cancellation(event.cancel_tool)


def _cancellation(cancel_tool: Any) -> str | None:
    if isinstance(cancel_tool, str):
        return cancel_tool or None
    if not isinstance(cancel_tool, bool):
        raise TypeError(f"cancel_tool must be a str or a bool, got {type(cancel_tool).__name__}")
    return CANCELLED if cancel_tool else None
