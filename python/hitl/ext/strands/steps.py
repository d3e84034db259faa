"""What an agent of Strands does that is not to be done twice, as steps: the innermost middleware of its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final, cast

from pydantic_core import to_jsonable_python
from strands.interrupt import Interrupt, InterruptException
from strands.middleware import ExecuteToolContext, InvokeModelContext, ModelStopReason, ToolResultEvent
from strands.types._events import ModelStreamChunkEvent, ToolInterruptEvent
from strands.types.tools import AgentTool, ToolResult

from hitl.errors import InterruptExpired, ToolRejected
from hitl.ext.gating import ForeignCall, GateOptions, approve, edit_note
from hitl.ext.strands.asking import put_question
from hitl.ext.strands.hooks import answer
from hitl.ext.strands.messages import recorded, to_chat
from hitl.ext.strands.turns import InTurn, in_turn_of
from hitl.ext.versions import reading
from hitl.journal.error_codec import decode_error, encode_error
from hitl.turn.retrying import run

Next = Callable[[Any], AsyncGenerator[Any, None]]
Body = Callable[[], Awaitable[Any]]

_WIRE: Final = "strands"


async def invoke_model(context: InvokeModelContext, next_fn: Next) -> AsyncGenerator[Any, None]:
    """Each request to a model is a step; what it says is shown as it says it, and in no replay."""
    in_turn = in_turn_of(context.agent)
    if in_turn is None:
        async for event in next_fn(context):
            yield event
        return

    async def body() -> dict[str, Any]:
        native: dict[str, Any] = {}
        async for event in next_fn(context):
            if isinstance(event, ModelStopReason):
                stop_reason, message, usage, metrics = event["stop"]
                native |= {"stop_reason": stop_reason, "message": message, "usage": usage, "metrics": metrics}
            elif (redacted := _redacted(event)) is not None:
                native["redacted"] = redacted
            else:
                _show(in_turn, context, event)
        return recorded(native).to_json()

    # Messages and tools as everybody reads them: ids, times and figures differ from run to run, and system prompts may
    # say what day it is.
    said = [each.to_dict() for each in to_chat(context.messages)]
    tools = {spec["name"]: spec["inputSchema"] for spec in context.tool_specs}
    with in_turn.speaking():
        reply: dict[str, Any] = await _with_its_body(
            body,
            lambda body: run(
                in_turn.turn,
                in_turn.retries,
                "model",
                _model_id(context.model),
                body,
                key=f"model:{in_turn.name}",
                arguments={"messages": said, "tools": tools},
            ),
        )
    native = reply["native"]
    with reading("strands-agents"):
        event = ModelStopReason(native["stop_reason"], native["message"], native["usage"], native["metrics"])
    if "redacted" in native:
        yield ModelStreamChunkEvent({"redactContent": {"redactUserContentMessage": native["redacted"]}})
    yield event


async def call_tool(context: ExecuteToolContext, next_fn: Next) -> AsyncGenerator[Any, None]:
    """Each call of a tool is a step, and before it the gate, with the arguments that it would be made with."""
    in_turn = in_turn_of(context.agent)
    # What makes a reply of a type has no effects, and leaves it where no journal would.
    if (
        in_turn is None
        or context.tool is None
        or context.tool.tool_type == "structured_output"
        or context.tool_use["name"] in in_turn.control
    ):
        async for event in next_fn(context):
            yield event
        return
    with in_turn.speaking():
        event = await _outcome(in_turn, context, context.tool, next_fn)
    yield event


async def _outcome(in_turn: InTurn, context: ExecuteToolContext, tool: AgentTool, next_fn: Next) -> ToolResultEvent:
    call_id = context.tool_use["toolUseId"]
    try:
        given = await approve(
            in_turn.turn,
            ForeignCall(
                tool_name=context.tool_use["name"],
                arguments=_arguments(context),
                call_id=call_id,
                args_schema=tool.tool_spec["inputSchema"].get("json"),
                source=_source(tool),
                options=_options(in_turn, context),
            ),
            required=call_id in in_turn.to_approve,
        )
    except (ToolRejected, InterruptExpired) as no:
        return ToolResultEvent({"toolUseId": call_id, "status": "error", "content": [{"text": str(no)}]})
    if given is not None and given.responded:
        return ToolResultEvent(_result(given.response, call_id))
    if given is not None and given.edited:
        context = context.replace(tool_use={**context.tool_use, "input": given.args})
    once = given is not None or call_id in in_turn.allowed
    while True:
        wire = await _called(in_turn, context, next_fn, once)
        interrupts = [Interrupt(*each) for each in wire.get("interrupts", ())]
        if not interrupts:
            break
        questions = (put_question(in_turn.turn, each, context.tool_use) for each in interrupts)
        answer(context.agent, interrupts, await asyncio.gather(*questions))
    result = cast(ToolResult, wire["result"])
    if given is not None and given.edited:
        result["content"].append({"text": edit_note(given.args)})
    error = wire.get("error")
    return ToolResultEvent(result, exception=None if error is None else cast(Exception, decode_error(error)))


async def _called(in_turn: InTurn, context: ExecuteToolContext, next_fn: Next, once: bool) -> dict[str, Any]:
    """What came of a call, and was left in its agent by it."""
    agent: Any = context.agent
    call_id = context.tool_use["toolUseId"]

    async def body() -> Any:
        before, wire = agent.state.get(), dict[str, Any]()
        try:
            async for event in next_fn(context):
                if isinstance(event, ToolInterruptEvent):
                    wire["interrupts"] = [_wire_of(each) for each in event.interrupts]
                elif isinstance(event, ToolResultEvent):
                    wire["result"] = event.tool_result
                    if event.exception is not None:
                        wire["error"] = encode_error(event.exception)
                else:
                    _show(in_turn, context, event)
        except InterruptException as asked:
            wire["interrupts"] = [_wire_of(asked.interrupt)]
        after = agent.state.get()
        if after != before:
            wire["state"] = {name: value for name, value in after.items() if before.get(name, body) != value}
            wire["unset"] = [name for name in before if name not in after]
        if agent._deferred_cancel:
            wire["cancel"] = agent._cancel_message
        return _plain(wire, call_id)

    stored = await _with_its_body(
        body,
        lambda body: in_turn.turn.run_step(
            "tool",
            context.tool_use["name"],
            body,
            key=f"tool:{call_id}",
            arguments=_arguments(context),
            once=once,
            tool_call_id=call_id,
            shown=_arguments(context),
        ),
    )
    is_wire = isinstance(stored, dict) and _WIRE in stored
    wire: dict[str, Any] = stored[_WIRE] if is_wire else {"result": _result(stored, call_id)}
    for name, value in wire.get("state", {}).items():
        agent.state.set(name, value)
    for name in wire.get("unset", ()):
        agent.state.delete(name)
    if "cancel" in wire:
        agent.cancel(message=wire["cancel"], after_current_tools=True)
    return wire


def _wire_of(interrupt: Interrupt) -> list[Any]:
    return [interrupt.id, interrupt.name, to_jsonable_python(interrupt.reason, fallback=repr)]


async def _with_its_body(body: Body, step: Callable[[Body], Awaitable[Any]]) -> Any:
    """``step(body)``. Who stops waiting for it goes on once the body has stopped: it is in a generator of the
    framework's, which those around close as soon as they hear of that."""
    tasks: set[asyncio.Task[Any] | None] = set()

    async def noted() -> Any:
        task = asyncio.current_task()
        tasks.add(task)
        try:
            return await body()
        finally:
            tasks.discard(task)

    try:
        return await step(noted)
    except BaseException:
        if at_work := [task for task in tasks if task is not None]:
            await asyncio.wait(at_work)
        raise


