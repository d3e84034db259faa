"""`ctx.pause(...)`: a tool stops, a person is asked, and the model decides what comes of it.

The call of a tool that pauses ends there, and its step is recorded: it never goes on by itself and never runs again.
What asks the person is a guardrail of the tool's result, and what it returns is what the model gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from hitl import _core
from hitl.decisions import read_approvers
from hitl.errors import HitlError
from hitl.planner.catalog import NodeSpec
from hitl.tools.context import RunContext
from hitl.tools.definition import Tool
from hitl.tools.schema import ModelParameters
from hitl.turn.interrupts import interrupt
from hitl.turn.permits import permit

PauseReason = Literal["approval_required", "await_input", "external_event", "constraints_conflict"]

INTERRUPT_TYPE: Final = "planner_pause"

_APPROVING: Final = "approval_required"

_NOTE: Final = (
    "The tool stopped at this pause and did nothing after it. Decide by user_input what to do; call the tool again if "
    "it should run now."
)


class PauseDisabled(HitlError, RuntimeError):
    """A tool paused under a planner with `pause_enabled=False`."""

    code = "pause_disabled"


class _Stopped(BaseException):
    """Leaves a tool that paused. No Exception, so that an `except Exception` cannot let the tool go on."""


@dataclass(frozen=True)
class Pause:
    """The result of a call that paused, until a person has said something."""

    tool: str
    reason: str
    payload: dict[str, Any]
    approvers: tuple[str, ...] = ()

    @property
    def asks_to_run(self) -> bool:
        """Whether the answer lets the tool run, where the model calls it again."""
        return self.reason == _APPROVING


class ToolContext:
    """What a tool knows about its run, and how it pauses.

    Example:
        async def write_line(args: Line, ctx: planner.ToolContext) -> Done:
            if not ctx.tool_context.get("approved"):
                await ctx.pause("approval_required", {"preview": args.text})
            return Done(ok=True)
    """

    def __init__(self, tool: str, tool_context: dict[str, Any], pause_enabled: bool) -> None:
        self._tool = tool
        self._tool_context = tool_context
        self._pause_enabled = pause_enabled
        self._stopped_with: Pause | Exception | None = None

    @property
    def tool_context(self) -> dict[str, Any]:
        """What `run` or `resume` was given as `tool_context`; what tools change in it is kept over pauses."""
        return self._tool_context

    async def pause(
        self,
        reason: PauseReason,
        payload: Mapping[str, Any] | None = None,
        *,
        approvers: Iterable[str] | None = None,
    ) -> Any:
        """End this call of the tool and ask a person. Never returns: the model goes on, with the answer.

        Args:
            reason: One of `approval_required`, `await_input`, `external_event`, `constraints_conflict`.
            payload: What the person is shown: a dict of JSON values, at most 16,384 bytes.
            approvers: Who alone may answer where a server asks: names of keys, and `group:<name>`.

        The answer to `approval_required` is an approval: what the tool does when the model calls it again is done once.
        Where it cannot pause (an unknown reason, no JSON, `pause_enabled=False`), the call ends with a tool error.
        """
        if self._stopped_with is None:
            self._stopped_with = self._pause(reason, payload, approvers)
        raise _Stopped

    def outcome(self) -> Pause | None:
        """The pause that ended the call, whatever the tool made of it afterwards; None for none."""
        if isinstance(self._stopped_with, Exception):
            raise self._stopped_with
        return self._stopped_with

    def _pause(self, reason: Any, payload: Any, approvers: Any) -> Pause | Exception:
        if not self._pause_enabled:
            return PauseDisabled(f"{self._tool} cannot pause: this planner has pause_enabled=False")
        if reason not in get_args(PauseReason):
            return ValueError(f"a pause's reason is one of {', '.join(get_args(PauseReason))}; got {reason!r}")
        try:
            shown = plain_object(payload, "the payload of a pause")
            return Pause(self._tool, reason, shown, read_approvers(approvers))
        except (TypeError, ValueError) as error:
            return error


def plain_object(value: Any, what: str) -> dict[str, Any]:
    """A copy of a dict of JSON values, `{}` for None; TypeError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a dict of JSON values, got {type(value).__name__}")
    try:
        copied: dict[str, Any] = json.loads(_core.to_json(dict(value)))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} is not JSON: {error}") from None
    return copied


def make_tool(spec: NodeSpec, pause_enabled: bool) -> Tool[..., Any]:
    """A node of the catalog as a tool of the agent behind the planner."""

    async def run(hitl_context: RunContext[Any], /, **arguments: Any) -> Any:
        context: dict[str, Any] = hitl_context.context  # the planner gives every run one
        ctx = ToolContext(spec.name, context, pause_enabled)
        try:
            result = await spec.node.func(spec.args_model.model_construct(**arguments), ctx)
        except (_Stopped, Exception, BaseExceptionGroup) as left:
            # Whatever it became on its way out (a group, an error of a `finally`): the call ended with the pause.
            if (paused := ctx.outcome()) is None or _ends_more(left):
                raise
            return paused
        if (paused := ctx.outcome()) is not None:
            return paused
        if not isinstance(result, spec.out_model):
            result = spec.out_model.model_validate(result)
        # As JSON: a model's class may be found nowhere in the process that replays this.
        return result.model_dump(mode="json", by_alias=True)

    return Tool.with_parameters(
        run,
        ModelParameters(spec.args_model),
        name=spec.name,
        description=spec.desc,
        output_guardrails=[pause],
    )


def _ends_more(left: BaseException) -> bool:
    """Whether there is something in a group that ends more than the call: a cancelled task, an exit."""
    return isinstance(left, BaseExceptionGroup) and left.split((_Stopped, Exception))[1] is not None


async def pause(result: Any) -> str | None:
    """Where a call has paused: ask, and return what the model is told."""
    if not isinstance(result, Pause):
        return None
    shown = {"reason": result.reason, "payload": result.payload}
    asked = {"type": INTERRUPT_TYPE, "tool_name": result.tool, **shown}
    with permit() if result.asks_to_run else nullcontext():
        answer = await interrupt(asked, approvers=result.approvers or None)
    told = {"paused": result.reason, "payload": result.payload, "user_input": answer["user_input"], "note": _NOTE}
    return json.dumps(told, ensure_ascii=False)
