"""Hooks that ask: each waits for its answer where it stands, and goes on when that is there, whatever else is open.

Strands by itself runs all calls of a reply to their end, collects what hooks have asked meanwhile, and goes on with all
of it at once. Here the callbacks of one event are called again as soon as what they asked is answered. What an
intervention wants confirmed is approved right before the call is made, with the arguments that it is made with.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final

from strands.hooks import (
    AfterInvocationEvent,
    AfterMultiAgentInvocationEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    HookRegistry,
    MessageAddedEvent,
)
from strands.interrupt import Interrupt
from strands.interventions import Confirm, InterventionHandler, Proceed
from strands.interventions.actions import default_evaluate
from strands.vended_interventions.hitl import HumanInTheLoop
from strands.vended_interventions.hitl.classifier import ClassifierResult

from hitl.ext.strands.asking import put_question
from hitl.ext.strands.turns import CallInTurn, InTurn, in_turn_of, note_answers
from hitl.turn.permits import Permit

_REPLACED: Final = "before_tool_call"
"""The member of a handler with what stands before its method of this name."""

_AT_THE_END: Final = (AfterInvocationEvent, AfterMultiAgentInvocationEvent)
"""After these nothing comes that an answer could let run."""

_STDIO: Final = "_create_stdio_ask"
"""Which of Strands' functions makes what ``ask=\"stdio\"`` stands for."""

_INHERITED: Final = f"{HumanInTheLoop.before_tool_call.__qualname__}.<locals>.evaluate"
"""What reads the answer to what ``HumanInTheLoop`` wants confirmed."""


class TurnHooks(HookRegistry):
    """The hooks of an agent, or of several that are one, in a turn: those that it has, none of which is a question to
    whoever has called the agent."""

    def __init__(self, hooks: HookRegistry) -> None:
        self.__dict__.update(vars(hooks))

    async def invoke_callbacks_async(self, event: Any) -> Any:
        """The event as all callbacks left it, and no interrupts."""
        owner: Any = getattr(event, "agent", None) or getattr(event, "source", None)
        in_turn = in_turn_of(owner)
        if in_turn is None:
            return await super().invoke_callbacks_async(event)
        if isinstance(event, BeforeInvocationEvent):
            in_turn.begin_run()
        if isinstance(event, MessageAddedEvent):
            in_turn.note(event.message)
        gate = Permit()
        with in_turn.speaking(), nullcontext() if isinstance(event, _AT_THE_END) else gate.again():
            if isinstance(event, BeforeToolCallEvent):
                return await self._before_call(in_turn, event, gate), []
            return await self._until_answered(in_turn, event, None), []

    async def _before_call(self, in_turn: InTurn, event: Any, gate: Permit) -> Any:
        call = in_turn.begin_call(event.agent, event.tool_use)
        call.lend(event.agent)
        try:
            event = await self._until_answered(in_turn, event, call)
        finally:
            call.take_back(event.agent)
        call.allowed |= gate.asked
        return event

    async def _until_answered(self, in_turn: InTurn, event: Any, call: CallInTurn | None) -> Any:
        """The event as all callbacks left it once nothing is left to ask. ``call``: which one it is about."""
        owner: Any = getattr(event, "agent", None) or getattr(event, "source", None)
        begin, answered = dict(vars(event)), dict[str, Interrupt]()
        while True:
            event, interrupts = await super().invoke_callbacks_async(event)
            if not interrupts:
                break
            tool_use = None if call is None else begin["tool_use"]
            questions = (put_question(in_turn.turn, interrupt, tool_use) for interrupt in interrupts)
            note_answers(answered if call is None else call.answered, interrupts, await asyncio.gather(*questions))
            if call is None:
                owner._interrupt_state.interrupts.update(answered)
            else:
                call.lend(owner)
            vars(event).clear()
            vars(event).update(begin)
        for interrupt_id in answered:  # an answer is for this once, and no standing one
            owner._interrupt_state.interrupts.pop(interrupt_id, None)
        return event


