"""The options of `tool`: each is checked where it is given, and set on a tool that is being made."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict

from hitl.decisions import DecisionKind, read_allowed_decisions, read_approvers

if TYPE_CHECKING:
    from pydantic import BaseModel

    from hitl.tools.context import ApprovalCallback, ApprovalDescription, ApprovalPolicy, RunContext
    from hitl.tools.guardrails import Guardrail, InputGuardrail, OutputGuardrail
    from hitl.tools.schema import Arguments, Parameters

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOptions(TypedDict, total=False):
    """The options of `tool`, which explains them."""

    name: str | None
    description: str | None
    schema: Mapping[str, Any] | type[BaseModel] | None
    requires_approval: bool | ApprovalPolicy
    allowed_decisions: Iterable[DecisionKind]
    approvers: Iterable[str] | None
    approval_description: str | ApprovalDescription | None
    on_approval: ApprovalCallback | None
    input_guardrails: Iterable[Guardrail] | None
    output_guardrails: Iterable[Guardrail] | None
    once: bool | None
    timeout: float | None


class AnyTool(Protocol):
    """What the modules below ``hitl.tools.definition`` know of a ``Tool``, which explains it."""

    name: str
    requires_approval: bool | ApprovalPolicy
    allowed_decisions: tuple[DecisionKind, ...]
    approvers: tuple[str, ...]
    approval_description: str | ApprovalDescription | None
    on_approval: ApprovalCallback | None
    input_guardrails: tuple[InputGuardrail, ...]
    output_guardrails: tuple[OutputGuardrail, ...]
    once: bool | None
    timeout: float | None
    schema: Mapping[str, Any] | type[BaseModel] | None
    source: str | None
    _description: str | None

    @property
    def is_async(self) -> bool: ...

    @property
    def goes_on(self) -> bool: ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def edit_schema(self) -> dict[str, Any] | None: ...

    def check(self, given: Mapping[str, Any]) -> Arguments: ...

    @property
    def takes_resources(self) -> bool: ...

    @property
    def needed_resource(self) -> str | None: ...

    def bind(self, arguments: Arguments, context: RunContext[Any]) -> Callable[[], Any]: ...

    def call_bare(self, /, *args: Any, **kwargs: Any) -> Any: ...

    async def call(self, /, *args: Any, **kwargs: Any) -> Any: ...


def is_tool_name(value: object) -> bool:
    """Whether every provider takes it as a tool's name."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def set_name(made: AnyTool, value: Any) -> None:
    if value is None:
        return
    if not is_tool_name(value):
        raise ValueError(f"a tool's name is 1 to 64 ASCII letters, digits, '_' or '-', got {value!r}")
    made.name = value


def _set_description(made: AnyTool, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"description must be a str, got {type(value).__name__}")
    made._description = value


def _set_schema(made: AnyTool, value: Any) -> None:
    if isinstance(value, type):
        from pydantic import BaseModel

        if not issubclass(value, BaseModel):
            raise TypeError(f"schema must be a JSON Schema or a pydantic model, got the class {value.__name__}")
    elif value is not None and not isinstance(value, Mapping):
        raise TypeError(f"schema must be a JSON Schema or a pydantic model, got {type(value).__name__}")
    made.schema = copy.deepcopy(value) if isinstance(value, Mapping) else value


def _set_requires_approval(made: AnyTool, value: Any) -> None:
    if not isinstance(value, bool) and not callable(value):
        raise TypeError(f"requires_approval must be a bool or a callable (ctx, args) -> bool, got {value!r}")
    made.requires_approval = value


def _set_allowed_decisions(made: AnyTool, value: Any) -> None:
    made.allowed_decisions = read_allowed_decisions(value)


def _set_approvers(made: AnyTool, value: Any) -> None:
    made.approvers = read_approvers(value)


def _set_approval_description(made: AnyTool, value: Any) -> None:
    if value is not None and not isinstance(value, str) and not callable(value):
        raise TypeError(
            f"approval_description must be a str or a callable (ctx, args) -> str, got {type(value).__name__}"
        )
    made.approval_description = value


def _set_on_approval(made: AnyTool, value: Any) -> None:
    if value is not None and not callable(value):
        raise TypeError(f"on_approval must be a callable (ApprovalRequest) -> Decision | None, got {value!r}")
    made.on_approval = value


def _set_once(made: AnyTool, value: Any) -> None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"once must be True, False or None, got {value!r}")
    made.once = value


def _set_timeout(made: AnyTool, value: Any) -> None:
    if value is not None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"timeout is a number of seconds or None, got {value!r}")
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"timeout must be more than 0 seconds, got {value!r}")
    made.timeout = value


def _later(made: AnyTool, value: Any) -> None:
    """Guardrails are read once the parameters are known."""


SETTERS: Final[Mapping[str, Callable[[AnyTool, Any], None]]] = {
    "name": set_name,
    "description": _set_description,
    "schema": _set_schema,
    "requires_approval": _set_requires_approval,
    "allowed_decisions": _set_allowed_decisions,
    "approvers": _set_approvers,
    "approval_description": _set_approval_description,
    "on_approval": _set_on_approval,
    "once": _set_once,
    "timeout": _set_timeout,
    "input_guardrails": _later,
    "output_guardrails": _later,
}
