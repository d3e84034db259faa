"""Asking for approval: the one question behind gated tools and `hitl.approval`, and how its answer is read.

What cannot be read is never a yes.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hitl import _core
from hitl.decisions import DECISIONS, DecisionKind
from hitl.errors import HitlError, InvalidAnswer, ToolRejected
from hitl.journal.ports import ApprovalMembers
from hitl.tools.refused_edits import goes_new_way
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn, agent_place

logger = logging.getLogger("hitl.approvals")

INTERRUPT_TYPE = "tool_approval"


class ApprovalMismatch(HitlError):
    """What is about to run is not what a person approved. Nothing ran."""

    code = "approval_mismatch"


@dataclass(frozen=True)
class Question:
    """May this call run?"""

    tool_name: str
    arguments: dict[str, Any]
    """Final, as JSON: what would run."""

    allowed: tuple[DecisionKind, ...]
    description: str | None = None
    args_schema: dict[str, Any] | None = None
    tool_call_id: str | None = None
    source: str | None = None
    """Where the tool is from, when it is not this program's own: decisions that hold for longer stay within it."""

    approvers: tuple[str, ...] = ()
    """Who alone may answer."""

    required: bool = True
    """Whether the call needs approval by itself; else only the rules are asked."""

    is_run: bool = True
    """Whether the arguments say what would run. Where not, no rule and no grant lets it run while there are rules."""

    proposed: dict[str, Any] | None = None
    """What code decided already, where it did."""

    key: str | None = None
    expires_in: float | None = None
    location: str | None = None
    agent: str | None = None
    """Whose call it is, where it is not the agent's that works here."""

    metadata: dict[str, Any] | None = None
    """JSON, kept with the interrupt."""

    conversation: Hashable = None
    """Whose call it is among conversations in one step, each of which has ids of its own."""


