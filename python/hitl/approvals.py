"""The way of every tool call: check, guardrails, person, digest, run, guardrails.

Whoever calls a tool, a model or Python, comes through `call_tool`. The order is the promise: a person sees the
arguments as guardrails left them, and nothing may change them between the yes and the call.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hitl.errors import HitlError, InvalidAnswer, ToolRejected
from hitl.guardrails import OutputGuardrail
from hitl.places import place_var
from hitl.runtime import Turn, agent_name, call_blocking, current_turn
from hitl.stopwatch import limit
from hitl.tool_schema import Arguments, InvalidArguments

if TYPE_CHECKING:
    from hitl.tools import RunContext, Tool

logger = logging.getLogger("hitl.approvals")

_OFFERED = ("approve", "reject")
"""What this release lets a person decide."""


class ApprovalMismatch(HitlError):
    """The arguments about to run are not those a person approved. Nothing ran."""

    code = "approval_mismatch"


async def call_tool(tool: Tool[..., Any], given: Mapping[str, Any], *, tool_call_id: str | None = None) -> Any:
    """Call a tool with everything that stands before and after it; returns its result.

    Raises `InvalidArguments`, `ToolRejected`, `InterruptExpired`, and what guardrails and the tool raise. Outside a
    run nothing is journaled, and a tool that needs approval is a `RuntimeError`.
    """
    turn = _turn_here()
    if turn is None and tool.requires_approval is not False:
        raise RuntimeError(f"{tool.name}() needs a person's approval, and was called outside a hitl run")
    arguments = await _guard_input(turn, tool, tool.check(given))
    digest = None
    if turn is not None and await _needs_approval(turn, tool, arguments, tool_call_id):
        digest = await _ask(turn, tool, arguments, tool_call_id)
    result = await _run(turn, tool, arguments, tool_call_id, digest)
    return await guard_output(turn, tool.name, tool.output_guardrails, result)


def call_tool_from_python(tool: Tool[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """`tool(...)`: a coroutine for an async tool; for a plain one the result, once it is there."""
    inside = _turn_here() is not None
    bare = tool.requires_approval is False and not tool.input_guardrails and not tool.output_guardrails
    if not inside and bare:
        return tool.call_bare(*args, **kwargs)
    if tool.is_async:
        return tool.call(*args, **kwargs)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if inside:
            return current_turn(tool.name).run_sync(tool.name, lambda: tool.call(*args, **kwargs))
        return asyncio.run(tool.call(*args, **kwargs))
    raise RuntimeError(f"{tool.name}() would block the event loop; use: await {tool.name}.call(...)")


def _turn_here() -> Turn | None:
    return None if place_var.get() is None else current_turn()


async def _step(
    turn: Turn | None,
    kind: str,
    name: str,
    body: Callable[[], Any],
    arguments: Mapping[str, Any],
    *,
    once: bool = False,
) -> Any:
    if turn is None:
        return await body()
    return await turn.run_step(kind, name, body, arguments=arguments, once=once)


async def _invoke(turn: Turn | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call user code, plain (in a thread) or async."""
    call = getattr(function, "__call__", None)  # noqa: B004  (an object with an async __call__)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return await function(*args, **kwargs)
    if turn is None:
        result = await asyncio.to_thread(function, *args, **kwargs)
    else:
        result = await call_blocking(turn, function, *args, **kwargs)
    # A lambda or a partial around an async function only shows itself by what it returns.
    return await result if inspect.isawaitable(result) else result


# --- guardrails ---------------------------------------------------------------------------------------------------


async def _guard_input(turn: Turn | None, tool: Tool[..., Any], arguments: Arguments) -> Arguments:
    for guardrail in tool.input_guardrails:
        given = guardrail.pick(arguments.values)

        async def look(guardrail: Any = guardrail, given: dict[str, Any] = given) -> Any:
            patch = await _invoke(turn, guardrail.function, **given)
            if patch is not None and not isinstance(patch, dict):
                raise TypeError(
                    f"guardrail {guardrail.name!r} must return None or a dict of arguments, got {type(patch).__name__}"
                )
            return patch

        shown = guardrail.pick(arguments.json)
        patch = await _step(turn, "guardrail", f"{tool.name}.{guardrail.name}", look, shown)
        if patch is not None:
            try:
                arguments = tool.check({**arguments.values, **patch})
            except InvalidArguments as error:
                raise InvalidArguments(f"after guardrail {guardrail.name!r}: {error}") from error
    return arguments


