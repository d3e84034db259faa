"""Calls that pydantic-ai has collected all the same: what people and rules say of them is said before anybody else is
asked, and nobody else is.

The framework asks its capabilities one after the other, from the outermost on, and what one has decided no other sees.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied

from hitl.ext.arguments import JudgedArguments
from hitl.ext.pydantic_ai.gate import (
    approved_calls,
    ask_until_read,
    denial,
    only_types_refused,
    put_question,
    read_types,
    reads_at_once,
    shown_unread,
)


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

    def __init__(self, given: dict[str, Any], read: dict[str, Any] | None, *, is_tried: bool = False) -> None:
        super().__init__(given)
        self.read = read
        """What the framework has made of them, where it has: its types, validators and hooks, without what the wrapping
        hooks of other capabilities make of that, which are around it each time it is asked for."""
        self.is_tried = is_tried
        """Whether it is only to be seen if they fit; where not, somebody is asked once more."""


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
    manager = ctx.tool_manager
    tool = manager.tools[call.tool_name] if manager and manager.tools else None
    try:
        shown = JudgedArguments(call.args_as_dict(), False) if tool is None else shown_unread(tool, call, ctx)
        given = await ask_until_read(
            ctx.tools[call.tool_name], shown, call.tool_call_id, True, metadata, partial(_read, ctx, call)
        )
    except ApprovalRequired as no:
        return ToolDenied(denial(no.metadata) or "")
    approval = given.approval
    if approval is not None and approval.responded:
        return approval.response
    approved_calls().add((ctx.run_id, call.tool_call_id))
    if approval is None or not approval.edited:
        return ToolApproved()
    return ToolApproved(override_args=GivenArguments(approval.args, given.read))


async def _read(
    ctx: RunContext[Any], call: ToolCallPart, given: dict[str, Any], was_refused: bool
) -> dict[str, Any] | None:
    """What the framework makes of a person's arguments; None where that is still to be seen. Raises ValidationError
    and ModelRetry."""
    if ctx.tool_manager is None or not ctx.tool_manager.tools:
        return None
    if not await reads_at_once(call.tool_name, call.tool_call_id):
        return None
    tool = ctx.tool_manager.tools.get(call.tool_name)
    if (
        was_refused
        and tool is not None
        and tool.args_validator_func is not None
        and only_types_refused(call.tool_call_id)
    ):
        return read_types(tool, given, ctx)
    tried = GivenArguments(given, None, is_tried=True)
    try:
        validated = await ctx.tool_manager.validate_tool_call(
            replace(call, args=tried), approved=True, wrap_validation_errors=False
        )
    except ToolFailed:
        return None  # which it tells the model, once it comes to that by itself
    return tried.read if validated.deferral is None else None
