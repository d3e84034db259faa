"""What `interrupt_on` says about a tool."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from hitl.agents.seams import ToolCallRequest
from hitl.middleware.resuming import ApprovalDecision

logger = logging.getLogger("hitl.middleware")

DEFAULT_DECISIONS = (ApprovalDecision.APPROVE, ApprovalDecision.EDIT, ApprovalDecision.REJECT)


class InterruptOnConfig(TypedDict, total=False):
    """When a tool's calls wait for a person, and what that person may decide. Every member may be absent."""

    allowed_decisions: list[Literal["approve", "edit", "reject", "respond"]]
    """By default approve, edit and reject, as far as the tool itself allows them."""

    description: str | Callable[..., Any]
    """Said to the person: text, or `(tool_call, state, runtime) -> str`, sync or async; evaluated once for a call."""

    when: Callable[[ToolCallRequest], Any]
    """`(request) -> bool`, sync or async: whether this call waits. Asked once; raising, or no bool, means it does."""

    args_schema: dict[str, Any]
    """Shown with the call where an edit is allowed. What is checked is the tool's own schema, always."""


_MEMBERS = frozenset(InterruptOnConfig.__annotations__)


@dataclass
class ParsedInterruptConfig:
    """`InterruptOnConfig`, checked."""

    allowed_decisions: list[ApprovalDecision]
    description: str | Callable[..., Any] | None = None
    when: Callable[[ToolCallRequest], Any] | None = None
    args_schema: dict[str, Any] | None = None

    @classmethod
    def from_config(cls, config: bool | InterruptOnConfig) -> ParsedInterruptConfig | None:
        """None for `False`: the middleware leaves the tool as it is.

        Raises `TypeError` and `ValueError` for everything that is not a bool or an `InterruptOnConfig`: a member that
        is misspelt must not leave a tool ungated, or open to more than was meant.
        """
        if config is False:
            return None
        if config is True:
            return cls([*DEFAULT_DECISIONS])
        if not isinstance(config, Mapping):
            raise TypeError(f"interrupt_on takes True, False or a dict for each tool, got {config!r}")
        unknown = sorted(map(str, config.keys() - _MEMBERS))
        if unknown:
            raise ValueError(f"interrupt_on: unknown {', '.join(unknown)}; known: {', '.join(sorted(_MEMBERS))}")
        description, when = config.get("description"), config.get("when")
        if not (description is None or isinstance(description, str) or callable(description)):
            raise TypeError(f"interrupt_on: description must be a str or a callable, got {description!r}")
        if not (when is None or callable(when)):
            raise TypeError(f"interrupt_on: when must be a callable, got {when!r}")
        schema = config.get("args_schema")
        if not (schema is None or isinstance(schema, Mapping)):
            raise TypeError(f"interrupt_on: args_schema must be a dict, got {schema!r}")
        allowed = read_allowed(config.get("allowed_decisions"))
        return cls(allowed, description, when, None if schema is None else dict(schema))

    def get_description(self, tool_call: Any, state: dict[str, Any], runtime: Any) -> str | None:
        """What is said about this call. A description that raises is logged, and nothing is said."""
        if self.description is None or isinstance(self.description, str):
            return self.description
        try:
            text: str | None = self.description(tool_call, state, runtime)
        except Exception as error:  # noqa: BLE001  (the person still sees the arguments)
            logger.warning("a description raised %s", type(error).__name__)
            return None
        return text


def read_allowed(allowed: Any) -> list[ApprovalDecision]:
    """The decisions of an `allowed_decisions`, checked; None means approve, edit and reject."""
    if allowed is None:
        return [*DEFAULT_DECISIONS]
    kinds = [allowed] if isinstance(allowed, str) else list(allowed)
    known = ", ".join(kind.value for kind in ApprovalDecision)
    try:
        read = [ApprovalDecision(kind) for kind in kinds]
    except ValueError:
        raise ValueError(f"allowed_decisions takes {known}; got {kinds!r}") from None
    if not read:
        raise ValueError(f"allowed_decisions must not be empty: a call that waits needs an answer\n\nhint: {known}")
    return list(dict.fromkeys(read))


def read_interrupt_on(interrupt_on: Mapping[str, bool | InterruptOnConfig]) -> dict[str, ParsedInterruptConfig]:
    """What is said of each tool that waits; an error names the tool."""
    if not isinstance(interrupt_on, Mapping):
        raise TypeError(f"interrupt_on is a dict of tool names, got {type(interrupt_on).__name__}")
    configs: dict[str, ParsedInterruptConfig] = {}
    for name, config in interrupt_on.items():
        try:
            parsed = ParsedInterruptConfig.from_config(config)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        if parsed is not None:
            configs[name] = parsed
    return configs
