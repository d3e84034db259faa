"""Calls of function tools in a turn: each waits for itself, and is a step.

The SDK collects the calls that need approval, and goes on once all others have run; those of an agent that is a tool
wait for each other. Here the question whether a call needs approval does not return before it is decided. What a person
refused goes the SDK's own way, and so does what runs.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from agents import Agent, FunctionTool
from agents.exceptions import ToolInputGuardrailTripwireTriggered, ToolTimeoutError
from agents.items import ToolApprovalItem
from agents.tool_context import ToolContext
from agents.tool_guardrails import ToolInputGuardrailData
from pydantic import BaseModel

from hitl.errors import ToolRejected
from hitl.ext.arguments import names_unknown, usable
from hitl.ext.gating import REFUSALS, ForeignCall, approve, edit_note
from hitl.ext.openai_agents import seams
from hitl.ext.openai_agents.memory import call_place, memory_of, run_var, speaking_var, stated_call, step_path
from hitl.ext.turns import check_rules_reach, is_in_turn
from hitl.journal.codec import encode
from hitl.turn.permits import permit
from hitl.turn.runtime import Turn, current_turn
from hitl.turn.stopwatch import limit

logger = logging.getLogger("hitl.ext.openai_agents")

_WIRE: Final = "openai_agents"
_NO_OBJECT: Final = "the arguments of this call are no JSON object, so nothing ran"

PAST_THE_LOOP: Final = "await Runner.run() in an async tool"
"""What to do instead where no rule can be asked."""


async def decide(function_tool: FunctionTool, context_wrapper: Any, tool_call: Any) -> Any:
    """Whether a call may be made, asked once; it returns when that is decided."""
    if not is_in_turn():
        return await seams.needs_approval(function_tool, context_wrapper, tool_call)
    turn, memory = current_turn(), memory_of(current_turn())
    passes = seams.Evaluation("invoke", function_tool, function_tool.on_invoke_tool, tool_call.arguments)
    arguments = read_arguments(tool_call.arguments)
    required = await _is_required(turn, function_tool, context_wrapper, tool_call, arguments)
    if arguments is None and not required and not turn.has_rules_for(function_tool.name, {}):
        return passes  # the tool itself says what is wrong with them
    try:
        if arguments is None:
            raise ToolRejected(_NO_OBJECT)
        given = await approve(turn, foreign_call(function_tool, tool_call.call_id, arguments), required=required)
    except REFUSALS as no:
        namespace, key = seams.lookup_of(function_tool, tool_call)
        item = ToolApprovalItem(
            agent=_agent_of(turn),
            raw_item=tool_call,
            tool_name=function_tool.name,
            tool_namespace=namespace,
            tool_origin=seams.origin_of(function_tool),
            tool_lookup_key=key,
        )
        context_wrapper.reject_tool(item, rejection_message=str(no))
        return seams.Evaluation("require_approval", function_tool, function_tool.on_invoke_tool, tool_call.arguments)
    memory.decide(call_place(tool_call.call_id), _name_in_full(function_tool), tool_call.arguments, given)
    return passes


async def _is_required(
    turn: Turn, tool: FunctionTool, context: Any, call: Any, arguments: dict[str, Any] | None
) -> bool:
    """Whether a call needs approval by itself. A function that says so is asked once; one that cannot say means yes."""
    setting = tool.needs_approval
    if isinstance(setting, bool):
        return setting
    if arguments is None:
        return True

    async def body() -> bool:
        try:
            return bool((await seams.needs_approval(tool, context, call)).outcome != "invoke")
        except Exception as error:  # noqa: BLE001  (who cannot say that it may run does not let it run)
            logger.warning("needs_approval of %s raised %s: a person is asked", tool.name, type(error).__name__)
            return True

    with permit():
        required: bool = await turn.run_step(
            "policy", f"{tool.name}.needs_approval", body, key=f"needs_approval:{call.call_id}"
        )
    return required


async def invoke(*, function_tool: FunctionTool, context: ToolContext[Any], arguments: str) -> Any:
    """A call that may be made, as a step."""
    if not is_in_turn():
        check_rules_reach(lambda: f"the agent that calls {function_tool.name}", PAST_THE_LOOP)
        return await seams.invoke(function_tool=function_tool, context=context, arguments=arguments)
    turn, memory = current_turn(), memory_of(current_turn())
    place = call_place(context.tool_call_id)
    once = True
    name = _name_in_full(function_tool)
    stated = stated_call(context.agent, context.tool_call_id, name, arguments)
    if (decided := memory.taken(place, name, arguments, stated)) is not None:
        (given,) = decided
        once = given is not None
    else:
        # A decision that the SDK's own state brought along: rules are asked all the same.
        shown = read_arguments(arguments)
        try:
            given = (
                None
                if shown is None
                else await approve(turn, foreign_call(function_tool, context.tool_call_id, shown), required=False)
            )
        except REFUSALS as no:
            return seams.InvocationResult(str(no), True)
    if given is not None and given.responded:
        return seams.InvocationResult(as_text(given.response), function_tool.output_json_schema is not None)
    if given is not None and given.edited:
        arguments = json.dumps(given.args)
        seams.begin_anew(context, arguments)
        refused = await _check_again(function_tool, context)
        if refused is not None:
            return seams.InvocationResult(refused, True)
        memory.notes[place] = edit_note(given.args)

    is_agent = seams.is_agent_tool(function_tool)

    async def body() -> Any:
        inside = step_path()
        result = await _invoked(function_tool, context, arguments)
        if (error := memory.suspended.pop(inside, None)) is not None:
            raise error  # not for the model: the turn goes on when it is retried
        return _plain_result(result)

    given_now = read_arguments(arguments) or {"arguments": arguments}
    recorded = await turn.run_step(
        "tool",
        function_tool.name,
        body,
        key=f"tool:{context.tool_call_id}",
        arguments=given_now,
        once=once and not is_agent,
        tool_call_id=context.tool_call_id,
        shown=given_now,
    )
    if is_agent:
        seams.forget_waiting(context)
    return _result(recorded)


async def _invoked(tool: FunctionTool, context: ToolContext[Any], arguments: str) -> Any:
    """What came of a call, within the tool's `timeout=`, of which a person's time is no part."""
    if tool.timeout_seconds is None:
        return await seams.invoke(function_tool=tool, context=context, arguments=arguments)
    unhurried = copy.copy(tool)
    unhurried.timeout_seconds = None
    try:
        async with limit(tool.timeout_seconds, tool.name):
            try:
                # In a task, as the SDK has it: by that its questions are known.
                called = seams.invoke(function_tool=unhurried, context=context, arguments=arguments)
                return await asyncio.create_task(called)
            except TimeoutError as error:
                own = error  # the time is not over
    except TimeoutError as error:
        over = ToolTimeoutError(tool_name=tool.name, timeout_seconds=tool.timeout_seconds)
        if tool.timeout_behavior == "raise_exception":
            raise over from error
        if tool.timeout_error_function is None:
            said = seams.timeout_message(tool_name=tool.name, timeout_seconds=tool.timeout_seconds)
            return seams.InvocationResult(said, True)
        told: Any = tool.timeout_error_function(context, over)
        return seams.InvocationResult(await told if inspect.isawaitable(told) else told)
    raise own


async def _check_again(tool: FunctionTool, context: ToolContext[Any]) -> str | None:
    """What the tool's guardrails say of a person's arguments: they have seen the model's only."""
    for guardrail in tool.tool_input_guardrails or ():
        agent: Any = context.agent
        verdict = await guardrail.run(ToolInputGuardrailData(context=context, agent=agent))
        if verdict.behavior["type"] == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(guardrail=guardrail, output=verdict)
        if verdict.behavior["type"] == "reject_content":
            return verdict.behavior["message"]
    return None


