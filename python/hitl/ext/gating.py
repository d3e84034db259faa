"""Asking before a call of another framework's tool: the rules and grants, the interrupt and the answers of our own."""

from __future__ import annotations

import json
import sys
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NoReturn, TypeAlias, TypedDict

from hitl import _core
from hitl.decisions import DECISIONS, Approval, DecisionKind, read_allowed_decisions, read_approvers
from hitl.errors import InterruptExpired, InvalidPayload, PayloadTooLarge, ToolRejected
from hitl.ext.arguments import beyond_json, misfit, usable, with_defaults
from hitl.journal.account import fits_step
from hitl.tools.asking import INTERRUPT_TYPE, ApprovalMismatch, Question, ask, ask_binding_id, offered_schema
from hitl.turn.interrupts import seconds
from hitl.turn.runtime import Turn

REFUSALS: Final = (ToolRejected, InterruptExpired, InvalidPayload)
"""Why a call is not made, in words for the model; the last of arguments that nobody can be shown."""

Refusal: TypeAlias = ToolRejected | InterruptExpired | InvalidPayload


class GateOptions(TypedDict, total=False):
    """What a tool may say about its approval where its framework has no words for it: ``metadata={"hitl": {...}}``."""

    description: str
    allowed_decisions: Iterable[DecisionKind]
    approvers: Iterable[str]
    expires_in: float | timedelta
    source: str
    metadata: Mapping[str, Any]


def check_options(where: str, said: object, *more: str) -> Mapping[str, Any]:
    """``said``, where it names options only, or one of ``more``: one that is written otherwise would be left out, and
    everybody might approve what a few may. TypeError, which names ``where`` it stands."""
    if not isinstance(said, Mapping):
        raise TypeError(f"{where}: the options are a dict, got {type(said).__name__}")
    known = (*GateOptions.__annotations__, *more)
    for name in said:
        if name not in known:
            raise TypeError(f"{where}: there is no option {name!r}, there are {', '.join(known)}")
    return said


def read_approvals(approvals: Mapping[str, GateOptions] | None) -> dict[str, GateOptions]:
    """What ``as_agent(approvals=)`` says, by tool. TypeError or ValueError where that cannot be meant."""
    if not isinstance(approvals or {}, Mapping):
        raise TypeError(f"approvals= is a dict of options by tool, got {type(approvals).__name__}")
    made: dict[str, GateOptions] = {}
    for tool, options in (approvals or {}).items():
        where = f"approvals= of {tool}"
        check_options(where, options)
        read = GateOptions(**options)
        if "allowed_decisions" in options:
            if options["allowed_decisions"] is None:
                raise TypeError(f"{where}: allowed_decisions takes a list of {', '.join(DECISIONS)}, got None")
            read["allowed_decisions"] = read_allowed_decisions(options["allowed_decisions"])
        if (approvers := read.pop("approvers", None)) is not None:
            # Kept as it was read: of a generator nothing would be left, and everybody might approve.
            read["approvers"] = read_approvers(approvers)
        seconds(f"{where}:", options.get("expires_in"))
        made[tool] = read
    return made


@dataclass(frozen=True)
class ForeignCall:
    """A call that a model wants made."""

    tool_name: str
    arguments: dict[str, Any]
    """As the model wrote them, as JSON; people and rules see them with the defaults of their schema."""
    call_id: str
    args_schema: Mapping[str, Any] | None = None
    """What edited arguments have to fit; without it nobody is offered an edit."""
    source: str | None = None
    options: GateOptions | None = None
    metadata: dict[str, Any] | None = None
    doubt: str | None = None
    """Why nobody can be asked about it, in words for the model; it does not run where anybody has a say."""
    is_run: bool = True
    """Whether the arguments say what would run. Where they do not, and there are rules, a person is asked."""
    binds_id: bool = True
    """Whether its id stands for it alone in the run that asks; not where another run has given it that."""
    conversation: Hashable = None
    """Whose call it is among runs in one step, each of which has ids of its own."""

    @property
    def step_key(self) -> str:
        """By which the step is named that makes the call."""
        return f"tool:{self.call_id}"

    @property
    def question_key(self) -> str:
        """By which the question is named whether it may be made."""
        return f"approval:{self.call_id}"

    @property
    def refusal_key(self) -> str:
        """By which it is named in the journal that its arguments did not fit."""
        return f"arguments:{self.call_id}"

    @property
    def keys(self) -> tuple[str, str, str]:
        """All of them, as ``Turn.has_rules_for`` takes them."""
        return self.question_key, self.step_key, self.refusal_key


