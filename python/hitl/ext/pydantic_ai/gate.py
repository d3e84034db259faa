"""Tools that ask before they run, each for itself: no call waits until a person has decided about another.

pydantic-ai collects the calls of a reply that need an answer, and goes on with all of them at once. Here every one of
them is a call like any other, which waits where it would run. A no alone goes the framework's way, so that the model is
told in its words: it is collected, and denied at once.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ToolCallPart, ToolReturn
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from hitl import _core
from hitl.decisions import Approval, read_approvers
from hitl.errors import InvalidPayload
from hitl.ext.arguments import JudgedArguments, says, usable, with_defaults
from hitl.ext.gating import REFUSALS, ForeignCall, GateOptions, approve, check_options, checked_payload, edit_note
from hitl.ext.turns import check_rules_reach, is_in_turn
from hitl.journal.iterators import with_lists
from hitl.tools.names import as_shown
from hitl.tools.refused_edits import goes_new_way, is_recorded_before_refusal, is_refused, was_refused
from hitl.tools.schema import describe_errors
from hitl.turn.interrupts import schema_reader, seconds
from hitl.turn.reasking import REFUSED
from hitl.turn.runtime import Turn, current_turn
from hitl.turn.steps import patched

OPTIONS: Final = "hitl"
"""The member of a tool's ``metadata``, and of that of ``ApprovalRequired`` and ``CallDeferred``, with our options."""

_KIND: Final = "hitl.kind"
_SOURCE: Final = "hitl.source"
_DENIED: Final = "hitl.denied"

_MOST_WORDS: Final = 1_000
"""Characters that a question says of what is wrong with an edit: each item of a long list may be."""

current_call: contextvars.ContextVar[ToolCallPart | None] = contextvars.ContextVar(
    "hitl_pydantic_ai_call", default=None
)
"""The call that is made here, as the model wrote it, or who edited it."""


_approved: WeakKeyDictionary[Turn, set[tuple[str | None, str | None]]] = WeakKeyDictionary()


def approved_calls() -> set[tuple[str | None, str | None]]:
    """Collected calls of this turn that people and rules have approved already: by the ids of the run and the call."""
    return _approved.setdefault(current_turn(), set())


@dataclass
class GatedToolset(WrapperToolset[Any]):
    """All tools of a run. Those that the framework would put off are tools like any other, and ask."""

    servers: frozenset[str] = frozenset()
    """Ids of the toolsets that are MCP servers: their tools are not the program's own."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await super().get_tools(ctx)
        if not is_in_turn():
            return tools
        return {name: self._marked(tool) for name, tool in tools.items()}

    def _marked(self, tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
        """The tool, no longer put off. Why it was, and which server it is from, is in its metadata, which no model
        sees: whoever asks about a call of it finds it there."""
        definition, marks = tool.tool_def, {}
        if definition.toolset_id in self.servers:
            marks[_SOURCE] = f"mcp:{definition.toolset_id}"
        if definition.defer:
            marks[_KIND] = definition.kind
            definition = replace(definition, kind="function")
        return _marked(replace(tool, tool_def=definition), marks) if marks else tool

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        if not is_in_turn():
            return await super().call_tool(name, tool_args, ctx, tool)
        tool_args = with_lists(tool_args)  # which are shown and recorded before the tool has them
        kind = (tool.tool_def.metadata or {}).get(_KIND)
        if kind == "external":
            shown = _shown(tool, tool_args, ctx).arguments
            return await put_question(tool.tool_def, shown, ctx.tool_call_id or name, None)
        required = kind == "unapproved" and not ctx.tool_call_approved
        asked: dict[str, Any] | None = None
        note: str | None = None
        is_decided = ctx.tool_call_approved and (ctx.run_id, ctx.tool_call_id) in approved_calls()
        while True:
            if not is_decided:  # as is what the program has approved by itself: rules hold for that too
                given, tool_args = await self._approved(tool, tool_args, ctx, required, asked)
                if given is not None and given.responded:
                    return given.response
                if given is not None and given.edited:
                    note = edit_note(given.args)
                    _rewrite(given.args, ctx)
                if given is not None:
                    told = ctx.tool_call_metadata if ctx.tool_call_approved else asked
                    ctx = replace(ctx, tool_call_approved=True, tool_call_metadata=told)
                is_decided = ctx.tool_call_approved
            try:
                return _noted(await super().call_tool(name, tool_args, ctx, tool), note)
            except ApprovalRequired as wanted:
                if ctx.tool_call_approved:
                    raise  # it was told of the yes, and asks all the same
                required, asked = True, wanted.metadata
            except CallDeferred as wanted:
                shown = _shown(tool, tool_args, ctx).arguments
                return await put_question(tool.tool_def, shown, ctx.tool_call_id or name, wanted.metadata, wanted.kind)

    async def _approved(
        self,
        tool: ToolsetTool[Any],
        arguments: dict[str, Any],
        ctx: RunContext[Any],
        required: bool,
        said: dict[str, Any] | None,
    ) -> tuple[Approval | None, dict[str, Any]]:
        """What is said of a call, and the arguments that it is to be made with."""
        if not required and not current_turn().may_have_rules:
            return None, arguments
        shown, call_id = _shown(tool, arguments, ctx), ctx.tool_call_id or tool.tool_def.name
        read = partial(_read, tool, ctx=ctx)
        given = await ask_until_read(tool.tool_def, shown, call_id, required, said, read)
        if given.error is not None:
            raise await refused_edit(tool.tool_def.name, given.error) from given.error
        return given.approval, arguments if given.read is None else given.read


class PastTheLoop(AbstractCapability[Any]):
    """Of a run that is a turn's, but not on its loop: it calls no tool while there are rules."""

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Refuse it."""
        check_rules_reach(lambda: f"the agent that calls {tool_def.name}", "await its run() in an async tool")
        return args


class ServersTools(WrapperToolset[Any]):
    """The tools of an MCP server that a toolset made for a run or a step has."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await super().get_tools(ctx)
        return {name: _marked(tool, {_SOURCE: f"mcp:{self.wrapped.id or 'server'}"}) for name, tool in tools.items()}