def foreign_call(tool: FunctionTool, call_id: str, arguments: dict[str, Any]) -> ForeignCall:
    """A call, for whoever is asked about it."""
    namespace = seams.namespace_of(tool)
    return ForeignCall(
        tool_name=tool.name,
        arguments=arguments,
        call_id=call_id,
        args_schema=tool.params_json_schema,
        source=source_of(seams.server_of(tool), namespace),
        options=memory_of(current_turn()).approvals_for(tool.name, namespace),
        is_run=is_run(tool, arguments),
        conversation=run_var.get(),
    )


def is_run(tool: FunctionTool, arguments: dict[str, Any]) -> bool:
    """Whether arguments say what runs, as far as a schema tells. A server of MCP gets them as they are written."""
    if seams.server_of(tool) is not None or not current_turn().may_have_rules:
        return True
    schema = usable(tool.params_json_schema)
    return schema is None or not names_unknown(schema, arguments)


def _name_in_full(tool: FunctionTool) -> str:
    namespace = seams.namespace_of(tool)
    return tool.name if namespace is None else f"{namespace}.{tool.name}"


def source_of(server: str | None, namespace: str | None) -> str | None:
    """Where a function tool is from: its MCP server, or the namespace that tells it from others of its name. That it is
    no part of the name lets a rule about the name hold in every namespace."""
    if server is not None:
        return f"mcp:{server}"
    return None if namespace is None else f"namespace:{namespace}"


def read_arguments(text: str) -> dict[str, Any] | None:
    """Arguments as the model wrote them; None where they are no JSON object, or one of which two readers read two: who
    runs the call, the provider of a hosted tool say, may take the other of two members of one name."""
    try:
        found = json.loads(text or "{}", object_pairs_hook=_each_once)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) < len(members):
        raise ValueError("a member is there twice")
    return made


def as_text(value: Any) -> str:
    """What a model reads of a JSON value."""
    return value if isinstance(value, str) else json.dumps(value)


def _agent_of(turn: Turn) -> Any:
    """Whose call it is: the SDK finds a refusal by its agent. The context of an agent that is a tool names the one that
    has called that."""
    return speaking_var.get() or memory_of(turn).root or Agent(name=turn.agent or "agent")


def _plain_result(result: Any) -> Any:
    """What a tool returned, for the journal: as it is, so that people can read it, and say it in a tool's place where
    a crash has left that open. An output of the SDK's own classes is kept in their form for models."""
    output = _plain_output(result.output)
    if result.is_sdk_generated_error or (isinstance(output, dict) and _WIRE in output):
        return {_WIRE: {"output": output, "is_error": bool(result.is_sdk_generated_error)}}
    return output


def _plain_output(output: Any) -> Any:
    if isinstance(output, list | tuple) and any(map(_is_of_sdk, output)):
        return [_plain_output(each) for each in output]
    if _is_of_sdk(output):
        return output.model_dump(mode="json", exclude_none=True)
    try:
        encode(output)
    except (TypeError, ValueError):
        return str(output)  # which is what the model is told of it
    return output


def _is_of_sdk(output: Any) -> bool:
    return isinstance(output, BaseModel) and type(output).__module__.partition(".")[0] == "agents"


def read_result(recorded: Any) -> Any:
    """What a tool returned, of the record of its step."""
    return _result(recorded).output


def _result(recorded: Any) -> Any:
    if isinstance(recorded, Mapping) and _WIRE in recorded:
        kept = recorded[_WIRE]
        return seams.InvocationResult(kept["output"], kept["is_error"])
    return seams.InvocationResult(recorded, False)
