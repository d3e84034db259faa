"""Runs of the SDK in a turn: the one that the turn is, and those that tools and guardrails begin."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, RunResult, RunResultStreaming, RunState
from agents.items import ToolApprovalItem
from agents.run import AgentRunner

from hitl.decisions import Approval
from hitl.ext.gating import ForeignCall, approve
from hitl.ext.openai_agents import seams
from hitl.ext.openai_agents.calls import REFUSALS, is_run, read_arguments, source_of
from hitl.ext.openai_agents.memory import call_place, memory_of, name_of, speaking_var
from hitl.ext.openai_agents.sessions import JournaledSession
from hitl.ext.turns import is_in_thread, is_in_turn
from hitl.turn.runtime import Turn, agent_name, current_turn


class TurnAgentRunner(AgentRunner):
    """The SDK's runner. In a turn it returns when nothing of the run waits for a person any more."""

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """A run to its end."""
        if not is_in_turn():
            return await self._runner.run(starting_agent, input, **options)
        turn = current_turn()
        working = starting_agent
        if isinstance(input, RunState):
            working = input._current_agent or starting_agent
        token, before = agent_name.set(name_of(turn, working)), speaking_var.set(working)
        try:
            result = await self._runner.run(starting_agent, input, **_journaled(options))
            if result.interruptions:
                result = await self._decided(turn, starting_agent, result, options)
        finally:
            agent_name.reset(token)
            speaking_var.reset(before)
        return result

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """As the SDK has it. In a plain function of a turn, the turn's loop does it."""
        if is_in_thread():
            name = "Runner.run_sync()"
            return current_turn(name).run_sync(name, lambda: self.run(starting_agent, input, **options))
        return self._runner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:
        """A run whose events somebody reads."""
        if is_in_turn():
            options = _journaled(options)
        return self._runner.run_streamed(starting_agent, input, **options)

    async def _decided(self, turn: Turn, agent: Agent[Any], result: RunResult, options: dict[str, Any]) -> RunResult:
        """What a run comes to that was left open by the SDK's own pause, as one that was brought along: it goes on with
        each call that is decided."""
        open_: dict[asyncio.Task[Any], str] = {}
        asked: set[str] = set()
        while result.interruptions:
            state = result.to_state()
            items = {_id_of(item): item for item in state.get_interruptions()}
            for call_id, item in items.items():
                if call_id not in asked:
                    asked.add(call_id)
                    open_[asyncio.create_task(_ask(turn, item, call_id))] = call_id
            done, _ = await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                call_id = open_.pop(task)
                found = items.get(call_id)
                if found is None:
                    continue
                try:
                    given = task.result()
                except REFUSALS as no:
                    state.reject(found, rejection_message=str(no))
                else:
                    memory_of(turn).given[call_place(call_id)] = given
                    state.approve(found)
            result = await self._runner.run(agent, state, **_journaled(options))
        return result


async def _ask(turn: Turn, item: ToolApprovalItem, call_id: str) -> Approval | None:
    agent_name.set(name_of(turn, item.agent))
    arguments = read_arguments(item.arguments or "")
    tool = _tool_of(item)
    origin = item.tool_origin
    server = getattr(item.raw_item, "server_label", None) or (None if origin is None else origin.mcp_server_name)
    namespace = _namespace_of(item)
    options = memory_of(turn).approvals_for(item.tool_name or "", namespace)
    call = ForeignCall(
        tool_name=item.tool_name or "tool",
        arguments={"arguments": item.arguments} if arguments is None else arguments,
        call_id=call_id,
        args_schema=getattr(tool, "params_json_schema", None),
        source=source_of(server, namespace),
        options=options if tool is not None else {"allowed_decisions": ("approve", "reject")},
        is_run=tool is None or arguments is None or is_run(tool, arguments),
    )
    return await approve(turn, call, required=True)


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
    if session is None or isinstance(session, JournaledSession):
        return options
    return {**options, "session": JournaledSession(session)}
