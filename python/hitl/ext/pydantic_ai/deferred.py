"""Calls that pydantic-ai has collected all the same: what people and rules say of them is said before anybody else is
asked, and nobody else is.

The framework asks its capabilities one after the other, from the outermost on, and what one has decided no other sees.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied

from hitl.ext.arguments import JudgedArguments
from hitl.ext.pydantic_ai.gate import approved_calls, ask_about, denial, put_question, shown_unread


class AskedFirst(AbstractCapability[Any]):
    """Of every run in a turn: decides about all calls that were collected, so that a handler of the agent's own, which
    may approve whatever it is asked about, is asked about none."""

    def get_ordering(self) -> CapabilityOrdering:
        """Outside of all others, also of those that are outermost."""
        return CapabilityOrdering(position="outermost", wraps=(AbstractCapability,))

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """What people and rules say to them."""
        return await decided(ctx, requests)


class GivenArguments(dict[str, Any]):
    """Arguments that a person gave in the place of the model's."""


async def decided(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
    """What becomes of calls that were collected: those that were refused, and those that a validator of arguments or a
    hook puts off, before there is anything to run."""
    waits_for = [_approval(ctx, call, requests.metadata.get(call.tool_call_id)) for call in requests.approvals]
    asks = [_answer(ctx, call, requests) for call in requests.calls]
    approvals, answers = await asyncio.gather(asyncio.gather(*waits_for), asyncio.gather(*asks))
    results = DeferredToolResults()
    for call, approval in zip(requests.approvals, approvals, strict=True):
        if isinstance(approval, ToolApproved | ToolDenied):
            results.approvals[call.tool_call_id] = approval
        else:
            results.approvals[call.tool_call_id] = ToolDenied(str(approval))
    results.calls.update(zip((call.tool_call_id for call in requests.calls), answers, strict=True))
    return results


async def _answer(ctx: RunContext[Any], call: ToolCallPart, requests: DeferredToolRequests) -> Any:
    call_id = call.tool_call_id
    said, kind = requests.metadata.get(call_id), requests.kind(call_id)
    try:
        return await put_question(ctx.tools[call.tool_name], call.args_as_dict(), call_id, said, kind)
    except ToolFailed as failed:
        return failed


async def _approval(
    ctx: RunContext[Any], call: ToolCallPart, metadata: dict[str, Any] | None
) -> ToolApproved | ToolDenied | Any:
    if (refused := denial(metadata)) is not None:
        return ToolDenied(refused)
    try:
        tool = ctx.tool_manager.tools[call.tool_name] if ctx.tool_manager and ctx.tool_manager.tools else None
        shown = JudgedArguments(call.args_as_dict(), False) if tool is None else shown_unread(tool, call, ctx)
        given = await ask_about(
            ctx.tools[call.tool_name], shown.arguments, call.tool_call_id, True, metadata, is_run=shown.is_run
        )
    except ApprovalRequired as no:
        return ToolDenied(denial(no.metadata) or "")
    if given is not None and given.responded:
        return given.response
    approved_calls().add((ctx.run_id, call.tool_call_id))
    return ToolApproved(override_args=GivenArguments(given.args) if given is not None and given.edited else None)