def _plain(wire: dict[str, Any], call_id: str) -> Any:
    """What a tool returned, for the journal: its text, so that people can read it, and say it in a tool's place where a
    crash has left that open. Whatever else came of the call is kept in the framework's form."""
    if wire.keys() == {"result"}:
        content = wire["result"].get("content")
        if content and len(content) == 1 and wire["result"] == _result(content[0].get("text"), call_id):
            return content[0]["text"]
    return {_WIRE: wire}


def _result(value: Any, call_id: str) -> ToolResult:
    content = {"text": value} if isinstance(value, str) else {"json": value}
    return cast(ToolResult, {"toolUseId": call_id, "status": "success", "content": [content]})


def _arguments(context: ExecuteToolContext) -> dict[str, Any]:
    arguments = context.tool_use["input"]
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _options(in_turn: InTurn, context: ExecuteToolContext) -> GateOptions:
    options = in_turn.approvals.get(context.tool_use["name"], {})
    description = in_turn.to_approve.get(context.tool_use["toolUseId"])
    return options if description is None else {"description": description, **options}


def _source(tool: AgentTool) -> str | None:
    """Of a tool that is not the program's own: which MCP server it is from."""
    client = getattr(tool, "mcp_client", None)
    return None if client is None else f"mcp:{getattr(client, '_prefix', None) or 'server'}"


def _model_id(model: Any) -> str:
    config = model.get_config()
    name = config.get("model_id") if isinstance(config, Mapping) else None
    return name if isinstance(name, str) else type(model).__name__


def _redacted(event: Any) -> str | None:
    """What a guardrail wants the person's message replaced with."""
    chunk = event.get("event")
    if not isinstance(chunk, Mapping) or "redactContent" not in chunk:
        return None
    message = chunk["redactContent"].get("redactUserContentMessage")
    return None if message is None else str(message)


def _show(in_turn: InTurn, context: InvokeModelContext | ExecuteToolContext, event: Any) -> None:
    """Show what happens to the agent's callback handler and, of the outermost agent's words, to whoever watches."""
    agent: Any = context.agent
    if event.is_callback_event:
        event.prepare(invocation_state=context.invocation_state)
        agent.callback_handler(**event.as_dict())
    step = in_turn.turn.current_step
    if not in_turn.stream or step is None or step.kind != "model" or step.outer is not None:
        return
    if isinstance(text := event.get("data"), str):
        in_turn.turn.delta({"content": text})
    elif isinstance(thought := event.get("reasoningText"), str):
        in_turn.turn.delta({"reasoning": thought})
