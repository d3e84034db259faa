"""Calls of tools as steps, and before each of them the rules: also for tools that nobody gated.

Innermost of all that wraps a call: what middleware does around it, ``HumanInTheLoopMiddleware`` too, is done as ever.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from langchain_core.messages import ToolCall, ToolMessage
from langgraph._internal._constants import CONF, CONFIG_KEY_SCRATCHPAD
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic_core import to_jsonable_python

from hitl.decisions import Approval
from hitl.ext.gating import REFUSALS, ForeignCall, Refusal, approve, edit_note
from hitl.ext.langgraph.arguments import args_schema_of, is_run, own_arguments, runs_as_written
from hitl.ext.langgraph.asking import doubt_of, options_of
from hitl.ext.langgraph.inside import (
    Approvals,
    MadeCall,
    Tell,
    approvals_of,
    calling,
    calls_of_node,
    own_calls,
    tool_of,
)
from hitl.ext.langgraph.messages import text_of
from hitl.ext.langgraph.nodes import until_answered
from hitl.ext.langgraph.wire import from_wire, to_wire
from hitl.turn.permits import permitted
from hitl.turn.runtime import Turn, current_turn

Execute = Callable[[ToolCallRequest, Any], Awaitable[Any]]
"""Runs a call as LangGraph does, with a config."""

ExecuteOwn = Callable[[Any, Any], Awaitable[Any]]
"""Runs a call that a node makes by itself, with arguments and a config."""

_WIRE: Final = "langchain"


async def call_tool(execute: Execute, request: ToolCallRequest, config: Any) -> Any:
    """The result of a call, a ToolMessage as a rule: made here, or in an earlier run of the turn."""
    if request.tool is None:
        return await execute(request, config)  # no such tool: the model is told
    call, calls = request.tool_call, calls_of_node()
    call_id = call["id"] or call["name"]
    # Of the tool that runs: middleware may have put it in the place of the one that the model named.
    name = request.tool.name
    tell = await calls.earlier(call_id, name, call["args"])
    if tell is None:
        with calls.make(call_id, name, call["args"]) as made:
            tell = await _called(execute, request, name, call_id, config, made)
    return tell()


async def _called(
    execute: Execute, request: ToolCallRequest, name: str, call_id: str, config: Any, made: MadeCall
) -> Tell:
    turn, call, note = current_turn("a tool"), request.tool_call, None
    approved = approvals_of(turn).has(call["id"], name, call["args"])
    if not approved or _is_judged_otherwise(turn, request):
        try:
            given = await _ask_rules(turn, request, call_id)
        except REFUSALS as no:
            return made.keep(partial(_refusal, no, call["name"], call_id))
        if given is not None and given.responded:
            return made.keep(partial(_message, given.response, call["name"], call_id))
        if given is not None and given.edited:
            request = request.override(tool_call={**call, "args": given.args})
            note = edit_note(given.args)
        approved = approved or given is not None
    if not approved:
        made.over.set()

    async def make() -> Any:
        return _to_journal(await _made(turn, execute, request, config))

    recorded = await _record(turn, request, call_id, make, approved=approved)

    def tell() -> Any:
        return _noted(_from_journal(recorded, call["name"], call_id), note)

    return made.keep(tell) if approved else tell


RUNS: Final = object()
"""Nothing stands in the way of a call that a node makes by itself: it is made as ever, as a part of the node."""


async def judge_own_call(tool: Any, given: Any, call_id: str | None, execute: ExecuteOwn, config: Any) -> Any:
    """What becomes of a call that a node makes without a ``ToolNode``, while there may be rules: RUNS, or its result.
    What a person has approved is a step, so that it runs once; what one has decided stands where LangGraph tries the
    node again.

    ``given``: its arguments; ``call_id``: where its result is to be a ToolMessage. Raises one of
    REFUSALS for a call that is no model's, which therefore nobody else would be told of.
    """
    turn, calls = current_turn("a tool"), own_calls()
    assert calls is not None
    args, added, is_plain = own_arguments(tool, given)
    of_model = call_id or calls.take(tool.name, args)
    named = of_model or calls.name(tool.name)
    if (tell := await calls.earlier(named, tool.name, args)) is not None:
        return tell()
    if turn.was_made_without_rules(*ForeignCall(tool.name, args, named).keys):
        return RUNS  # as it did then
    own = _OwnCall(turn, tool, args, given, added, is_plain, named, of_model, call_id)
    with calls.make(named, tool.name, args) as made:
        tell = await own.make(execute, config)
        return RUNS if tell is None else made.keep(tell)()


@dataclass(frozen=True)
class _OwnCall:
    turn: Turn
    tool: Any
    args: dict[str, Any]
    """As a model would have written them."""
    given: Any
    """As the node has."""
    added: dict[str, Any]
    """Those that no model could give."""
    is_plain: bool
    named: str
    of_model: str | None
    call_id: str | None

    async def make(self, execute: ExecuteOwn, config: Any) -> Tell | None:
        """What tells what it comes to; None for one that nobody has decided over, and that may run."""
        turn, name, decided, given, note = self.turn, self.tool.name, None, self.given, None
        call = ToolCall(type="tool_call", name=name, args=self.args, id=self.of_model)
        request = ToolCallRequest(tool_call=call, tool=self.tool, state=None, runtime=cast(Any, None))
        approved = self.of_model is not None and approvals_of(turn).has(self.of_model, name, self.args)
        if not approved or _is_judged_otherwise(turn, request):
            try:
                decided = await _ask_rules(turn, request, self.named, is_plain=self.is_plain)
            except REFUSALS as no:
                return partial(self._tell_no, no)
            if decided is None:
                return None
            if decided.responded:
                return partial(self._tell_response, decided.response)
        if decided is not None and decided.edited:
            request = request.override(tool_call={**call, "args": decided.args})
            given, note = {**self.added, **decided.args}, edit_note(decided.args)

        async def run(_: ToolCallRequest, made: Any) -> Any:
            return await execute(given, made)

        async def body() -> Any:
            result = await _made(turn, run, request, config)
            return to_wire(result) if self.call_id is None else _to_journal(result)

        return partial(self._tell_result, await _record(turn, request, self.named, body, approved=True), note)

    def _tell_no(self, no: Refusal) -> Any:
        if self.of_model is None:
            raise no
        return str(no) if self.call_id is None else _refusal(no, self.tool.name, self.call_id)

    def _tell_response(self, response: Any) -> Any:
        return response if self.call_id is None else _message(response, self.tool.name, self.call_id)

    def _tell_result(self, recorded: Any, note: str | None) -> Any:
        if self.call_id is not None:
            return _noted(_from_journal(recorded, self.tool.name, self.call_id), note)
        result = from_wire(recorded)
        is_told = note is not None and self.of_model is not None and isinstance(result, str)
        return f"{result}\n{note}" if is_told else result


async def _made(turn: Turn, execute: Execute, request: ToolCallRequest, config: Any) -> Any:
    """What a call comes to, once no interrupt stops it any more."""
    known = config.get(CONF) or {}

    async def run(made: Any) -> Any:
        return await execute(request, {**config, CONF: {**known, CONFIG_KEY_SCRATCHPAD: made}})

    with permitted(), calling(None):  # what it asks, and what it calls, is its own business
        if CONFIG_KEY_SCRATCHPAD not in known:
            return await execute(request, config)
        return await until_answered(turn, run, known, request.state, Approvals())


async def _record(
    turn: Turn, request: ToolCallRequest, call_id: str, make: Callable[[], Awaitable[Any]], *, approved: bool
) -> Any:
    call = request.tool_call
    return await turn.run_step(
        "tool",
        call["name"],
        make,
        key=f"tool:{call_id}",
        arguments=call["args"],
        once=approved,
        tool_call_id=call["id"],
        shown=call["args"],
    )


async def _ask_rules(turn: Turn, request: ToolCallRequest, call_id: str, *, is_plain: bool = True) -> Approval | None:
    """``is_plain``: whether the arguments are JSON, so that all of them is seen."""
    tool, args = request.tool, request.tool_call["args"]
    if tool is None or not turn.may_have_rules:
        return None
    call = ForeignCall(
        tool_name=tool.name,
        arguments=args,
        call_id=call_id,
        args_schema=args_schema_of(tool),
        options=options_of(tool),
        doubt=doubt_of(tool),
        is_run=is_plain and is_run(tool, args),
    )
    return await approve(turn, call, required=False)


def _is_judged_otherwise(turn: Turn, request: ToolCallRequest) -> bool:
    """Whether the rules have seen of an approved call something else than what would run: they knew no schema of it, or
    that of another tool of its name, which the graph that is served has."""
    call = request.tool_call
    if not turn.may_have_rules:
        return False
    is_known = tool_of(call["name"]) is request.tool
    if is_known and not approvals_of(turn).is_unjudged(call["id"], call["name"], call["args"]):
        return False
    return not runs_as_written(request.tool, request.tool_call["args"])


def _to_journal(result: Any) -> Any:
    """A result as it is, so that people can read it, and say it in a tool's place where a crash has left that open."""
    if type(result) is ToolMessage and isinstance(result.content, str):
        plain = ToolMessage(result.content, name=result.name, tool_call_id=result.tool_call_id)
        if plain == result:
            return str(result.content)
    return {_WIRE: to_wire(result)}


