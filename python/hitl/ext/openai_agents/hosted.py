"""Calls that are made by whoever runs the model, of tools of MCP servers: a person is asked as soon as the model has
asked for them, whatever else the reply wants called."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from agents import HostedMCPTool, ModelResponse, Tool
from agents.tool import MCPToolApprovalRequest

from hitl.decisions import DecisionKind
from hitl.ext.gating import REFUSALS, ForeignCall, approve
from hitl.ext.openai_agents.calls import read_arguments
from hitl.ext.openai_agents.memory import call_place, memory_of, run_var
from hitl.turn.permits import permit
from hitl.turn.runtime import Turn, agent_name, current_turn

_REQUEST = "mcp_approval_request"
_ALLOWED: tuple[DecisionKind, ...] = ("approve", "reject")


def gated(tool: HostedMCPTool) -> HostedMCPTool:
    """The tool, of whose calls the turn decides. A function of the program's that does is asked once, about what the
    rules let through."""
    gate: Any = _Gate(tool)
    return replace(tool, on_approval_request=gate)


class _Gate:
    """Says of a call what was decided."""

    def __init__(self, tool: HostedMCPTool) -> None:
        self.tool = tool

    async def __call__(self, request: MCPToolApprovalRequest) -> dict[str, Any]:
        turn, item = current_turn(), request.data
        decided = self.tool.on_approval_request
        verdict = await _question(turn, item, agent_name.get() or "agent", required=decided is None)
        if decided is None or not verdict["approve"]:
            return verdict

        async def body() -> dict[str, Any]:
            made = decided(request)
            return dict(made if not asyncio.iscoroutine(made) else await made)  # type: ignore[arg-type]

        with permit():
            said: dict[str, Any] = await turn.run_step(
                "policy", f"{item.name}.on_approval_request", body, key=f"on_approval_request:{item.id}"
            )
        return said


def ask_at_once(turn: Turn, agent: str, response: ModelResponse, tools: list[Tool]) -> None:
    """Ask about the calls in a reply that a person has to decide."""
    gates: dict[Any, Any] = {
        tool.tool_config.get("server_label"): tool.on_approval_request
        for tool in tools
        if isinstance(tool, HostedMCPTool)
    }
    for item in response.output:
        if getattr(item, "type", None) == _REQUEST:
            gate = gates.get(getattr(item, "server_label", None))
            if isinstance(gate, _Gate) and gate.tool.on_approval_request is None:
                _question(turn, item, agent, required=True)


def _question(turn: Turn, item: Any, agent: str, *, required: bool) -> asyncio.Task[dict[str, Any]]:
    asked = memory_of(turn).asked
    call = (*call_place(item.id), item.server_label, item.name, item.arguments)
    if call not in asked:
        asked[call] = asyncio.create_task(_ask(turn, item, agent, required))
    return asked[call]


async def _ask(turn: Turn, item: Any, agent: str, required: bool) -> dict[str, Any]:
    agent_name.set(agent)
    arguments = read_arguments(item.arguments)
    call = ForeignCall(
        tool_name=item.name,
        arguments={"arguments": item.arguments} if arguments is None else arguments,
        call_id=item.id,
        source=f"mcp:{item.server_label}",
        # It runs elsewhere, with the arguments that the model wrote.
        options={"allowed_decisions": _ALLOWED},
        conversation=run_var.get(),
    )
    try:
        await approve(turn, call, required=required)
    except REFUSALS as no:
        return {"approve": False, "reason": str(no)}
    return {"approve": True}
