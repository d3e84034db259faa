"""Runs of the SDK in a turn: the one that the turn is, and those that tools and guardrails begin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from agents import Agent, RunResult, RunResultStreaming, RunState
from agents.items import ToolApprovalItem
from agents.run import AgentRunner

from hitl.decisions import Approval
from hitl.ext.gating import REFUSALS, ForeignCall, approve
from hitl.ext.openai_agents import seams
from hitl.ext.openai_agents.calls import is_run, read_arguments, source_of
from hitl.ext.openai_agents.memory import StatedCall, call_place, memory_of, name_of, run_var, speaking_var, stated_call
from hitl.ext.openai_agents.sessions import journaled
from hitl.ext.turns import is_in_thread, is_in_turn
from hitl.turn.runtime import Turn, agent_name, current_turn
from hitl.turn.steps import patched


class TurnAgentRunner(AgentRunner):
    """The SDK's runner. In a turn it returns when nothing of the run waits for a person any more."""

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """A run to its end."""
        if not is_in_turn():
            return await self._runner.run(starting_agent, input, **options)
        turn, working = current_turn(), starting_agent
        if isinstance(input, RunState):
            working = input._current_agent or starting_agent
        token, before, outer = agent_name.set(name_of(turn, working)), speaking_var.set(working), run_var.set(object())
        options = _journaled(options)
        try:
            return await self._run_decided(turn, starting_agent, input, options)
        finally:
            agent_name.reset(token)
            speaking_var.reset(before)
            run_var.reset(outer)

    async def _run_decided(self, turn: Turn, agent: Agent[Any], input: Any, options: dict[str, Any]) -> RunResult:
        """A run with the decisions about all that a state has brought along."""
        decisions = _Decisions(turn)
        waiting = input.get_interruptions() if isinstance(input, RunState) else []
        if isinstance(input, RunState) and _share_an_id(waiting):
            # First: the SDK would forget all but one of them.
            await decisions.decide(input, [each for each in waiting if seams.is_undecided(input, each)])
        result = await self._runner.run(agent, input, **options)
        while result.interruptions:
            # Left open by the SDK's own pause, as one that was brought along: it goes on with each decision.
            state = result.to_state()
            await decisions.decide(state, state.get_interruptions())
            result = await self._runner.run(agent, state, **options)
        return result

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """As the SDK has it. In a plain function of a turn, the turn's loop does it."""
        if is_in_thread():
            name = "Runner.run_sync()"
            return current_turn(name).run_sync(name, lambda: self.run(starting_agent, input, **options))
        return self._runner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:
        """A run whose events somebody reads."""
        if not is_in_turn():
            return self._runner.run_streamed(starting_agent, input, **options)
        outer = run_var.set(object())
        try:
            return self._runner.run_streamed(starting_agent, input, **_journaled(options))
        finally:
            run_var.reset(outer)