def _from_journal(recorded: Any, name: str, call_id: str) -> Any:
    if isinstance(recorded, dict) and recorded.keys() == {_WIRE}:
        return from_wire(recorded[_WIRE])
    return _message(recorded, name, call_id)


def read_result(recorded: Any) -> Any:
    """What a tool returned, of the record of its step."""
    result = _from_journal(recorded, "", "")
    if isinstance(result, Command):
        result = _message_in(result.update)
    return text_of(result) if isinstance(result, ToolMessage) else to_jsonable_python(result, fallback=repr)


def _message_in(update: Any) -> Any:
    """What a command says of the call, beside what else it changes."""
    messages = update.get("messages") if isinstance(update, dict) else update
    found = [each for each in messages if isinstance(each, ToolMessage)] if isinstance(messages, list) else []
    return found[-1] if found else update


def _message(value: Any, name: str, call_id: str) -> ToolMessage:
    return ToolMessage(value if isinstance(value, str) else json.dumps(value), name=name, tool_call_id=call_id)


def _refusal(no: Refusal, name: str, call_id: str) -> ToolMessage:
    return ToolMessage(str(no), name=name, tool_call_id=call_id, status="error")


def _noted(result: Any, note: str | None) -> Any:
    """A result, with what the model is told beside it."""
    if note is None or not isinstance(result, ToolMessage):
        return result
    content = result.content
    added = f"{content}\n{note}" if isinstance(content, str) else [*content, {"type": "text", "text": note}]
    return result.model_copy(update={"content": added})