def denial(metadata: dict[str, Any] | None) -> str | None:
    """What the model is to be told of a call that was collected because a person said no."""
    return (metadata or {}).get(_DENIED)


def is_put_off(tool: ToolDefinition | None) -> bool:
    """Whether the framework would put off the calls of a tool that is one like any other here."""
    return tool is not None and _KIND in (tool.metadata or {})


async def ask_about(
    tool: ToolDefinition,
    shown: dict[str, Any],
    call_id: str,
    required: bool,
    metadata: dict[str, Any] | None,
    *,
    is_run: bool = True,
    refusal: str | None = None,
) -> Approval | None:
    """Whether a call may be made; ``is_run``: as of a ``ForeignCall``; ``refusal``: what was wrong with the arguments
    that a person gave before. A no is an ``ApprovalRequired`` that is denied once it is collected."""
    own = {name: value for name, value in (tool.metadata or {}).items() if name not in (OPTIONS, _KIND, _SOURCE)}
    said = {name: value for name, value in (metadata or {}).items() if name != OPTIONS}
    options = _options(tool, metadata)
    if refusal is not None:
        words = f"{REFUSED}{refusal[:_MOST_WORDS]}"
        options["description"] = f"{words} {options['description']}" if options.get("description") else words
    call = ForeignCall(
        tool_name=tool.name,
        arguments=shown,
        call_id=call_id,
        args_schema=tool.parameters_json_schema,
        source=(tool.metadata or {}).get(_SOURCE),
        options=cast(GateOptions, options),
        metadata=_plain({**own, **said}) or None,
        is_run=is_run,
    )
    try:
        return await approve(current_turn(), call, required=required)
    except REFUSALS as no:
        raise ApprovalRequired(metadata={_DENIED: str(no)}) from no


class Given(NamedTuple):
    """What people and rules say about a call."""

    approval: Approval | None
    read: dict[str, Any] | None = None
    """What the framework makes of the arguments that a person gave; None where nobody did, or it does not take them."""
    error: ValidationError | ModelRetry | None = None
    """Why it does not, where nobody is asked once more."""


