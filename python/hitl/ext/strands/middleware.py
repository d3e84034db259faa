"""An agent's middleware in a turn, and ours around it and inside of it.

Strands by itself runs all calls of a reply to their end or to their question before middleware gets its answer. Here
the middleware of a call is called again as soon as what it asked about this call is answered.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from strands.interrupt import InterruptException
from strands.middleware import ExecuteToolContext, ExecuteToolStage, InvokeModelContext, InvokeModelStage
from strands.middleware._registry import MiddlewareRegistry

from hitl.ext.strands.asking import put_question
from hitl.ext.strands.steps import Next, call_tool, invoke_model
from hitl.ext.strands.turns import CallInTurn, in_turn_of, note_answers
from hitl.turn.permits import Permit, current_permit

_ASKED: Final = "v1:middleware_execute_tool:"
"""How ids of what middleware asks about a call begin."""

_END: Final = object()


class TurnMiddleware(MiddlewareRegistry):
    """The middleware of an agent, whenever it is added, between ours: innermost a person is shown what runs."""

    def __init__(self, middleware: MiddlewareRegistry) -> None:
        self.__dict__.update(vars(middleware))

    def compose(self, stage: Any, terminal: Next) -> Next:
        if stage is InvokeModelStage:
            return _around(stage, _before_model, super().compose(stage, _around(stage, invoke_model, terminal)))
        if stage is ExecuteToolStage:
            return _around(stage, _until_answered, super().compose(stage, _around(stage, call_tool, terminal)))
        return super().compose(stage, terminal)


def _around(stage: Any, handler: Any, inner: Next) -> Next:
    """What calls ``handler`` with ``inner``, as Strands does it."""
    alone = MiddlewareRegistry()
    alone.add_middleware(stage, handler)
    return alone.compose(stage, inner)


def _before_model(context: InvokeModelContext, next_fn: Next) -> AsyncGenerator[Any, None]:
    """The request, with all middleware around it, which stands in its way."""
    return _behind(Permit(), next_fn(context))


async def _behind(gate: Permit, pieces: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """What stands before something stands there while a piece is made, and not where whoever takes it goes on."""
    while True:
        with gate.again():
            event = await anext(pieces, _END)
        if event is _END:
            return
        yield event


async def _until_answered(context: ExecuteToolContext, next_fn: Next) -> AsyncGenerator[Any, None]:
    """The call, with all middleware around it, once nothing is left that middleware asks about it."""
    in_turn = in_turn_of(context.agent)
    if in_turn is None:
        async for event in next_fn(context):
            yield event
        return
    call = in_turn.current_call(context.tool_use["toolUseId"])
    gate = call.gate = Permit()
    call.around = current_permit()
    while True:
        try:
            async with aclosing(_behind(gate, next_fn(_with_answers(context, call)))) as events:
                async for event in events:
                    yield event
            return
        except InterruptException as asked:
            if not asked.interrupt.id.startswith(_ASKED):
                raise
            with in_turn.speaking(), gate.again():
                answer = await put_question(in_turn.turn, asked.interrupt, None)
            note_answers(call.answered_around, [asked.interrupt], [answer])


def _with_answers(context: ExecuteToolContext, call: CallInTurn) -> ExecuteToolContext:
    """The context, whose ``interrupt`` returns the answers that are this call's, and none of another with its id."""
    state = copy.copy(context._interrupt_state)
    state.interrupts = dict(call.answered_around)
    return replace(context, _interrupt_state=state)