async def guard_output(turn: Turn | None, owner: str, guardrails: tuple[OutputGuardrail, ...], value: Any) -> Any:
    """Let each guardrail keep (None) or replace a value."""
    for guardrail in guardrails:

        async def look(guardrail: OutputGuardrail = guardrail, value: Any = value) -> Any:
            return await _invoke(turn, guardrail.function, value)

        replaced = await _step(turn, "guardrail", f"{owner}.{guardrail.name}", look, {"value": value})
        if replaced is not None:
            value = replaced
    return value


# --- the person ---------------------------------------------------------------------------------------------------


async def _needs_approval(turn: Turn, tool: Tool[..., Any], arguments: Arguments, tool_call_id: str | None) -> bool:
    policy = tool.requires_approval
    if isinstance(policy, bool):
        return policy

    async def ask_policy() -> bool:
        context = make_context(turn, tool_call_id)
        try:
            verdict = await _invoke(turn, policy, context, copy.deepcopy(arguments.json))
        except Exception as error:  # noqa: BLE001  (a policy that cannot tell is no permission)
            logger.warning("approval policy of tool %s raised %s: a person is asked", tool.name, type(error).__name__)
            return True
        if not isinstance(verdict, bool):
            got = type(verdict).__name__
            logger.warning("approval policy of tool %s returned a %s: a person is asked", tool.name, got)
            return True
        return verdict

    required: bool = await turn.run_step("policy", tool.name, ask_policy, arguments=arguments.json)
    return required


async def _ask(turn: Turn, tool: Tool[..., Any], arguments: Arguments, tool_call_id: str | None) -> str:
    """Ask for approval; returns the digest of what was approved, raises `ToolRejected`."""
    from hitl import _core

    payload = {"type": "tool_approval", "tool_name": tool.name, "tool_args": arguments.json}
    # Too large, or no JSON after all: raises here, and the model is told; nothing was asked and nothing runs.
    checked: dict[str, Any] = json.loads(_core.check_payload(payload, turn.max_payload))
    digest: str = _core.digest(checked["tool_args"])
    allowed: list[str] = [kind for kind in _OFFERED if kind in tool.allowed_decisions]
    answer = await turn.ask(
        "tool_approval",
        checked,
        message=tool.approval_description,
        allowed_decisions=allowed,
        tool_call_id=tool_call_id,
        args_digest=digest,
    )
    _obey(tool.name, answer, allowed)
    return digest


def _obey(tool_name: str, answer: Any, allowed: list[str]) -> None:
    """Return for an approval, raise for everything else: what cannot be read is never a yes."""
    from hitl import _core

    try:
        decision = _core.read_decision(answer, allowed)
    except (TypeError, ValueError) as error:
        raise InvalidAnswer(
            f"the answer to the approval of {tool_name} is no decision, so it did not run: {error}"
        ) from error
    if decision["type"] != "approve":
        message = decision["message"]
        raise ToolRejected(message if message is not None else _core.rejection_text(tool_name, decision["reason"]))


# --- the call -----------------------------------------------------------------------------------------------------


def make_context(turn: Turn | None, tool_call_id: str | None) -> RunContext[Any]:
    """What the call may know about its run; made inside the step that the idempotency key names."""
    from hitl.tools import RunContext

    if turn is None:
        return RunContext(tool_call_id=tool_call_id)
    return RunContext(
        context=turn.context,
        tool_call_id=tool_call_id,
        agent=agent_name.get() or turn.agent,
        session_id=turn.session_id,
        idempotency_key=turn.idempotency_key(),
    )


async def _run(
    turn: Turn | None, tool: Tool[..., Any], arguments: Arguments, tool_call_id: str | None, digest: str | None
) -> Any:
    async def body() -> Any:
        if digest is not None:
            _check_digest(tool, arguments, digest)
        call = tool.bind(arguments, make_context(turn, tool_call_id))
        async with limit(tool.timeout, tool.name):
            return await _invoke(turn, call)

    once = tool.once if tool.once is not None else digest is not None
    return await _step(turn, "tool", tool.name, body, arguments.json, once=once)


def _check_digest(tool: Tool[..., Any], arguments: Arguments, digest: str) -> None:
    """The very objects the function gets are compared, not the JSON they were made from."""
    from hitl import _core

    if _core.digest(tool.parameters.to_json(arguments.values)) != digest:
        raise ApprovalMismatch(f"the arguments of {tool.name} changed after they were approved, so it did not run")