def offered_schema(turn: Turn, tool_name: str, schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema of a tool's arguments where edits can be offered: None for one that is too large to be shown."""
    if schema is None:
        return None
    size = len(_core.to_json(schema).encode())
    if size <= turn.max_schema:
        return schema
    _say_too_large(tool_name, size, turn.max_schema)
    return None


@cache
def _say_too_large(tool_name: str, size: int, limit: int) -> None:
    """Once, however often the tool is called."""
    logger.warning(
        "arguments of tool %s cannot be edited, its schema is %d bytes of JSON, the limit is %d", tool_name, size, limit
    )


async def ask(turn: Turn, question: Question) -> dict[str, Any]:
    """The decision, in normal form (`_core.read_decision`); a rejection is raised as `ToolRejected`.

    An answer that was offered when it was asked, and that the code has stopped to allow since, is asked for once more.

    Also raises `InterruptExpired`, and `InvalidPayload` for arguments that are too large to be shown.
    """
    try:
        return await _ask(turn, question)
    except _NotAllowed as refused:
        if not await _is_withdrawn(turn, question):
            return _accepted(turn, question, refused.decision)
        words = f"To {refused.decision['type']} is not allowed any more: please decide again."
        told = words if question.description is None else f"{words} {question.description}"
        again = replace(question, description=told, required=True, proposed=None)
    try:
        return await _ask(turn, again)
    except _NotAllowed as refused:
        raise InvalidAnswer(str(refused)) from refused


async def ask_binding_id(turn: Turn, question: Question) -> dict[str, Any]:
    """As `ask`. A call that needs approval has its id for itself while it is open, and once it may run.

    Also raises `ApprovalMismatch`.
    """
    tool_call_id = question.tool_call_id if question.required else None
    conversation = question.conversation if await _is_apart(turn, question, tool_call_id) else None
    with binding_call_id(turn, tool_call_id, question.tool_name, question.arguments, conversation) as keep:
        decision = await ask(turn, question)
        if decision["type"] in ("approve", "edit"):
            keep()
    return decision


async def _is_apart(turn: Turn, question: Question, tool_call_id: str | None) -> bool:
    """Whether a call's conversation has ids of its own. Not where an older version has refused the call: to that all
    conversations in one step were one."""
    known = turn.approved_calls.get((_place(), None, tool_call_id))
    if question.conversation is None or known in (None, _call(question.tool_name, question.arguments)):
        return True

    async def body() -> bool:
        return True

    name, key = f"{question.tool_name}.tool_call_id", f"of another conversation:{tool_call_id}"
    apart: bool = await turn.run_step("policy", name, body, key=key, past=False, is_edit=True, by_any_code=True)
    return apart


class _NotAllowed(Exception):
    """A decision that can be read, of a kind that the question does not allow."""

    def __init__(self, text: str, decision: dict[str, Any]) -> None:
        super().__init__(text)
        self.decision = decision


async def _is_withdrawn(turn: Turn, question: Question) -> bool:
    """Whether a decision that the code does not allow any more is refused; not where the turn has gone on with it. What
    is in the journal behind it may be of other calls: an answer to one of them, that came just after it."""

    name = f"{question.tool_name}.allowed_decisions"
    return await goes_new_way(turn, name, f"not allowed any more:{question.tool_call_id or question.tool_name}")


async def _ask(turn: Turn, question: Question) -> dict[str, Any]:
    """As `ask`, once; also raises `_NotAllowed`."""
    payload = {"type": INTERRUPT_TYPE, "tool_name": question.tool_name, "tool_args": question.arguments}
    # Too large, or no JSON after all: raises here, and the model is told; nothing was asked and nothing runs. What a
    # rule alone decides about nobody has to look at, and it may be of any size.
    checked: dict[str, Any] = json.loads(
        _core.check_payload(payload, turn.max_payload if question.required else sys.maxsize)
    )
    digest = _core.digest(checked["tool_args"])
    allowed: list[str] = list(question.allowed)
    members: ApprovalMembers = {
        "required": question.required,
        "proposed": question.proposed,
        "args_schema": question.args_schema if "edit" in allowed else None,
        "tool_source": _source(question),
    }
    if not question.is_run:
        members["is_run"] = False
    if question.approvers:
        members["approvers"] = list(question.approvers)
    answer = await turn.ask(
        INTERRUPT_TYPE,
        checked,
        message=question.description,
        allowed_decisions=allowed,
        tool_call_id=question.tool_call_id,
        args_digest=digest,
        expires_in=question.expires_in,
        key=question.key,
        location=question.location,
        agent=question.agent,
        metadata=question.metadata,
        approval=members,
    )
    if question.proposed is not None and question.proposed["type"] not in allowed:
        allowed.append(question.proposed["type"])  # the author's code may decide what a person is not offered
    try:
        decision: dict[str, Any] = _core.read_decision(answer, allowed, question.tool_name)
    except (TypeError, ValueError) as error:
        text = f"the answer to the approval of {question.tool_name} is no decision, so it did not run: {error}"
        if (other := _read_any(answer, question.tool_name)) is not None:
            raise _NotAllowed(text, other) from error
        raise InvalidAnswer(text) from error
    return _accepted(turn, question, decision)


def _source(question: Question) -> str | None:
    """Where the tool is from; of an agent that shares its name, which of them comes first, where rules leave it out."""
    place = agent_place.get()
    if place is None:
        return question.source
    named = f"agent:{place.replace('%', '%25').replace(' ', '%20')}"
    return named if question.source is None else f"{named} {question.source}"


def _accepted(turn: Turn, question: Question, decision: dict[str, Any]) -> dict[str, Any]:
    if decision["type"] == "reject":
        raise rejection(turn, question.tool_name, question.arguments, decision)
    return decision


def _read_any(answer: Any, tool_name: str) -> dict[str, Any] | None:
    """A decision of whatever kind; None for what is none."""
    try:
        decision: dict[str, Any] = _core.read_decision(answer, list(DECISIONS), tool_name)
    except (TypeError, ValueError):
        return None
    return decision


def rejection(turn: Turn, tool_name: str, arguments: dict[str, Any], decision: dict[str, Any]) -> ToolRejected:
    """A no as an error whose text is what the model gets: the person's message, else the run's formatter's text."""
    reason = decision["reason"]
    if decision["message"] is not None:
        return ToolRejected(decision["message"], reason)
    built_in = ToolRejected(_core.rejection_text(tool_name, reason, by=decision["by"]), reason)
    if turn.tool_error_formatter is None:
        return built_in
    text: Any
    try:
        text = turn.tool_error_formatter(tool_name, json.loads(json.dumps(arguments)), built_in)
    except Exception as error:  # noqa: BLE001  (the no stands, whatever becomes of its wording)
        logger.warning("tool_error_formatter raised %s for %s", type(error).__name__, tool_name)
        return built_in
    if not isinstance(text, str):
        logger.warning("tool_error_formatter returned a %s for %s", type(text).__name__, tool_name)
        return built_in
    return ToolRejected(text, reason)


@contextmanager
def binding_call_id(
    turn: Turn, tool_call_id: str | None, tool_name: str, arguments: dict[str, Any], conversation: Hashable = None
) -> Iterator[Callable[[], None]]:
    """While a call is asked about, its id stands for it alone in its conversation; from then on too, where it was
    approved: then call what this gives.

    Raises `ApprovalMismatch` for an id that stands for another call already.
    """
    bound, kept = _bind_call_id(turn, tool_call_id, tool_name, arguments, conversation), False

    def keep() -> None:
        nonlocal kept
        kept = True

    try:
        yield keep
    finally:
        if not kept:
            for each in bound:
                turn.approved_calls.pop(each, None)


def _bind_call_id(
    turn: Turn, tool_call_id: str | None, tool_name: str, arguments: dict[str, Any], conversation: Hashable
) -> list[tuple[str, Hashable, str]]:
    """By what the call is found that the id stands for, as far as that is this call's to take back."""
    if tool_call_id is None:
        return []
    place, call = _place(), _call(tool_name, arguments)
    if turn.approved_calls.get((place, conversation, tool_call_id), call) != call:
        raise ApprovalMismatch(
            f"the call id {tool_call_id!r} stands for an approved call with other arguments, "
            f"so this call of {tool_name} did not run"
        )
    # Also for all conversations in this step: see `_is_apart`. The same call once more is asked for again, and the id
    # stays the earlier one's.
    both = dict.fromkeys([(place, conversation, tool_call_id), (place, None, tool_call_id)])
    bound = [each for each in both if each not in turn.approved_calls]
    turn.approved_calls.update(dict.fromkeys(bound, call))
    return bound


def _place() -> str:
    """The path of the step that this context is in; empty outside of steps."""
    place = place_var.get()
    return place.step.path if place is not None and place.step is not None else ""


def _call(tool_name: str, arguments: dict[str, Any]) -> str:
    return f"{tool_name} {_core.digest(arguments)}"