async def ask_until_read(
    tool: ToolDefinition,
    shown: JudgedArguments,
    call_id: str,
    required: bool,
    metadata: dict[str, Any] | None,
    read: Callable[[dict[str, Any], bool], Awaitable[dict[str, Any] | None]],
) -> Given:
    """As ``ask_about``. Arguments that a person gave, and that ``read`` does not take, are asked for again, with its
    words: a schema, by which they were checked, says less than types and validators do.

    Those that the journal has as refused stay so, whatever ``read`` says of them by now, which is told of that. It is
    called all the same: it may have recorded something, and has the words where nobody has been asked again yet.
    """
    refusal: str | None = None
    while True:
        approval = await ask_about(
            tool, shown.arguments, call_id, required, metadata, is_run=shown.is_run, refusal=refusal
        )
        if approval is None or not approval.edited:
            return Given(approval)
        # An id may stand for several calls, one after the other: what comes after the next question is of a later one.
        is_kept = was_refused(current_turn(), call_id, f"approval:{call_id}")
        made: dict[str, Any] | None = None
        error: ValidationError | ModelRetry | None = None
        try:
            made = await read(approval.args, is_kept)
        except (ValidationError, ModelRetry) as wrong:
            error = wrong
        except Exception:
            # Of what is refused anyhow nobody wants to know what else is wrong with it by now.
            if not is_kept:
                raise
        if error is None and not is_kept:
            return Given(approval, made)
        if not await is_refused(current_turn(), tool.name, call_id):
            return Given(approval, error=error)
        refusal, required = _words(error), True


async def put_question(
    tool: ToolDefinition,
    shown: dict[str, Any],
    call_id: str,
    metadata: dict[str, Any] | None,
    kind: str = "external",
) -> Any:
    """What a person, or whoever is told of the interrupt, gives for the result of a call that does not run here. Raises
    ToolFailed for one that nobody can be shown."""
    options = _options(tool, metadata)
    type_ = options.get("type", "question" if kind == "question" else "external_call")
    said = {name: value for name, value in (metadata or {}).items() if name != OPTIONS}
    payload = {**_plain(said), "type": type_, "tool_name": tool.name, "tool_args": shown}
    schema = options.get("response_schema", tool.return_schema)
    turn = current_turn()
    if schema is not None:
        _core.check_response_schema(schema)
    try:
        checked = checked_payload(turn, payload)
    except InvalidPayload as error:
        raise ToolFailed(str(error)) from error
    return await turn.ask(
        type_,
        checked,
        message=options.get("description"),
        response_schema=schema,
        tool_call_id=call_id,
        key=f"ask:{call_id}",
        expires_in=seconds(f"the question of {tool.name}:", options.get("expires_in")),
        approvers=read_approvers(options.get("approvers")),
        read=schema_reader(type_, checked, schema),
        takes_past=True,
    )


def _marked(tool: ToolsetTool[Any], marks: dict[str, Any]) -> ToolsetTool[Any]:
    definition = tool.tool_def
    return replace(tool, tool_def=replace(definition, metadata={**(definition.metadata or {}), **marks}))


def _shown(tool: ToolsetTool[Any], arguments: dict[str, Any], ctx: RunContext[Any]) -> JudgedArguments:
    """What the model wrote, with the defaults of the schema, and whether it is that which runs; or what a hook has made
    of it, as JSON."""
    schema = usable(tool.tool_def.parameters_json_schema) or {}
    made = _unwrapped(tool, to_jsonable_python(arguments, by_alias=True, fallback=repr))
    call = current_call.get()
    if call is None or call.tool_call_id != ctx.tool_call_id:
        return JudgedArguments(made, True)
    written = call.args_as_dict()
    # Twice: a default may be a new one each time, and no hook's.
    reads = [read for read in (_validated(tool, written, ctx), _validated(tool, written, ctx)) if read is not None]
    new_each_time = {name for read in reads for name in read if read[name] != reads[0].get(name)}
    if not reads or _without(reads[0], new_each_time) != _without(arguments, new_each_time):
        return JudgedArguments(made, True)  # a hook has mended them
    shown = with_defaults(schema, written)
    run = _unwrapped(tool, as_shown(arguments, to_jsonable_python(arguments, by_alias=True, fallback=repr)))
    alike = _validated(tool, run, ctx) == arguments
    return JudgedArguments(shown, not new_each_time and says(shown, run, is_same_read=alike))


def shown_unread(tool: ToolsetTool[Any], call: ToolCallPart, ctx: RunContext[Any]) -> JudgedArguments:
    """The same of a call that was put off before anything was made of its arguments."""
    written = call.args_as_dict()
    made = _validated(tool, written, ctx)
    if made is None:
        return JudgedArguments(written, False)
    token = current_call.set(call)
    try:
        return _shown(tool, made, replace(ctx, tool_call_id=call.tool_call_id))
    finally:
        current_call.reset(token)


