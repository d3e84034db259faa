"""Decisions in their words, and what they are in ours.

Everything is read before anything is given to the run, and what is not exactly a decision is `InvalidAnswer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from hitl.errors import InvalidAnswer


class ApprovalDecision(str, Enum):  # noqa: UP042  (their class; its members stay equal to their text)
    """What may be decided about a call."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    RESPOND = "respond"


_MEMBERS: Final = {
    ApprovalDecision.APPROVE: frozenset({"always"}),
    ApprovalDecision.EDIT: frozenset({"args", "name"}),
    ApprovalDecision.REJECT: frozenset({"reason", "message", "always"}),
    ApprovalDecision.RESPOND: frozenset({"message"}),
}


@dataclass
class Command:
    """`agent.invoke(Command(resume=...), config)`: go on with a thread that waits.

    Example:
        config = {"configurable": {"thread_id": "ann"}}
        decisions = [{"type": "approve"}, {"type": "reject", "reason": "still needed"}]
        result = await caller.ainvoke(Command(resume={"decisions": decisions}), config=config)
    """

    resume: Any
    """`{"decisions": [...]}`, one for each call that waits, in their order; `{id: ...}` by the ids of `__interrupt__`;
    or, where one question waits, its answer."""


@dataclass
class DecisionInput:
    """One decision. `args` belongs to an edit, `reason` and `message` to a rejection, `message` to a response."""

    type: str
    args: dict[str, Any] | None = None
    """All arguments of the call as it shall run."""

    reason: str | None = None
    """Added to the text that the model is told of the rejection."""

    message: Any = None
    """Of a rejection: what the model is told, in place of that text. Of a response: the result, any JSON."""

    name: str | None = None
    """Of an edit: the tool, which an edit cannot change."""

    always: bool = False
    """Of an approval or a rejection: the same for every later call of this tool by this agent in this thread."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DecisionInput:
        """Read `{"type": "approve"}`, `{"type": "edit", "args": ...}` or LangChain's `{"type": "edit",
        "edited_action": {"name", "args"}}`, `{"type": "reject", "reason"?, "message"?}`, `{"type": "respond",
        "message"}`. Members that are None count as absent, except the message of a response.

        Raises `InvalidAnswer` for anything else; there is no default decision.
        """
        if not isinstance(data, Mapping):
            raise InvalidAnswer(f"a decision is a dict with a type, got {type(data).__name__}")
        given = {name: value for name, value in data.items() if value is not None}
        kind = _kind(given.pop("type", None))
        if kind is ApprovalDecision.RESPOND and "message" in data:
            given["message"] = data["message"]
        if kind is ApprovalDecision.EDIT and "edited_action" in given:
            given |= _edited_action(given.pop("edited_action"), given)
        unknown = sorted(map(str, given.keys() - _MEMBERS[kind]))
        if unknown:
            raise InvalidAnswer(f"{', '.join(unknown)}: a decision to {kind.value} has no such member")
        if kind is ApprovalDecision.EDIT and "args" not in given:
            raise InvalidAnswer('args: an edit says the arguments, as "args" or as "edited_action"')
        if kind is ApprovalDecision.RESPOND and "message" not in given:
            raise InvalidAnswer("message: a response says what the tool's result is, null where that is it")
        return cls(kind.value, **given)

    def to_answer(self) -> dict[str, Any]:
        """The decision as hitl takes it; whether it fits the call is checked where the call is known."""
        kind = _kind(self.type)
        given = {
            name: value
            for name, value in (
                ("args", self.args),
                ("reason", self.reason),
                ("message", self.message),
                ("name", self.name),
            )
            if value is not None
        }
        if self.always is not False:
            given["always"] = self.always
        if kind is ApprovalDecision.RESPOND:
            given.setdefault("message", None)
        return {"type": kind.value, **given}


@dataclass
class ResumeData:
    """The decisions of a batch, in the order of its calls."""

    decisions: list[DecisionInput]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ResumeData:
        """Read `{"decisions": [...]}`: dicts or `DecisionInput`s. `InvalidAnswer` names the one that is none."""
        given: Any = data
        if not isinstance(given, Mapping) or given.keys() != {"decisions"} or not isinstance(given["decisions"], list):
            raise InvalidAnswer(f'tool calls are decided by {{"decisions": [...]}}, got {_excerpt(given)}')
        read = []
        for position, decision in enumerate(given["decisions"], 1):
            try:
                read.append(read_decision(decision))
            except InvalidAnswer as error:
                raise InvalidAnswer(f"decision {position}: {error}") from None
        return cls(read)

    def one_for_each(self, calls: int) -> list[DecisionInput]:
        """The decisions, when they are as many as the calls; else `InvalidAnswer`: none of them is guessed."""
        if len(self.decisions) != calls:
            given = len(self.decisions)
            raise InvalidAnswer(f"one decision for each tool call that waits: expected {calls}, got {given}")
        return self.decisions


def read_decision(given: Any) -> DecisionInput:
    """A decision as `DecisionInput`, its type one of the four."""
    if isinstance(given, DecisionInput):
        return DecisionInput.from_dict(given.to_answer())
    return DecisionInput.from_dict(given)


def _kind(given: Any) -> ApprovalDecision:
    try:
        return ApprovalDecision(given)
    except ValueError:
        known = ", ".join(kind.value for kind in ApprovalDecision)
        raise InvalidAnswer(f"type: a decision is one of {known}, got {given!r}") from None


def _edited_action(action: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    if "args" in given:
        raise InvalidAnswer("an edit says its arguments once: args or edited_action")
    if not isinstance(action, Mapping) or action.keys() != {"name", "args"}:
        raise InvalidAnswer(f'edited_action: it is {{"name", "args"}}, got {_excerpt(action)}')
    return dict(action)


def _excerpt(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