class _Decisions:
    """What is decided about the calls that a state of the SDK has brought along to one run."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._open: dict[StatedCall, asyncio.Task[Approval | None]] = {}

    async def decide(self, state: RunState[Any], waiting: list[ToolApprovalItem]) -> None:
        """Ask about these calls in a state, and return once it can go on with what was decided."""
        undecided = {_call_of(item): item for item in waiting}
        # Older versions have asked about a shell or a patch once more when a person had refused it, and shown nothing.
        is_told = all(map(_is_function, waiting)) or await patched("hitl.state_calls")
        for call, item in list(undecided.items()) if is_told else ():
            no = memory_of(self._turn).refused.pop(call_place(_id_of(item)), None)
            if no is not None:
                state.reject(undecided.pop(call), rejection_message=no)
        together = [set(map(_call_of, items)) for items in seams.waiting_in_tools(state)]
        for call, item in undecided.items():
            if call not in self._open:
                # A run in a tool of the agent has given its calls ids of its own.
                binds_id = item.agent is state._current_agent
                asking = _ask(self._turn, item, binds_id=binds_id, is_shown=is_told)
                self._open[call] = asyncio.create_task(asking)
        while undecided:
            open_ = [self._open[call] for call in undecided]
            await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
            for call in [each for each in undecided if self._open[each].done()]:
                self._take(state, undecided.pop(call), call)
            # A run in a tool goes on once all is decided that waits in it, or it would ask about the rest itself.
            begun = any(calls & undecided.keys() and not calls <= undecided.keys() for calls in together)
            if not begun and not _share_an_id(undecided.values()):
                return

    def _take(self, state: RunState[Any], item: ToolApprovalItem, call: StatedCall) -> None:
        try:
            given = self._open.pop(call).result()
        except REFUSALS as no:
            state.reject(item, rejection_message=str(no))
        else:
            memory_of(self._turn).given[call] = given
            state.approve(item)


def _share_an_id(items: Iterable[ToolApprovalItem]) -> bool:
    ids = [_id_of(item) for item in items]
    return len(set(ids)) < len(ids)


def _call_of(item: ToolApprovalItem) -> StatedCall:
    name, namespace = item.tool_name or "", _namespace_of(item)
    wanted = (item.arguments or "") if _is_function(item) else ""
    return stated_call(item.agent, _id_of(item), name if namespace is None else f"{namespace}.{name}", wanted)


def _is_function(item: ToolApprovalItem) -> bool:
    raw = item.raw_item
    return (raw.get("type") if isinstance(raw, dict) else raw.type) == "function_call"


async def _ask(turn: Turn, item: ToolApprovalItem, *, binds_id: bool, is_shown: bool) -> Approval | None:
    agent_name.set(name_of(turn, item.agent))
    arguments = _parts_of(item) if item.arguments is None and is_shown else read_arguments(item.arguments or "")
    tool = _tool_of(item)
    origin = item.tool_origin
    server = getattr(item.raw_item, "server_label", None) or (None if origin is None else origin.mcp_server_name)
    namespace = _namespace_of(item)
    options = memory_of(turn).approvals_for(item.tool_name or "", namespace)
    call = ForeignCall(
        tool_name=item.tool_name or "tool",
        arguments={"arguments": item.arguments} if arguments is None else arguments,
        call_id=_id_of(item),
        args_schema=getattr(tool, "params_json_schema", None),
        source=source_of(server, namespace),
        options=options if tool is not None else {"allowed_decisions": ("approve", "reject")},
        is_run=tool is None or arguments is None or is_run(tool, arguments),
        binds_id=binds_id,
        conversation=run_var.get(),
    )
    return await approve(turn, call, required=True)


def _parts_of(item: ToolApprovalItem) -> dict[str, Any]:
    """What a shell or a patch would run with."""
    raw: Any = item.raw_item
    call = raw if isinstance(raw, dict) else raw.model_dump(mode="json")
    if "operations" in call:
        return {"operations": call["operations"]}
    parts: dict[str, Any] = call.get("operation") or call.get("action") or {}
    return {name: value for name, value in parts.items() if value is not None}


def _tool_of(item: ToolApprovalItem) -> Any:
    """The function tool that a call is of; None for tools of other kinds, whose arguments are not ours to change."""
    functions = [tool for tool in item.agent.tools if getattr(tool, "params_json_schema", None) is not None]
    called = (item.tool_name, _namespace_of(item))
    return next((tool for tool in functions if (tool.name, seams.namespace_of(tool)) == called), None)


def _namespace_of(item: ToolApprovalItem) -> str | None:
    """The namespace of a call's tool; a tool that is in none and is loaded late is called in one of its own name."""
    return None if item.tool_namespace == item.tool_name else item.tool_namespace


def _id_of(item: ToolApprovalItem) -> str:
    return item.call_id or item.name or "call"


def _journaled(options: dict[str, Any]) -> dict[str, Any]:
    session = options.get("session")
    return options if session is None else {**options, "session": journaled(session)}
