"""The OpenAI Agents SDK: its tests decide themselves, on the SDK's run states, which this adapter never lets out.

So here a call that waits goes back to the test as the SDK's own interruption. What the test then decides about it is
asked and answered in the turn, when the run goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from agents import CustomTool, HostedMCPTool, RunState
from agents.run import AgentRunner, set_default_agent_runner

from hitl.decisions import Approval
from hitl.ext.gating import ForeignCall
from hitl.ext.openai_agents import calls, hosted, local_tools, runner, seams, serving, tracing
from hitl.ext.openai_agents.memory import memory_of
from hitl.ext.turns import is_in_turn
from hitl.turn.runtime import Turn, current_turn

_approve = calls.approve
_decide = calls.decide
_made_of_turn = serving._of_turn
_forget = seams.forget_waiting


class LeftOpen(Exception):
    """The test has not decided yet."""


_said: dict[str, bool] = {}
"""By id of the call: whether the test has approved it."""


async def _asked(turn: Turn, call: ForeignCall, *, required: bool) -> Approval | None:
    if required and call.call_id not in _said:
        raise LeftOpen
    return await _approve(turn, call, required=required)


async def _decided(function_tool: Any, context_wrapper: Any, tool_call: Any) -> Any:
    try:
        return await _decide(function_tool, context_wrapper, tool_call)
    except LeftOpen:
        return seams.Evaluation("require_approval", function_tool, function_tool.on_invoke_tool, tool_call.arguments)


def _of_turn(tool: Any) -> Any:
    """A tool whose calls wait as the SDK has them wait until the test has decided."""
    if isinstance(tool, HostedMCPTool):
        return tool if tool.on_approval_request is None else _made_of_turn(tool)
    gated = _made_of_turn(tool)
    if gated is tool or getattr(gated, "needs_approval", None) is None:
        return gated
    decide = gated.on_approval
    needs = gated.runtime_needs_approval() if isinstance(gated, CustomTool) else gated.needs_approval

    async def needs_approval(context: Any, asked: Any, call_id: str) -> bool:
        try:
            required: bool = await needs(context, asked, call_id)
        except LeftOpen:
            return True
        return required

    async def on_approval(context: Any, item: Any) -> Any:
        is_open = tool.on_approval is None and item.call_id not in _said
        return {} if is_open else await decide(context, item)

    gated.needs_approval, gated.on_approval = needs_approval, on_approval  # it is a copy already
    if isinstance(gated, CustomTool):
        vars(gated)["runtime_needs_approval"] = lambda: needs_approval
    return gated


class TestRunner(runner.TurnAgentRunner):
    """Runs that come back to the test where somebody has to decide."""

    __test__ = False

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        if is_in_turn():
            memory_of(current_turn()).stream = False  # scripted models say all they have to say at once
            if isinstance(input, RunState):
                await _ask_decided(input)
        return await super().run(starting_agent, input, **options)

    async def _run_decided(self, turn: Turn, agent: Any, input: Any, options: dict[str, Any]) -> Any:
        return await self._runner.run(agent, input, **options)


async def _ask_decided(state: Any) -> None:
    """Ask about what the test has decided since the run came back, and let its own words be the answer."""
    turn = current_turn()
    for item in state.get_interruptions():
        status = state._context.get_approval_status(item.tool_name or "", item.call_id or "", existing_pending=item)
        call_id = runner._id_of(item)
        if status is None or runner._tool_of(item) is None or call_id in _said:
            continue
        _said[call_id] = status
        try:
            given = await runner._ask(turn, item, binds_id=item.agent is state._current_agent, is_shown=True)
        except runner.REFUSALS:
            continue
        memory_of(turn).given[runner._call_of(item)] = given


def _forget_waiting(context: Any) -> None:
    """What waits in an agent as a tool goes back to the test with it, and is not forgotten before that has decided."""
    nested = seams._nested(context.tool_call, scope_id=seams._scope_of(context))
    if all(runner._id_of(item) in _said for item in getattr(nested, "interruptions", ())):
        _forget(context)


@contextlib.contextmanager
def person() -> Iterator[Callable[[Any], Any]]:
    """Whoever answers what a turn asks: the test."""
    _said.clear()
    set_default_agent_runner(TestRunner(AgentRunner()))  # the suite's own fixtures put the SDK's back
    tracing.install()
    yield _answer


def _answer(request: Any) -> Any:
    if request["type"] == "unknown_outcome":
        return {"outcome": "not_done"}
    return {"type": "approve" if _said[request["tool_call_id"]] else "reject"}


def install() -> None:
    """Let the adapter's gate ask the test."""
    serving._of_turn = _of_turn
    for module in (calls, hosted, local_tools, runner):
        module.approve = _asked  # type: ignore[attr-defined]
    seams.forget_waiting = _forget_waiting
    seams.put_tools(_decided, calls.invoke)
