"""What is decided about a tool call, in Python's words: `Decision`, `ApprovalRequest`, `Approval`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

DecisionKind = Literal["approve", "edit", "reject", "respond"]

DECISIONS: tuple[DecisionKind, ...] = ("approve", "edit", "reject", "respond")

_APPROVER: Final = re.compile(r"(group:)?[a-z0-9._-]{1,64}")
_MAX_APPROVERS: Final = 32


@dataclass(frozen=True)
class Decision:
    """What `on_approval` says about a call. Made by `approve`, `edit`, `reject` and `respond`.

    Example:
        def small_sums(request: ApprovalRequest) -> Decision | None:
            return Decision.approve() if 0 < request.tool_args["cents"] <= 1000 else None  # None: a person decides
    """

    type: DecisionKind
    args: dict[str, Any] | None = None
    reason: str | None = None
    message: Any = None
    always: bool = False

    @classmethod
    def approve(cls, always: bool = False) -> Decision:
        """The call runs as it is. `always`: so does every later call of this tool by this agent in the session."""
        return cls("approve", always=_flag(always))

    @classmethod
    def edit(cls, args: Mapping[str, Any]) -> Decision:
        """The call runs with these arguments, all of them, once they have been checked as the model's are."""
        if not isinstance(args, Mapping):
            raise TypeError(f"Decision.edit() takes a dict of arguments, got {args.__class__.__name__}")
        return cls("edit", args=dict(args))

    @classmethod
    def reject(cls, reason: str | None = None, message: str | None = None, always: bool = False) -> Decision:
        """The call does not run. A reason is added to the text the model gets, a message replaces it."""
        for name, text in (("reason", reason), ("message", message)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"Decision.reject() {name} must be a str or None, got {text.__class__.__name__}")
        return cls("reject", reason=reason, message=message, always=_flag(always))

    @classmethod
    def respond(cls, value: Any) -> Decision:
        """The call does not run, and `value`, any JSON, is its result."""
        return cls("respond", message=value)

    def to_json(self) -> dict[str, Any]:
        """The decision as an answer over the wire has it."""
        if self.type == "edit":
            return {"type": "edit", "args": self.args}
        if self.type == "respond":
            return {"type": "respond", "message": self.message}
        said = {name: text for name in ("reason", "message") if (text := getattr(self, name)) is not None}
        return {"type": self.type, **said, **({"always": True} if self.always else {})}


def _flag(always: object) -> bool:
    if not isinstance(always, bool):
        raise TypeError(f"always must be True or False, got {always!r}")
    return always


@dataclass(frozen=True)
class ApprovalRequest:
    """A call that needs approval, as `on_approval` sees it."""

    tool_name: str
    tool_args: dict[str, Any]
    """What would run, as JSON; a copy."""

    tool_call_id: str | None = None
    agent: str | None = None
    """Name of the agent whose model made the call."""

    context: Any = None
    """The object given to the run."""

    description: str | None = None
    """The tool's `approval_description`."""


@dataclass(frozen=True)
class Approval:
    """What `hitl.approval` returns when nobody said no."""

    args: dict[str, Any]
    """Exactly what was approved: what was asked for, or what the person made of it."""

    edited: bool = False
    """Whether the person gave other arguments."""

    responded: bool = False
    """Whether the person answered in the tool's place: nothing is to run, `response` is the result."""

    response: Any = None


def read_allowed_decisions(value: Any) -> tuple[DecisionKind, ...]:
    """Kinds of decisions, each once; `ValueError` for an unknown one and for none."""
    kinds = (value,) if isinstance(value, str) else tuple(value)
    unknown = [kind for kind in kinds if kind not in DECISIONS]
    if unknown or not kinds:
        raise ValueError(f"allowed_decisions takes {', '.join(DECISIONS)}; got {unknown or 'nothing'}")
    return tuple(dict.fromkeys(kinds))


def read_approvers(value: Any) -> tuple[str, ...]:
    """Names of keys and `group:<name>`, each once, none for None; `ValueError` for what no key and no group can be
    named, and for a list that is there and empty: it would mean everybody."""
    if value is None:
        return ()
    if isinstance(value, str):
        raise TypeError(f"approvers takes a list of names, got the str {value!r}")
    names = tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"approvers takes names of keys, or group:<name>, got {name!r}")
        if _APPROVER.fullmatch(name) is None:
            raise ValueError(
                f"approvers takes names of keys, or group:<name>, of a-z, 0-9, '.', '-' and '_'; got {name!r}"
            )
    if not names:
        raise ValueError("approvers names nobody\n\nhint: leave it out where whoever may answer is asked")
    if len(names) > _MAX_APPROVERS:
        raise ValueError(f"approvers takes at most {_MAX_APPROVERS} names, got {len(names)}")
    return tuple(dict.fromkeys(names))
