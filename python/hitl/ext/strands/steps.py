"""What an agent of Strands does that is not to be done twice, as steps: the innermost middleware of its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import to_jsonable_python
from strands.interrupt import Interrupt, InterruptException
from strands.middleware import ExecuteToolContext, InvokeModelContext, ModelStopReason, ToolResultEvent
from strands.tools.decorator import DecoratedFunctionTool
from strands.types._events import ModelStreamChunkEvent, ToolInterruptEvent
from strands.types.tools import AgentTool, ToolResult

from hitl.agents.abandoned import UNFINISHED
from hitl.decisions import DECISIONS, read_allowed_decisions
from hitl.errors import InterruptExpired, ToolRejected
from hitl.ext.arguments import names_unknown, usable
from hitl.ext.gating import ForeignCall, GateOptions, approve, edit_note
from hitl.ext.strands.asking import put_question
from hitl.ext.strands.handoffs import is_handoff
from hitl.ext.strands.messages import recorded, to_chat
from hitl.ext.strands.state import state_of
from hitl.ext.strands.turns import CallInTurn, InTurn, in_turn_of, note_answers
from hitl.ext.turns import check_rules_reach
from hitl.ext.versions import reading
from hitl.journal.error_codec import decode_error, encode_error
from hitl.turn.places import Place, Rerun, place_var
from hitl.turn.retrying import run
from hitl.turn.runtime import NOTHING

Next = Callable[[Any], AsyncGenerator[Any, None]]
Body = Callable[[], Awaitable[Any]]

_WIRE: Final = "strands"
_UNRECORDED: Final = object()
_CYCLE: Final = "event_loop_cycle_id"


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
    reply = await ask_model(in_turn, context.model, body, {"messages": said, "tools": tools})
    native = reply["native"]
    with reading("strands-agents"):
        event = ModelStopReason(native["stop_reason"], native["message"], native["usage"], native["metrics"])
    if "redacted" in native:
        yield ModelStreamChunkEvent({"redactContent": {"redactUserContentMessage": native["redacted"]}})
    yield event


async def ask_model(in_turn: InTurn, model: Any, body: Body, arguments: dict[str, Any]) -> dict[str, Any]:
    """One request to a model as a step: what ``body`` made of its reply, now or when it was recorded."""
    with in_turn.speaking():
        reply: dict[str, Any] = await with_its_body(
            body,
            lambda body: run(
                in_turn.turn,
                in_turn.retries,
                "model",
                model_id(model),
                body,
                key=f"model:{in_turn.name}",
                arguments=arguments,
            ),
        )
    return reply


async def call_tool(context: ExecuteToolContext, next_fn: Next) -> AsyncGenerator[Any, None]:
    """Each call of a tool is a step, and before it the gate, with the arguments that it would be made with."""
    in_turn, tool = in_turn_of(context.agent), context.tool
    # A model's calls are made in a cycle of its agent; `agent.tool.name()` is code.
    if tool is not None and tool.tool_type != "structured_output" and _CYCLE in context.invocation_state:
        check_rules_reach(lambda: f"the agent that calls {tool.tool_name}", "await its invoke_async() in an async tool")
    if in_turn is None or tool is None:
        async for event in next_fn(context):
            yield event
        return
    if tool.tool_type != "structured_output":
        with in_turn.speaking(), in_turn.current_call(context.tool_use["toolUseId"]).passed():
            event = await _outcome(in_turn, context, tool, next_fn)
        yield event
        return
    # What makes a reply of a type has no effects, and leaves it where no journal would: no step, and no call that a
    # rule is about. What the agent itself wants approved is.
    passed: _Passed | ToolResultEvent = _Passed(context)
    if in_turn.current_call(context.tool_use["toolUseId"]).required:
        with in_turn.speaking():
            passed = await _passed(in_turn, context, tool)
    if isinstance(passed, ToolResultEvent):
        yield passed
        return
    async for event in next_fn(passed.context):
        if isinstance(event, ToolResultEvent):
            _add_note(passed, event.tool_result)
        yield event


@dataclass(frozen=True)
class _Passed:
    """A call that may be made."""

    context: ExecuteToolContext
    """With the arguments that it is made with."""
    by_person: bool = False
    edited: bool = False


async def _passed(in_turn: InTurn, context: ExecuteToolContext, tool: AgentTool) -> _Passed | ToolResultEvent:
    """What people, rules and grants say; of a call that is not made, its result."""
    call_id = context.tool_use["toolUseId"]
    call = in_turn.current_call(call_id)
    try:
        given = await approve(
            in_turn.turn,
            ForeignCall(
                tool_name=tool.tool_name,  # which a hook may have put in the place of the one that the model named
                arguments=_arguments(context),
                call_id=call_id,
                args_schema=_schema_of(tool),
                source=_source(tool),
                options=_options(in_turn, call, tool),
                is_run=not in_turn.turn.may_have_rules or _is_run(tool, _arguments(context)),
                conversation=in_turn.conversation,
            ),
            required=call.required,
        )
    except (ToolRejected, InterruptExpired) as no:
        return ToolResultEvent({"toolUseId": call_id, "status": "error", "content": [{"text": str(no)}]})
    if given is None:
        return _Passed(context, by_person=call.allowed)
    if given.responded:
        return ToolResultEvent(_result(given.response, call_id))
    if given.edited:
        context = context.replace(tool_use={**context.tool_use, "input": given.args})
    return _Passed(context, by_person=True, edited=given.edited)


async def _outcome(in_turn: InTurn, context: ExecuteToolContext, tool: AgentTool, next_fn: Next) -> ToolResultEvent:
    passed = await _passed(in_turn, context, tool)
    if isinstance(passed, ToolResultEvent):
        return passed
    call = in_turn.current_call(context.tool_use["toolUseId"])
    wire: dict[str, Any] = {}
    while True:
        wire = await _called(in_turn, passed.context, tool, next_fn, passed.by_person, wire.get("inside", {}))
        interrupts = [Interrupt(*each) for each in wire.get("interrupts", ())]
        if not interrupts:
            break
        questions = (put_question(in_turn.turn, each, passed.context.tool_use) for each in interrupts)
        note_answers(call.answered, interrupts, await asyncio.gather(*questions))
    result: Any = wire["result"]
    _add_note(passed, result)
    error = wire.get("error")
    return ToolResultEvent(result, exception=None if error is None else cast(Exception, decode_error(error)))


async def _called(
    in_turn: InTurn, context: ExecuteToolContext, tool: AgentTool, next_fn: Next, once: bool, inside: dict[str, Any]
) -> dict[str, Any]:
    """What came of a call, and was left in its agent by it. ``inside``: what steps of the tool came to when it was
    called before, and asked; it is called from its top again."""
    agent: Any = context.agent
    call_id = context.tool_use["toolUseId"]
    call, state = in_turn.current_call(call_id), state_of(agent)
    hands_over, has_run = is_handoff(tool), False
    from_top = not hands_over and tool.tool_type != "agent"  # an agent goes on where it was

    async def body() -> Any:
        nonlocal has_run
        has_run, wire, outcomes = True, dict[str, Any](), dict(inside)
        call.lend(agent)
        try:
            with state.noting() as changes, _going_on(outcomes) if from_top else nullcontext():
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
                if agent.state is not state:  # another one was put in its place
                    state.become(agent.state.get())
                    agent.state = state
        finally:
            call.take_back(agent)
        wire |= state.to_wire(changes)
        if outcomes and "interrupts" in wire:
            wire["inside"] = outcomes
        if agent._deferred_cancel:
            wire["cancel"] = agent._cancel_message
        return _plain(wire, call_id)

    stored = await with_its_body(
        body,
        lambda body: in_turn.turn.run_step(
            "tool",
            context.tool_use["name"],
            body,
            key=f"tool:{call_id}",
            arguments=_arguments(context),
            once=once and not hands_over,  # who goes on is known to this process alone
            tool_call_id=call_id,
            shown=_arguments(context),
            past=_UNRECORDED if hands_over else NOTHING,
        ),
    )
    if stored is _UNRECORDED:  # by an older version, for which handing over was no step
        stored = await body()
    is_wire = isinstance(stored, dict) and _WIRE in stored
    wire: dict[str, Any] = stored[_WIRE] if is_wire else {"result": _result(stored, call_id)}
    if not has_run:
        state.put_back(wire)
        if hands_over:
            async for _ in tool.stream(context.tool_use, context.invocation_state):
                pass
    if "cancel" in wire:
        agent.cancel(message=wire["cancel"], after_current_tools=True)
    return wire


@contextmanager
def _going_on(outcomes: dict[str, Any]) -> Iterator[None]:
    """In the body of a tool: what is in ``outcomes``, of steps that it made when it was called before, is not done
    again, and what it does now is there too."""
    outer = place_var.get()
    assert outer is not None
    token = place_var.set(Place(outer.turn, outer.step, Rerun(1, outcomes)))
    try:
        yield
    finally:
        place_var.reset(token)


def _wire_of(interrupt: Interrupt) -> list[Any]:
    return [interrupt.id, interrupt.name, to_jsonable_python(interrupt.reason, fallback=repr)]


async def with_its_body(body: Body, step: Callable[[Body], Awaitable[Any]]) -> Any:
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
        content = (wire["result"] or {}).get("content")  # a tool of one's own may return anything
        text = content[0].get("text") if content and len(content) == 1 else None
        if isinstance(text, str) and wire["result"] == _result(text, call_id):
            return text
    return {_WIRE: wire}


def read_result(recorded: Any) -> Any:
    """What a tool returned, of the record of its step."""
    if not (isinstance(recorded, dict) and _WIRE in recorded):
        return recorded
    content = (recorded[_WIRE].get("result") or {}).get("content")
    if content is None:
        return UNFINISHED  # it asked
    said = [each["text"] if "text" in each else each.get("json", each) for each in content]
    return said[0] if len(said) == 1 else said


def _add_note(passed: _Passed, result: ToolResult | None) -> None:
    """Tell the model beside the result that a person has changed the arguments; of no result it is told nothing."""
    if passed.edited and result is not None:
        note: Any = {"text": edit_note(passed.context.tool_use["input"])}
        result["content"] = [*(result["content"] or ()), note]


def _result(value: Any, call_id: str) -> ToolResult:
    content = {"text": value} if isinstance(value, str) else {"json": value}
    return cast(ToolResult, {"toolUseId": call_id, "status": "success", "content": [content]})


def _arguments(context: ExecuteToolContext) -> dict[str, Any]:
    arguments = context.tool_use["input"]
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _schema_of(tool: AgentTool) -> dict[str, Any] | None:
    """What arguments have to fit, with what is left out of schemas for models: null fits where it is the default."""
    schema: dict[str, Any] | None = tool.tool_spec["inputSchema"].get("json")
    properties = None if schema is None else schema.get("properties")
    if schema is None or not isinstance(properties, Mapping):
        return schema
    return {**schema, "properties": {name: _with_null(said) for name, said in properties.items()}}


def _is_run(tool: AgentTool, arguments: dict[str, Any]) -> bool:
    """Whether arguments say what runs, as far as a schema tells: a function's are read by a model of pydantic, any
    other tool gets them as they are written."""
    schema = usable(_schema_of(tool)) if isinstance(tool, DecoratedFunctionTool) else None
    return schema is None or not names_unknown(schema, arguments)


def _with_null(said: Any) -> Any:
    if not isinstance(said, Mapping) or said.get("default", said) is not None:
        return said
    words = {name: value for name, value in said.items() if name in ("default", "description", "title")}
    rest = {name: value for name, value in said.items() if name not in words}
    return {**words, "anyOf": [rest, {"type": "null"}]}


def _options(in_turn: InTurn, call: CallInTurn, tool: AgentTool) -> GateOptions:
    options: GateOptions = {**in_turn.approvals.get(tool.tool_name, {})}
    if call.description is not None:
        options.setdefault("description", call.description)
    if tool.tool_type == "structured_output":  # nothing but the tool itself makes the reply
        allowed = read_allowed_decisions(options.get("allowed_decisions", DECISIONS))
        options["allowed_decisions"] = [kind for kind in allowed if kind != "respond"] or ["reject"]
    return options


def _source(tool: AgentTool) -> str | None:
    """Of a tool that is not the program's own: which MCP server it is from."""
    client = getattr(tool, "mcp_client", None)
    return None if client is None else f"mcp:{getattr(client, '_prefix', None) or 'server'}"


def model_id(model: Any) -> str:
    """What a model's steps are called."""
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
