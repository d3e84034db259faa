"""What a paused run shows: `__interrupt__` and everything in it.

Each shape is a dataclass and, at once, the dict that it is as JSON, so that `shown.value`, `shown["value"]` and
`json.dumps(shown)` all work. The dict is written when the object is made; nothing changes it afterwards.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hitl.errors import HitlError
from hitl.tools.schema import parse_arguments


class _Shape(dict[str, Any], ABC):
    def __post_init__(self) -> None:
        super().update(self.to_dict())

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What the dict holds."""


@dataclass(eq=False, repr=False)
class ActionRequest(_Shape):
    """A tool call that waits for a decision: `{"name", "args", "id"}`, with `"description"` and `"agent"` where there
    are any."""

    name: str
    """The tool."""

    args: dict[str, Any]
    """What it would be called with, as the person who decides sees it: checked, and after the input guardrails."""

    id: str
    """The id that the model gave the call."""

    description: str | None = None
    agent: str | None = None
    """The agent that makes the call, where it is not the one that was invoked: one inside it, or one that took over."""

    def to_dict(self) -> dict[str, Any]:
        """The request as JSON, in a new dict."""
        shown = {"name": self.name, "args": self.args, "id": self.id}
        return shown | _present(description=self.description, agent=self.agent)


@dataclass(eq=False, repr=False)
class ReviewConfig(_Shape):
    """What may be decided about a call: `{"action_name", "action_id", "allowed_decisions"}`, and `"description"` and
    `"args_schema"` where there are any."""

    action_name: str
    action_id: str
    allowed_decisions: list[str]
    description: str | None = None
    args_schema: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON, in a new dict."""
        shown: dict[str, Any] = {
            "action_name": self.action_name,
            "action_id": self.action_id,
            "allowed_decisions": [*map(_text, self.allowed_decisions)],
        }
        return shown | _present(description=self.description, args_schema=self.args_schema)


@dataclass(eq=False, repr=False)
class InterruptValue(_Shape):
    """The calls that wait, and what may be decided about each: position *n* of both lists is the same call."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]

    def to_dict(self) -> dict[str, Any]:
        """The value as JSON, in a new dict."""
        return {
            "action_requests": [action.to_dict() for action in self.action_requests],
            "review_configs": [review.to_dict() for review in self.review_configs],
        }


@dataclass(eq=False, repr=False)
class CallValue(InterruptValue):
    """One call that waits by itself ("per_call"): `{"type": "tool_approval", "tool_call_id", "name", "args",
    "description"}`, and beside these the lists of a batch of one."""

    def to_dict(self) -> dict[str, Any]:
        """The value as JSON, in a new dict; `description` is None where there is none."""
        (action,) = self.action_requests
        call = {"tool_call_id": action.id, "name": action.name, "args": action.args, "description": action.description}
        return {"type": "tool_approval", **call, **super().to_dict()}


@dataclass(eq=False, repr=False)
class InterruptInfo(_Shape):
    """One entry of `__interrupt__`: `{"value", "id", "interrupt_id"}`, both ids the same; and for a question that is no
    tool approval `"agent"` and `"metadata"`, where there are any."""

    value: InterruptValue | dict[str, Any]
    """Tool calls that wait; or, for a question that is no tool approval, its payload."""

    interrupt_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    """What `Command(resume={id: ...})` names it by."""

    response_schema: dict[str, Any] | None = None
    """JSON Schema of a valid answer, where the entry stands for one interrupt; not part of the dict."""

    agent: str | None = None
    """Who asks, where it is not the agent that was invoked."""

    metadata: dict[str, Any] | None = None
    """What `interrupt(metadata=...)` brought."""

    @property
    def id(self) -> str:
        """LangGraph's name of `interrupt_id`."""
        return self.interrupt_id

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON, in a new dict."""
        value = self.value.to_dict() if isinstance(self.value, InterruptValue) else self.value
        shown = {"value": value, "id": self.interrupt_id, "interrupt_id": self.interrupt_id}
        return shown | _present(agent=self.agent, metadata=self.metadata)


@dataclass
class ApprovalRequest:
    """What an `approval_callback` is asked about."""

    tool_name: str
    tool_args: dict[str, Any]
    tool_call_id: str | None = None
    description: str | None = None

    @property
    def args(self) -> dict[str, Any]:
        """`tool_args`, under the name that `ActionRequest` has for it."""
        return self.tool_args

    @property
    def arguments(self) -> dict[str, Any]:
        """`tool_args`, under one more name that callbacks use."""
        return self.tool_args

    @classmethod
    def from_action_request(cls, action: ActionRequest) -> ApprovalRequest:
        """The same call, as a callback sees it."""
        return cls(action.name, action.args, action.id, action.description)


class HITLInterrupt(HitlError):
    """For loops of your own that pause by raising. hitl's agents never raise it: they pause by themselves."""

    code = "person_needed"

    def __init__(self, interrupt_info: InterruptInfo) -> None:
        super().__init__(interrupt_info)
        self.interrupt_info = interrupt_info
        self.value = interrupt_info.value

    def __str__(self) -> str:
        names = [action["name"] for action in self.value.get("action_requests", ())]
        return f"waits for a person's decision: {', '.join(names)}" if names else "waits for a person"


def read_tool_call(tool_call: Any) -> tuple[str, dict[str, Any], str]:
    """Name, arguments and id of a tool call: LangChain's dict, a chat-completions one, or an object of either shape.

    Raises `ValueError` for arguments that are no JSON object: who shows a person `{}` in their place shows a lie.
    """
    call = _member(tool_call, "function", None)
    name = _member(tool_call if call is None else call, "name", None)
    args = _member(tool_call, "args", None) if call is None else _member(call, "arguments", None)
    if not isinstance(name, str):
        raise TypeError(f"a tool call has a name, args and an id, got {tool_call!r}")
    if isinstance(args, str):
        args = parse_arguments(args)
    if args is None:
        args = {}
    if not isinstance(args, Mapping):
        raise ValueError(f"the arguments of {name} must be a JSON object, got {type(args).__name__}")
    return name, dict(args), str(_member(tool_call, "id", "") or "")


def _member(holder: Any, name: str, default: Any) -> Any:
    return holder.get(name, default) if isinstance(holder, Mapping) else getattr(holder, name, default)


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _text(decision: str) -> str:
    return getattr(decision, "value", decision)