def _without(arguments: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def _unwrapped(tool: ToolsetTool[Any], made: dict[str, Any]) -> dict[str, Any]:
    """Of a tool whose one parameter is a model, the schema is the model's, and so are the arguments."""
    properties = tool.tool_def.parameters_json_schema.get("properties", {})
    if len(made) == 1 and not made.keys() <= properties.keys():
        (inner,) = made.values()
        return cast(dict[str, Any], inner) if isinstance(inner, dict) else made
    return made


def _validated(tool: ToolsetTool[Any], given: dict[str, Any], ctx: RunContext[Any]) -> dict[str, Any] | None:
    """What the framework makes of arguments; None where they do not fit."""
    try:
        made: dict[str, Any] = tool.args_validator.validate_python(given, context=ctx.validation_context)
        return with_lists(made)
    except ValidationError:
        return None


async def _read(
    tool: ToolsetTool[Any], given: dict[str, Any], was_refused: bool, *, ctx: RunContext[Any]
) -> dict[str, Any]:
    """A person's arguments, checked as the model's are. Raises ValidationError and ModelRetry."""
    arguments = read_types(tool, given, ctx)
    call_id = ctx.tool_call_id or tool.tool_def.name
    if tool.args_validator_func is not None and not (was_refused and only_types_refused(call_id)):
        checked = tool.args_validator_func(replace(ctx, tool_call_approved=True), **arguments)
        if checked is not None:
            await checked
    return arguments


def read_types(tool: ToolsetTool[Any], given: dict[str, Any], ctx: RunContext[Any]) -> dict[str, Any]:
    """What the types alone make of arguments. Raises ValidationError."""
    made: dict[str, Any] = tool.args_validator.validate_python(given, context=ctx.validation_context)
    return with_lists(made)


def only_types_refused(call_id: str) -> bool:
    """Of arguments that the journal has as refused: whether the validator of the tool, which is a step, never saw them.
    It must not be asked now: what is recorded goes on without."""
    return not is_recorded_before_refusal(current_turn(), f"validate:{call_id}", call_id)


def _words(error: ValidationError | ModelRetry | None) -> str:
    """What a person is told who is asked once more."""
    if error is None:
        return "the arguments did not fit when they came."
    return describe_errors(error) if isinstance(error, ValidationError) else error.message


async def reads_at_once(name: str, call_id: str) -> bool:
    """Whether a person's arguments of a collected call are read while others are still asked about: not where the
    journal is of a version that read them afterwards, in another task, and has what they recorded there."""
    return await goes_new_way(current_turn(), f"{name}.read_edit", f"read edit:{call_id}")


async def refused_edit(name: str, error: ValidationError | ModelRetry) -> ModelRetry | ToolFailed:
    """What is raised where a person's arguments do not fit, and nobody is asked once more: it is no try of the model's,
    of which it has few.

    A turn whose model was told to try again, by a version that did so, goes on as it began.
    """
    told = f"the arguments that a person gave do not fit {name}, so it did not run: {error}"
    return ToolFailed(told) if await patched("hitl.refused_edit") else ModelRetry(told)


def _rewrite(arguments: dict[str, Any], ctx: RunContext[Any]) -> None:
    """From here on the call is the one that a person wrote."""
    call = current_call.get()
    if call is not None and call.tool_call_id == ctx.tool_call_id:
        current_call.set(replace(call, args=arguments))


def _noted(result: Any, note: str | None) -> Any:
    """A result, with what the model is told beside it."""
    if note is None:
        return result
    if not isinstance(result, ToolReturn):
        return ToolReturn(result, content=note)
    before = [] if result.content is None else [result.content] if isinstance(result.content, str) else result.content
    return replace(result, content=[*before, note])


def _options(tool: ToolDefinition, metadata: dict[str, Any] | None) -> dict[str, Any]:
    """What a tool says, and what it has raised says over it."""
    found: dict[str, Any] = {}
    for said in (tool.metadata, metadata):
        if (own := (said or {}).get(OPTIONS)) is not None:
            found |= check_options(f"metadata[{OPTIONS!r}] of {tool.name}", own, "type", "response_schema")
    return found


def _plain(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata as JSON; what has none is shown as text."""
    return cast(dict[str, Any], to_jsonable_python(metadata, fallback=repr))
