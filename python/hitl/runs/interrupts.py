"""The questions that a run waits with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question to a person, as an agent asked it. Times are RFC 3339 in UTC.

    tool_source: where the tool is from when it is not the agent's own, such as an MCP server.
    approvers: who alone may answer, as it was asked; empty where whoever has the run may.
    rule_failed: which rules could not tell about the call, and why; None where each could.
    lets_run: the answer may let something run although the type does not say so: a hook or middleware asks.
    """

    id: str
    type: str
    payload: dict[str, Any]
    session_id: str
    turn_id: str
    status: str
    created_at: str
    message: str | None = None
    response_schema: Any = None
    allowed_decisions: list[str] | None = None
    tool_call_id: str | None = None
    agent: str | None = None
    rule: str | None = None
    args_digest: str | None = None
    expires_at: str | None = None
    value: Any = None
    resolved_by: str | None = None
    resolved_at: str | None = None
    metadata: dict[str, Any] | None = None
    tool_source: str | None = None
    approvers: tuple[str, ...] = ()
    rule_failed: str | None = None
    lets_run: bool = False
    _record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Interrupt:
        """The interrupt of a record as HTTP lists it."""
        known = {name: record[name] for name in _MEMBERS if name in record}
        known["approvers"] = tuple(record.get("approvers", ()))
        return cls(id=record["interrupt_id"], **known, _record=record)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def tool_name(self) -> str | None:
        """The tool that asks to run; None for every other kind of question."""
        name = self.payload.get("tool_name")
        return name if isinstance(name, str) else None

    @property
    def tool_args(self) -> dict[str, Any] | None:
        """The exact arguments it would run with."""
        args = self.payload.get("tool_args")
        return args if isinstance(args, dict) else None

    def to_dict(self) -> dict[str, Any]:
        """The record as HTTP lists it."""
        return dict(self._record)


_MEMBERS = tuple(name for name in Interrupt.__dataclass_fields__ if name not in ("id", "_record"))
