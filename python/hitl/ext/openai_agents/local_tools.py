"""Tools of other kinds that run in the program: shells, patches and tools that take text. Their calls are steps and
ask as those of function tools do; the SDK makes those of one kind one after another."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from agents import (
    ApplyPatchTool,
    CustomTool,
    LocalShellTool,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
)
from agents.editor import ApplyPatchOperation, ApplyPatchResult
from pydantic_core import to_jsonable_python

from hitl import _core
from hitl.decisions import Approval, DecisionKind
from hitl.ext.gating import REFUSALS, ForeignCall, GateOptions, approve
from hitl.ext.openai_agents.memory import call_place, memory_of, run_var, speaking_var, stated_call
from hitl.turn.permits import permit
from hitl.turn.runtime import Turn, current_turn

logger = logging.getLogger("hitl.ext.openai_agents")

LocalTool: TypeAlias = ShellTool | ApplyPatchTool | CustomTool | LocalShellTool

LOCAL_TOOLS: Final = (ShellTool, ApplyPatchTool, CustomTool, LocalShellTool)

# What runs is what the model wrote: there is no schema to check anything else by.
_ALLOWED: Final[tuple[DecisionKind, ...]] = ("approve", "reject")


_PATCH: Final = ""
"""Stands for the id of each call of a patch: of which call an operation is, the SDK does not say when it is made."""


def journaled(tool: LocalTool) -> LocalTool:
    """The tool, of whose calls the turn decides, and which are steps."""
    if isinstance(tool, LocalShellTool):
        return replace(tool, executor=_local_shell(tool))
    if isinstance(tool, ShellTool):
        return tool if tool.executor is None else _gated(tool, _commands, executor=_shell(tool))
    if isinstance(tool, CustomTool):
        return _gated(tool, lambda text: {"input": text}, on_invoke_tool=_custom(tool))
    return _gated(tool, _operation, editor=_Editor(tool))


def _gated(tool: LocalTool, show: Callable[[Any], dict[str, Any]], **changed: Any) -> LocalTool:
    gated: LocalTool = _with_gate(tool, show, changed)
    return gated


def _with_gate(tool: Any, show: Callable[[Any], dict[str, Any]], changed: dict[str, Any]) -> Any:
    async def needs_approval(context: Any, asked: Any, call_id: str) -> bool:
        turn = current_turn()
        required = await _is_required(tool, context, asked, call_id)
        decides_itself = required and tool.on_approval is not None
        try:
            given = await approve(turn, _call(tool, call_id, show(asked)), required=required and not decides_itself)
        except REFUSALS as no:
            memory_of(turn).refused[call_place(call_id)] = str(no)
            return True
        place = _PATCH if isinstance(tool, ApplyPatchTool) else call_id
        memory_of(turn).decide(call_place(place), tool.name, json.dumps(show(asked)), given)
        return decides_itself

    async def on_approval(context: Any, item: Any) -> Any:
        call_id, no = item.call_id, memory_of(current_turn()).refused.pop(call_place(item.call_id), None)
        if no is not None:
            return {"approve": False, "reason": no}

        async def body() -> Any:
            return to_jsonable_python(await _result_of(tool.on_approval(context, item)))

        with permit():
            return await current_turn().run_step(
                "policy", f"{tool.name}.on_approval", body, key=f"on_approval:{call_id}"
            )

    if not isinstance(tool, CustomTool):
        return replace(tool, needs_approval=needs_approval, on_approval=on_approval, **changed)
    # A class of the program's or the SDK's own, as the one for patches in a sandbox, need not take these as parameters,
    # and has its `needs_approval` asked by what it says here.
    gated = copy.copy(tool)
    vars(gated).update(changed, on_approval=on_approval, runtime_needs_approval=lambda: needs_approval)
    return gated


async def _is_required(tool: Any, context: Any, asked: Any, call_id: str) -> bool:
    setting: Any = tool.runtime_needs_approval() if isinstance(tool, CustomTool) else tool.needs_approval
    if isinstance(setting, bool):
        return setting

    async def body() -> bool:
        try:
            return bool(await _result_of(setting(context, asked, call_id)))
        except Exception as error:  # noqa: BLE001  (who cannot say that it may run does not let it run)
            logger.warning("needs_approval of %s raised %s: a person is asked", tool.name, type(error).__name__)
            return True

    with permit():
        required: bool = await current_turn().run_step(
            "policy", f"{tool.name}.needs_approval", body, key=f"needs_approval:{call_id}"
        )
    return required


async def _step(
    tool: Any,
    call_id: str,
    arguments: dict[str, Any],
    call: Callable[[], Awaitable[Any]],
    shown: dict[str, Any] | None = None,
) -> Any:
    """The outcome of a call. ``arguments`` name it in the journal; ``shown``: what people and rules see, where that is
    more."""
    turn = current_turn()
    stated = stated_call(speaking_var.get(), call_id, tool.name)
    decided = memory_of(turn).taken(call_place(call_id), tool.name, json.dumps(arguments), stated)
    if decided is None:
        # Nobody was asked about it yet: the SDK has no approval of the tool, or its own state has brought one along.
        try:
            decided = (await _rules_say(turn, tool, call_id, shown or arguments),)
        except REFUSALS as no:
            return str(no)
    return await turn.run_step(
        "tool",
        tool.name,
        call,
        key=f"tool:{call_id}",
        arguments=arguments,
        once=decided[0] is not None,
        tool_call_id=call_id,
        shown=shown or arguments,
    )


async def _rules_say(turn: Turn, tool: Any, call_id: str, shown: dict[str, Any]) -> Approval | None:
    """What rules say of a call that needs no approval, and whom they have asked; nothing of one that an earlier release
    has made, which did not ask them."""
    if not turn.may_have_rules:
        return None
    call = _call(tool, call_id, shown)
    if turn.is_recorded(call.step_key) and not turn.is_recorded(call.question_key):
        return None
    return await approve(turn, call, required=False)


def _call(tool: Any, call_id: str, shown: dict[str, Any]) -> ForeignCall:
    """A call, for whoever is asked about it."""
    return ForeignCall(
        tool_name=tool.name,
        arguments=shown,
        call_id=call_id,
        options=GateOptions(allowed_decisions=_ALLOWED),
        # All operations of a patch have the id of their call.
        conversation=(run_var.get(), _core.digest(shown)) if isinstance(tool, ApplyPatchTool) else run_var.get(),
    )


def _local_shell(tool: LocalShellTool) -> Any:
    async def execute(request: Any) -> str:
        async def body() -> str:
            return str(await _result_of(tool.executor(request)))

        action = request.data.action
        command = {"command": list(action.command)}
        more = {name: getattr(action, name) for name in ("env", "timeout_ms", "user", "working_directory")}
        shown = {**command, **{name: value for name, value in more.items() if value}}
        text: str = await _step(tool, request.data.call_id, command, body, shown)
        return text

    return execute


def _shell(tool: ShellTool) -> Any:
    executor: Any = tool.executor

    async def execute(request: Any) -> str | ShellResult:
        async def body() -> Any:
            made = await _result_of(executor(request))
            return dataclasses.asdict(made) if isinstance(made, ShellResult) else made

        recorded = await _step(tool, request.data.call_id, _commands(request.data.action), body)
        return recorded if isinstance(recorded, str) else _shell_result(recorded)

    return execute


def _shell_result(recorded: dict[str, Any]) -> ShellResult:
    output = [
        ShellCommandOutput(**{**each, "outcome": ShellCallOutcome(**each["outcome"])}) for each in recorded["output"]
    ]
    return ShellResult(**{**recorded, "output": output})


def _custom(tool: CustomTool) -> Any:
    async def invoke(context: Any, text: str) -> Any:
        async def body() -> Any:
            return to_jsonable_python(await _result_of(tool.on_invoke_tool(context, text)), fallback=str)

        return await _step(tool, context.tool_call_id, {"input": text}, body)

    return invoke


class _Editor:
    """Applies patches as steps, each named by what it changes: the SDK does not say by which call."""

    def __init__(self, tool: ApplyPatchTool) -> None:
        self._tool = tool

    async def create_file(self, operation: ApplyPatchOperation) -> Any:
        return await self._apply("create_file", operation)

    async def update_file(self, operation: ApplyPatchOperation) -> Any:
        return await self._apply("update_file", operation)

    async def delete_file(self, operation: ApplyPatchOperation) -> Any:
        return await self._apply("delete_file", operation)

    async def _apply(self, method: str, operation: ApplyPatchOperation) -> Any:
        async def body() -> Any:
            made = await _result_of(getattr(self._tool.editor, method)(operation))
            return dataclasses.asdict(made) if isinstance(made, ApplyPatchResult) else made

        turn, shown, name = current_turn(), _operation(operation), f"{method}:{operation.path}"
        stated = stated_call(None, _PATCH, self._tool.name)
        decided = memory_of(turn).taken(call_place(_PATCH), self._tool.name, json.dumps(shown), stated)
        if decided is None:
            # The SDK asks about no more operations of a call that is decided: by a state, or once the first has asked.
            try:
                decided = (await _rules_say(turn, self._tool, name, shown),)
            except REFUSALS as no:
                return ApplyPatchResult(status="failed", output=str(no))
        recorded = await turn.run_step(
            "tool",
            self._tool.name,
            body,
            key=f"tool:{name}",
            arguments=shown,
            once=decided[0] is not None or self._tool.needs_approval is not False,
            shown=shown,
        )
        return ApplyPatchResult(**recorded) if isinstance(recorded, dict) else recorded


def _commands(action: Any) -> dict[str, Any]:
    shown = {"commands": list(action.commands), "timeout_ms": action.timeout_ms}
    return {name: value for name, value in shown.items() if value is not None}


def _operation(operation: ApplyPatchOperation) -> dict[str, Any]:
    shown = {name: getattr(operation, name) for name in ("type", "path", "diff", "move_to")}
    return {name: value for name, value in shown.items() if value is not None}


async def _result_of(made: Any) -> Any:
    return await made if inspect.isawaitable(made) else made