def let_approve(handlers: Iterable[InterventionHandler]) -> None:
    """Make approvals of what interventions want confirmed in a turn. Nothing changes outside of turns."""
    for handler in handlers:
        if _REPLACED not in vars(handler):
            vars(handler)[_REPLACED] = _approving(handler)


def _approving(handler: InterventionHandler) -> Callable[..., Any]:
    decide = handler.before_tool_call

    @functools.wraps(decide)
    async def before_tool_call(event: BeforeToolCallEvent, **kwargs: Any) -> Any:
        in_turn = in_turn_of(event.agent)
        if in_turn is None:
            return await _awaited(decide(event, **kwargs))
        call = in_turn.current_call(event.tool_use["toolUseId"])
        asked = _of_call(handler, in_turn, call) if isinstance(handler, HumanInTheLoop) else None
        action = await _awaited((asked.before_tool_call if asked is not None else decide)(event, **kwargs))
        if not isinstance(action, Confirm) or action.response is not None or not _takes_a_yes(handler, action):
            return action  # decided; or it reads the answer itself, which is that to an interrupt then
        call.required, call.description = True, _description(handler, action, event)
        return Proceed()

    return before_tool_call


def _takes_a_yes(handler: InterventionHandler, action: Confirm) -> bool:
    evaluate: Any = action.evaluate
    if isinstance(handler, HumanInTheLoop) and getattr(evaluate, "__qualname__", "") == _INHERITED:
        evaluate = handler._evaluate  # which that one calls; one of a subclass's own is its own
    return evaluate is None or evaluate is default_evaluate


def _description(handler: InterventionHandler, action: Confirm, event: BeforeToolCallEvent) -> str | None:
    """What an approval says beside the call; of Strands' own sentence the reason alone, for the call is there."""
    if not isinstance(handler, HumanInTheLoop):
        return action.prompt or None
    name, arguments = event.tool_use["name"], json.dumps(event.tool_use["input"])
    reason = action.prompt.removeprefix(f'Approve "{name}"').removesuffix(f"?\n  Input: {arguments}")
    return reason.removeprefix(" — ") or None


def _of_call(handler: HumanInTheLoop, in_turn: InTurn, call: CallInTurn) -> HumanInTheLoop:
    """The handler for one call. What its classifier says and what its ``ask`` brings are steps, and whom a terminal
    would ask is asked by an approval. It remembers nothing: a replay has to be told the same."""
    own = copy.copy(handler)
    del vars(own)[_REPLACED]
    own._classified_tool_use_ids = set()
    if (classify := handler._classifier) is not None:

        async def classified(event: BeforeToolCallEvent, **kwargs: Any) -> ClassifierResult:
            async def body() -> dict[str, Any]:
                verdict = await _awaited(classify(event, **kwargs))
                return {"required": verdict.requires_human_in_the_loop, "reason": verdict.reason}

            verdict = await _step_once(in_turn, call, "classify", body)
            return ClassifierResult(requires_human_in_the_loop=verdict["required"], reason=verdict["reason"])

        own._classifier = classified
    if (ask := handler._ask) is not None:

        async def inquire(prompt: str, **kwargs: Any) -> Any:
            return await _step_once(in_turn, call, "inquire", lambda: _awaited(ask(prompt, **kwargs)))

        own._ask = None if _STDIO in getattr(ask, "__qualname__", "") else inquire
    return own


async def _step_once(in_turn: InTurn, call: CallInTurn, name: str, body: Callable[[], Awaitable[Any]]) -> Any:
    """The outcome of a step, also when callbacks are called again because another one has asked."""
    if name not in call.outcomes:
        call.outcomes[name] = await in_turn.turn.run_step("step", name, body, key=f"{name}:{call.call_id}")
    return call.outcomes[name]


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
