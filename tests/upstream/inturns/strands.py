"""Strands: its tests decide themselves, by calling an agent again with responses to its interrupts.

So here an interrupt goes back to the test as Strands has it. What the test then responds is asked and answered in the
turn, before the agent goes on. An agent is not copied for its turn: tests look at the one that they have made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from strands import Agent
from strands.hooks import BeforeToolCallEvent, HookRegistry, MessageAddedEvent
from strands.middleware import ExecuteToolStage, InvokeModelStage
from strands.types._events import ToolInterruptEvent

from hitl.ext.strands import asking, copies, serving, steps
from hitl.ext.strands.turns import InTurn, in_turn_of, know
from hitl.ext.turns import is_in_turn
from hitl.turn.places import place_var
from hitl.turn.runtime import current_turn
from hitl.turn.schedule import is_counted

_call = Agent.__call__
_stream_async: Any = Agent.stream_async.__wrapped__  # type: ignore[attr-defined]
_outcome = steps._outcome
_going_on = steps._going_on

_responses: dict[str, Any] = {}
"""What the test says to a question, by the id of the interrupt."""
_equipped: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


class LeftOpen(Exception):
    """The test has not responded yet."""


class TestHooks(HookRegistry):
    """The hooks of an agent in a turn, whose questions go back to the test."""

    __test__ = False

    def __init__(self, hooks: HookRegistry) -> None:
        self.__dict__.update(vars(hooks))

    async def invoke_callbacks_async(self, event: Any) -> Any:
        in_turn = in_turn_of(getattr(event, "agent", None))
        if in_turn is not None and isinstance(event, MessageAddedEvent):
            in_turn.note(event.message)
        if in_turn is not None and isinstance(event, BeforeToolCallEvent):
            call, known = in_turn.begin_call(event.agent, event.tool_use), event.agent._interrupt_state.interrupts
            asked = {id_: each for id_, each in known.items() if event.tool_use["toolUseId"] in id_}
            call.allowed |= any(each.response is not None for each in asked.values())
            call.answered |= asked
        return await super().invoke_callbacks_async(event)


def _journaled(agent: Agent) -> None:
    """Let what an agent does in this turn be journaled."""
    if in_turn_of(agent) is not None:
        return
    know(agent, InTurn(current_turn(), copies.name_of(agent), copies._RETRIES, {}, stream=False))
    if agent not in _equipped:
        _equipped[agent] = True
        agent.add_middleware(InvokeModelStage, steps.invoke_model)
        agent.add_middleware(ExecuteToolStage, steps.call_tool)
        agent.hooks = TestHooks(agent.hooks)


async def _stream(self: Agent, prompt: Any = None, **options: Any) -> Any:
    if is_in_turn():
        _journaled(self)
        await _ask_answered(self, prompt)
    async for event in _stream_async(self, prompt, **options):
        yield event


async def _ask_answered(agent: Agent, prompt: Any) -> None:
    """Ask what the test responds to, and let its own words be the answer."""
    for each in prompt if isinstance(prompt, list) else ():
        response = each.get("interruptResponse") if isinstance(each, dict) else None
        known = response and agent._interrupt_state.interrupts.get(response["interruptId"])
        if known:
            _responses[known.id] = response["response"]
            response["response"] = await asking.put_question(current_turn(), known, None)


def _called(self: Agent, *args: Any, **options: Any) -> Any:
    if place_var.get() is None or not is_counted():
        return _call(self, *args, **options)
    return current_turn("an agent").run_sync("an agent", lambda: self.invoke_async(*args, **options))


async def _left_open(*_: Any) -> Any:
    raise LeftOpen


async def _with_interrupts(in_turn: Any, context: Any, tool: Any, next_fn: Any) -> Any:
    called: list[Any] = []
    calls = steps._called

    async def noted(*asked: Any) -> Any:
        wire = await calls(*asked)
        called[:] = wire.get("interrupts", ())
        return wire

    steps._called = noted  # type: ignore[assignment]
    try:
        return await _outcome(in_turn, context, tool, next_fn)
    except LeftOpen:
        return ToolInterruptEvent(context.tool_use, [steps.Interrupt(*each) for each in called])
    finally:
        steps._called = calls


def _going_on_or_beside(outcomes: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
    """What runs beside the turn makes no steps."""
    return contextlib.nullcontext() if place_var.get() is None else _going_on(outcomes)


@contextlib.contextmanager
def person() -> Iterator[Callable[[Any], Any]]:
    """Whoever answers what a turn asks: the test."""
    _responses.clear()
    yield (
        lambda request: (
            {"outcome": "not_done"} if request["type"] == "unknown_outcome" else _responses[request["payload"]["id"]]
        )
    )


def install() -> None:
    """Let the adapter ask the test."""
    assert serving is not None
    Agent.stream_async = _stream  # type: ignore[method-assign]
    Agent.__call__ = _called  # type: ignore[method-assign]
    steps.put_question = _left_open
    steps._outcome = _with_interrupts
    steps._going_on = _going_on_or_beside  # type: ignore[assignment]
