"""Asking before a call of another framework's tool: the rules and grants, the interrupt and the answers of our own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict

from hitl import _core
from hitl.decisions import DECISIONS, Approval, DecisionKind, read_allowed_decisions, read_approvers
from hitl.errors import ToolRejected
from hitl.tools.asking import ApprovalMismatch, Question, ask_holding_id
from hitl.tools.schema import dotted
from hitl.turn.interrupts import seconds
from hitl.turn.runtime import Turn


class GateOptions(TypedDict, total=False):
    """What a tool may say about its approval where its framework has no words for it: ``metadata={"hitl": {...}}``."""

    description: str
    allowed_decisions: Iterable[DecisionKind]
    approvers: Iterable[str]
    expires_in: float | timedelta
    source: str
    metadata: Mapping[str, Any]


class JudgedArguments(NamedTuple):
    """The arguments of a call as JSON that its tool's schema describes, for people and rules."""

    arguments: dict[str, Any]
    is_run: bool
    """Whether they say what would run: of ``"true"`` for a boolean a rule would not tell that it is one."""


@dataclass(frozen=True)
class ForeignCall:
    """A call that a model wants made."""

    tool_name: str
    arguments: dict[str, Any]
    """As JSON: what a person is shown."""
    call_id: str
    args_schema: Mapping[str, Any] | None = None
    """What edited arguments have to fit; without it nobody is offered an edit."""
    source: str | None = None
    options: GateOptions | None = None
    metadata: dict[str, Any] | None = None
    converts: bool = False
    """Whether its framework makes arguments fit the schema where it can, a text ``"true"`` a boolean, and fills in
    what was left out: a rule must not be judged by what does not run."""

    is_run: bool = True
    """Whether the arguments say what would run. Where they do not, and there are rules, a person is asked."""

    @property
    def step_key(self) -> str:
        """By which the step is named that makes the call."""
        return f"tool:{self.call_id}"

    @property
    def question_key(self) -> str:
        """By which the question is named whether it may be made."""
        return f"approval:{self.call_id}"


async def approve(turn: Turn, call: ForeignCall, *, required: bool) -> Approval | None:
    """What people, rules and grants say about a call; None for one that needs no approval and that no rule is about.

    Raises ``ToolRejected``, ``InterruptExpired``, ``InvalidAnswer``, and ``InvalidPayload`` for arguments that are too
    large to be shown.
    """
    if call.converts:
        call = replace(call, arguments=_with_defaults(call))
    has_rules = turn.has_rules_for(call.tool_name, call.arguments, call.question_key, call.step_key)
    required = required or (has_rules and not call.is_run)
    if not required and not has_rules:
        return None
    options = call.options or {}
    schema = _usable(call.args_schema)
    if call.converts and has_rules and schema is not None:
        _check_fit(call, schema)
    allowed = read_allowed_decisions(options.get("allowed_decisions", DECISIONS))
    question = Question(
        tool_name=call.tool_name,
        arguments=call.arguments,
        allowed=tuple(kind for kind in allowed if kind != "edit" or schema is not None) or ("reject",),
        approvers=read_approvers(options.get("approvers")),
        description=options.get("description"),
        args_schema=schema,
        tool_call_id=call.call_id,
        source=_text(call, "source", options.get("source")) or call.source,
        required=required,
        key=call.question_key,
        expires_in=seconds(f"the approval of {call.tool_name}:", options.get("expires_in")),
        metadata=_metadata(call, options.get("metadata")),
    )
    try:
        decision = await ask_holding_id(turn, question)
    except ApprovalMismatch as mismatch:
        raise ToolRejected(str(mismatch)) from mismatch  # the model has used an id again: it is told
    if decision["type"] == "respond":
        return Approval(call.arguments, responded=True, response=decision["message"])
    if decision["type"] == "edit":
        return Approval(decision["args"], edited=True)
    return Approval(call.arguments) if required or decision.get("by") == "person" else None


def _with_defaults(call: ForeignCall) -> dict[str, Any]:
    properties = (call.args_schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return call.arguments
    left_out = {name: said for name, said in properties.items() if name not in call.arguments}
    return {
        **call.arguments,
        **{name: said["default"] for name, said in left_out.items() if isinstance(said, Mapping) and "default" in said},
    }


def _check_fit(call: ForeignCall, schema: dict[str, Any]) -> None:
    if wrong := _core.validate(schema, call.arguments):
        said = "; ".join(f"{dotted(item['loc'])}: {item['msg']}" for item in wrong)
        raise ToolRejected(f"{call.tool_name} did not run, for its arguments do not fit its schema: {said}")


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


def _usable(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A framework's schema where arguments can be checked against it: one that refers to elsewhere is no such."""
    if schema is None:
        return None
    try:
        _core.check_response_schema(dict(schema))
    except (TypeError, ValueError):
        return None
    return dict(schema)