async def approve(turn: Turn, call: ForeignCall, *, required: bool) -> Approval | None:
    """What people, rules and grants say about a call; None for one that needs no approval and that no rule is about.

    Raises one of ``REFUSALS``, ``InvalidPayload`` for arguments that are too large to be shown, and ``InvalidAnswer``.
    """
    if not required and not turn.may_have_rules:
        return None
    if (doubt := _doubt(turn, call)) is not None:
        if required or turn.has_rules_for(call.tool_name, {}, *call.keys):
            await _refuse(turn, call, doubt)
        return None
    schema = usable(call.args_schema)
    if schema is not None:
        call = replace(call, arguments=with_defaults(schema, call.arguments))
    has_rules = turn.has_rules_for(call.tool_name, call.arguments, *call.keys)
    if not required and not has_rules:
        return None
    if has_rules and schema is not None:
        await _check_fit(turn, call, schema)
    is_run = call.is_run and (schema is not None or call.args_schema is None)
    required = required or (has_rules and not is_run)
    if required:
        checked_payload(turn, {"type": INTERRUPT_TYPE, "tool_name": call.tool_name, "tool_args": call.arguments})
    offered = offered_schema(turn, call.tool_name, schema)
    options = call.options or {}
    allowed = read_allowed_decisions(options.get("allowed_decisions", DECISIONS))
    question = Question(
        tool_name=call.tool_name,
        arguments=call.arguments,
        allowed=tuple(kind for kind in allowed if kind != "edit" or offered is not None) or ("reject",),
        approvers=read_approvers(options.get("approvers")),
        description=options.get("description"),
        args_schema=offered,
        tool_call_id=call.call_id,
        source=_text(call, "source", options.get("source")) or call.source,
        required=required,
        is_run=is_run,
        key=call.question_key,
        expires_in=seconds(f"the approval of {call.tool_name}:", options.get("expires_in")),
        metadata=_metadata(call, options.get("metadata")),
        conversation=call.conversation,
    )
    try:
        decision = await (ask_binding_id if call.binds_id else ask)(turn, question)
    except ApprovalMismatch as mismatch:
        raise ToolRejected(str(mismatch)) from mismatch  # the model has used an id again: it is told
    if decision["type"] == "respond":
        return Approval(call.arguments, responded=True, response=decision["message"])
    if decision["type"] == "edit":
        return Approval(decision["args"], edited=True)
    return Approval(call.arguments) if required or decision.get("by") == "person" else None


def checked_payload(turn: Turn, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what people are to be shown. PayloadTooLarge where that is more than anybody can be, and InvalidPayload
    where it is no JSON."""
    try:
        checked: dict[str, Any] = json.loads(_core.check_payload(payload, sys.maxsize))
    except (TypeError, ValueError) as error:
        raise InvalidPayload(str(error)) from error
    try:
        _core.check_payload(payload, turn.max_payload)
    except ValueError as error:
        raise PayloadTooLarge(str(error)) from error
    return checked


def _doubt(turn: Turn, call: ForeignCall) -> str | None:
    """Why nobody can be asked about a call. One about which somebody was asked goes on, whatever is said of its tool
    since."""
    if (lacking := beyond_json(call.arguments)) is not None:
        return f"its arguments are no JSON: {lacking}"
    return None if call.doubt is None or turn.is_recorded(call.question_key) else call.doubt


async def _check_fit(turn: Turn, call: ForeignCall, schema: Mapping[str, Any]) -> None:
    """What a framework would convert first, a text ``"true"`` to a boolean, a rule may take for something else."""
    wrong = misfit(schema, call.arguments)
    if wrong is not None:
        await _refuse(turn, call, f"its arguments do not fit its schema: {wrong}")


async def _refuse(turn: Turn, call: ForeignCall, why: str) -> NoReturn:
    """A no is in the journal, for without rules there would be none: those of a replay may be others."""

    async def body() -> str:
        return f"{call.tool_name} did not run, for {why}"

    raise ToolRejected(await turn.run_step("policy", fits_step(call.tool_name), body, key=call.refusal_key))


def edit_note(arguments: Mapping[str, Any]) -> str:
    """What the model is told beside the result of a call whose arguments a person changed."""
    return _core.edited_text(arguments)


def _text(call: ForeignCall, name: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise TypeError(f"the approval of {call.tool_name}: {name} must be a text, got {type(value).__name__}")


def _metadata(call: ForeignCall, said: object) -> dict[str, Any] | None:
    """What the framework knows of the call, and what is said of its tool, as JSON."""
    if said is not None and not isinstance(said, Mapping):
        raise TypeError(f"the approval of {call.tool_name}: metadata must be a dict, got {type(said).__name__}")
    if not said:
        return call.metadata
    plain: dict[str, Any] = json.loads(_core.to_json({**(call.metadata or {}), **said}))
    return plain
