"""The way of every tool call: check, guardrails, policy, person, digest, run, guardrails.

Whoever calls a tool, a model or Python, comes through `prepare_call`. The order is the promise: a person sees the
arguments as guardrails left them, and nothing may change them between the yes and the call.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hitl import _core
from hitl.decisions import ApprovalRequest, Decision
from hitl.tools.asking import ApprovalMismatch as ApprovalMismatch
from hitl.tools.asking import Question, ask, binding_call_id, offered_schema, rejection
from hitl.tools.context import Copies, RunContext
from hitl.tools.defaults import check
from hitl.tools.filled import says_resources
from hitl.tools.guarding import guard_input, guard_output
from hitl.tools.invoking import as_step, invoke
from hitl.tools.options import AnyTool
from hitl.tools.read_back import is_same
from hitl.tools.refused_edits import is_refused, was_refused
from hitl.tools.schema import Arguments, InvalidArguments
from hitl.turn.permits import permit, permitted
from hitl.turn.places import place_var
from hitl.turn.reasking import GUARDRAILS_CHANGED, REFUSED, TYPES_CHANGED
from hitl.turn.resource_parts import NoSuchResource
from hitl.turn.resources import Source
from hitl.turn.runtime import Turn, agent_name, current_turn
from hitl.turn.stopwatch import limit

logger = logging.getLogger("hitl.approvals")

# Characters that a question says of what is wrong with an edit: each item of a long list may be.
_MOST_WORDS = 1_000


@dataclass(frozen=True)
class ReadyCall:
    """A call that nothing stands in the way of any more."""

    turn: Turn | None
    tool: AnyTool
    arguments: Arguments
    tool_call_id: str | None
    digest: str | None = None
    """Of the arguments that were approved, where approval was asked for."""

    once: bool = False
    """Whether a crash in the middle is for a person to judge."""

    note: str | None = None
    """What the model is told beside the result: that the arguments are not its own."""

    shown: Mapping[str, Any] | None = None
    """The arguments as they may be shown: those that were approved, or else those of the model's message. What
    guardrails have made of these is nobody's to see."""

    responded: bool = False
    """Whether somebody answered in the tool's place; it does not run."""

    response: Any = None

    async def result(self) -> Any:
        """Run the tool, once, or take the response; then the output guardrails."""
        value = self.response if self.responded else await _run(self)
        guarded = await guard_output(self.turn, self.tool.name, self.tool.output_guardrails, value)
        if self.turn is not None and getattr(value, "asks_to_run", False) is True:
            # The call has stopped before what it was to do; the next one does it, since a person lets it.
            self.turn.let_through.add(self.tool.name)
        return guarded


async def prepare_call(
    turn: Turn | None,
    tool: AnyTool,
    given: Mapping[str, Any],
    *,
    tool_call_id: str | None = None,
    was_asked: bool = False,
    was_let: bool = False,
) -> ReadyCall:
    """Everything that comes before a call, persons included.

    `was_asked`: a hook has shown `given` to a person and let the call pass. That is an approval as any other: the call
    is `once`, and nothing may change what was shown. `was_let`: other code that stands before the call has asked a
    person, so the call is `once`; what was shown is that code's affair.

    Raises `InvalidArguments`, `ToolRejected`, `InterruptExpired`, `ApprovalMismatch`, and what guardrails raise.
    Outside a run (no `turn`) nothing is journaled, and a tool that needs approval is a `RuntimeError`.
    """
    if turn is None and tool.requires_approval is not False:
        raise RuntimeError(f"{tool.name}() needs a person's approval, and was called outside a hitl run")
    _require_resources(turn, tool)
    shown = await check(turn, tool, given)
    with permit() as gate:
        arguments = await guard_input(turn, tool, shown)
    if turn is None:
        return ReadyCall(turn, tool, arguments, tool_call_id, once=bool(tool.once))
    if was_asked and not shown.is_json(arguments.json):
        raise ApprovalMismatch(f"guardrails changed what a hook asked a person about, so {tool.name} did not run")
    if was_asked or tool.requires_approval is not False or turn.has_rules_for(tool.name, arguments.json):
        _require_shown(tool, arguments)
    with gate.again():
        required = await _needs_approval(turn, tool, arguments, tool_call_id)
    was_let = was_let or gate.asked or tool.name in turn.let_through
    once = was_asked or was_let if tool.once is None else tool.once
    said = None if tool_call_id is None else given
    if not required and not turn.has_rules_for(tool.name, arguments.json):
        digest = _digest(arguments) if was_asked else None
        return ReadyCall(turn, tool, arguments, tool_call_id, digest, once, shown=said)
    ready = await _decide(turn, tool, arguments, tool_call_id, required)
    return replace(ready, once=once or ready.once, shown=said if ready.shown is None else ready.shown)


async def call_tool(tool: AnyTool, given: Mapping[str, Any], *, tool_call_id: str | None = None) -> Any:
    """Call a tool with everything that stands before and after it; returns its result.

    Raises what `prepare_call` raises, and what the tool raises.
    """
    return await (await prepare_call(_turn_here(), tool, given, tool_call_id=tool_call_id)).result()


def call_tool_from_python(tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
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


# --- policy and person ---------------------------------------------------------------------------------------------


async def _decide(
    turn: Turn, tool: AnyTool, arguments: Arguments, tool_call_id: str | None, required: bool
) -> ReadyCall:
    """Ask for approval. While it is open, and once it is given, the call's id stands for this call alone."""
    if not required:
        return await _ask_until_clear(turn, tool, arguments, tool_call_id, required)
    with binding_call_id(turn, tool_call_id, tool.name, arguments.in_order) as keep:
        ready = await _ask_until_clear(turn, tool, arguments, tool_call_id, required)
        if not ready.responded:
            keep()
    return ready


async def _ask_until_clear(
    turn: Turn, tool: AnyTool, arguments: Arguments, tool_call_id: str | None, required: bool
) -> ReadyCall:
    """Ask until what was approved is what would run."""
    with permit():
        description = await _describe(turn, tool, arguments, tool_call_id)
        proposed = await _propose(turn, tool, arguments, tool_call_id, description) if required else None
    message, note = description, None
    schema = offered_schema(turn, tool.name, tool.edit_schema) if "edit" in tool.allowed_decisions else None
    # Without a schema to check it against, nobody can be offered an edit.
    allowed = tuple(kind for kind in tool.allowed_decisions if kind != "edit" or schema is not None)
    while True:
        question = Question(
            tool_name=tool.name,
            arguments=arguments.json,
            allowed=allowed or ("reject",),
            description=message,
            args_schema=schema,
            tool_call_id=tool_call_id,
            source=tool.source,
            approvers=tool.approvers,
            required=required,
            proposed=None if proposed is None else proposed.to_json(),
        )
        decision = await ask(turn, question)
        once = tool.once if tool.once is not None else required or decision.get("by") == "person"
        if decision["type"] == "respond":
            return ReadyCall(turn, tool, arguments, tool_call_id, responded=True, response=decision["message"])
        if decision["type"] == "approve":
            break
        by_code = proposed is not None and proposed.type == "edit" and decision["args"] == proposed.args
        try:
            given = await _read_edit(turn, tool, decision["args"], tool_call_id)
        except InvalidArguments as error:
            # The schema, against which the answer was checked, says less than the types do.
            if by_code or not await is_refused(turn, tool.name, tool_call_id or tool.name):
                said = f"the arguments that a person gave do not fit {tool.name}: {error}"
                raise InvalidArguments(said) from error
            required, proposed = True, None
            refused = f"{REFUSED}{str(error)[:_MOST_WORDS]}"
            message = refused if description is None else f"{refused} {description}"
            continue
        with permit():
            arguments, answer = await _recheck(turn, tool, given, tool_call_id, description)
        if answer is not None:
            return ReadyCall(turn, tool, arguments, tool_call_id, responded=True, response=answer.message)
        if arguments is not given:
            _require_shown(tool, arguments)
        note = _edit_note(arguments.json, by_code)
        is_given = given.is_json(arguments.json)
        if is_given and (by_code or _is_as_said(turn, tool, given, decision["args"], schema)):
            break
        required, proposed = True, None
        description = await _describe(turn, tool, arguments, tool_call_id)
        changed = TYPES_CHANGED if is_given else GUARDRAILS_CHANGED
        message = changed if description is None else f"{changed} {description}"
    digest = _digest(arguments)
    was_shown = required or decision.get("by") == "person"
    return ReadyCall(
        turn, tool, arguments, tool_call_id, digest, once, note, shown=arguments.json if was_shown else None
    )


async def _read_edit(turn: Turn, tool: AnyTool, said: dict[str, Any], tool_call_id: str | None) -> Arguments:
    """Edited arguments, checked. `InvalidArguments` also for those that the journal has as refused, whatever the types
    say of them by now: a deploy may have loosened them."""
    is_kept = _was_refused(turn, tool, tool_call_id)
    if is_kept:
        given = tool.check(said)  # nothing was recorded of it
    else:
        given = await check(turn, tool, said)
        is_kept = _was_refused(turn, tool, tool_call_id)  # what was recorded of it came before that
    _require_shown(tool, given)
    if is_kept:
        raise InvalidArguments("the arguments did not fit when they came")
    return given


def _was_refused(turn: Turn, tool: AnyTool, tool_call_id: str | None) -> bool:
    """Whether the journal has it that the arguments which a person just gave were refused, and goes on here with a
    question, if at all. Of a call without an id, what is recorded may be of another one beside it."""
    place = place_var.get()
    if place is None or not was_refused(turn, tool_call_id or tool.name, None):
        return False
    path = place.following_step()
    recorded = turn.order.recorded_step(path)
    if recorded is None:
        return tool_call_id is not None
    return recorded[1]["path"] == path and recorded[1]["kind"] == "interrupt"


def _is_as_said(
    turn: Turn, tool: AnyTool, given: Arguments, said: dict[str, Any], schema: dict[str, Any] | None
) -> bool:
    """Whether what would run is what a person said, with the defaults that the schema names: so it is in the audit.

    An MCP server fills its defaults in by itself. In the replay of another release's turn, whether that took it so.
    """
    asked_again = _is_asked_again(turn, tool)
    if asked_again is not None:
        return not asked_again
    wholes = [said] if schema is None else [said, _core.with_defaults(said, schema)]
    return any(is_same(given.json, tool.parameters.in_order(given.values, whole)) for whole in wholes)


def _is_asked_again(turn: Turn, tool: AnyTool) -> bool | None:
    """Whether the journal has another question about an edited call; None where it does not go on."""
    place = place_var.get()
    path = "" if place is None else place.following_step()
    recorded = None if place is None else turn.order.recorded_step(path)
    if recorded is None:
        return None
    step = recorded[1]
    if step["path"] != path:  # in the step of the call
        return False
    return step["kind"] == "interrupt" or step["name"] == _description_step(tool)  # which is made for a question


def _edit_note(arguments: dict[str, Any], by_code: bool) -> str:
    if by_code:
        return f"[The arguments of this call were changed to {_core.to_json(arguments)}]"
    return _core.edited_text(arguments)


async def _recheck(
    turn: Turn, tool: AnyTool, given: Arguments, tool_call_id: str | None, description: str | None
) -> tuple[Arguments, Decision | None]:
    """Edited arguments go the way of the model's: guardrails, then `on_approval`, which may still refuse, change, or
    answer in the tool's place; this is the second of what is returned."""
    arguments = await guard_input(turn, tool, given)
    said = await _propose(turn, tool, arguments, tool_call_id, description)
    if said is not None and said.type == "reject":
        decision = {"reason": said.reason, "message": said.message, "by": "person"}
        raise rejection(turn, tool.name, arguments.json, decision)
    if said is not None and said.type == "edit" and said.args is not None and not arguments.is_json(said.args):
        arguments = await guard_input(turn, tool, await check(turn, tool, said.args))
    if said is not None and said.type == "respond" and await _answers_edit(turn, tool):
        return arguments, said
    return arguments, None


async def _answers_edit(turn: Turn, tool: AnyTool) -> bool:
    """Whether an answer of `on_approval` to an edited call is taken: not where the journal is of a release that went on
    to ask or to run all the same."""
    name = f"{tool.name}.answered_edit"
    place = place_var.get()
    recorded = None if place is None else turn.order.recorded_step(place.following_step())
    if recorded is not None and recorded[1]["name"] != name:
        return False

    async def body() -> bool:
        return True

    taken: bool = await turn.run_step("policy", name, body)
    return taken


async def _needs_approval(turn: Turn, tool: AnyTool, arguments: Arguments, tool_call_id: str | None) -> bool:
    policy = tool.requires_approval
    if isinstance(policy, bool):
        return policy

    source = turn.resources if turn.resources is not None and says_resources(policy) else None

    async def ask_policy() -> bool:
        context = make_context(turn, tool_call_id, source)
        try:
            verdict = await invoke(turn, policy, context, copy.deepcopy(arguments.json))
        except Exception as error:  # noqa: BLE001  (a policy that cannot tell is no permission)
            logger.warning("approval policy of tool %s raised %s: a person is asked", tool.name, type(error).__name__)
            return True
        if not isinstance(verdict, bool):
            got = type(verdict).__name__
            logger.warning("approval policy of tool %s returned a %s: a person is asked", tool.name, got)
            return True
        return verdict

    required: bool = await turn.run_step("policy", tool.name, ask_policy, arguments=arguments.json, source=source)
    return required


async def _describe(turn: Turn, tool: AnyTool, arguments: Arguments, tool_call_id: str | None) -> str | None:
    """What is said to the person beside the arguments."""
    describe = tool.approval_description
    if describe is None or isinstance(describe, str):
        return describe
    source = turn.resources if turn.resources is not None and says_resources(describe) else None

    async def say() -> str | None:
        context = make_context(turn, tool_call_id, source)
        try:
            text = await invoke(turn, describe, context, copy.deepcopy(arguments.json))
        except Exception as error:  # noqa: BLE001  (the person still sees the arguments)
            logger.warning("approval_description of tool %s raised %s", tool.name, type(error).__name__)
            return None
        if text is not None and not isinstance(text, str):
            logger.warning("approval_description of tool %s returned a %s", tool.name, type(text).__name__)
            return None
        return text

    text: str | None = await turn.run_step(
        "policy", _description_step(tool), say, arguments=arguments.json, source=source
    )
    return text


def _description_step(tool: AnyTool) -> str:
    return f"{tool.name}.approval_description"


async def _propose(
    turn: Turn, tool: AnyTool, arguments: Arguments, tool_call_id: str | None, description: str | None
) -> Decision | None:
    """What `on_approval` says; None where a person is to be asked."""
    decide = tool.on_approval
    if decide is None:
        return None

    async def ask_code() -> dict[str, Any] | None:
        context = make_context(turn, tool_call_id)
        shown = copy.deepcopy(arguments.json)
        request = ApprovalRequest(tool.name, shown, tool_call_id, context.agent, context.context, description)
        try:
            said: Any = await invoke(turn, decide, request)
            if said is None:
                return None
            if not isinstance(said, Decision):
                got = type(said).__name__
                logger.warning("on_approval of tool %s returned a %s: a person is asked", tool.name, got)
                return None
            if said.type == "edit":  # also what the tool takes, or it is no decision
                return {**said.to_json(), "args": tool.check(said.args or {}).json}
            plain: dict[str, Any] = json.loads(json.dumps(said.to_json(), allow_nan=False))
            return plain
        except Exception as error:  # noqa: BLE001  (code that cannot tell is no permission)
            # Not its words: they may hold the arguments.
            reason = "an edit that does not fit" if isinstance(error, InvalidArguments) else type(error).__name__
            logger.warning("on_approval of tool %s failed with %s: a person is asked", tool.name, reason)
            return None

    proposed = await turn.run_step("policy", f"{tool.name}.on_approval", ask_code, arguments=arguments.json)
    return None if proposed is None else Decision(**proposed)


# --- the call -----------------------------------------------------------------------------------------------------


def make_context(
    turn: Turn | None, tool_call_id: str | None, source: Source[Any] | None = None, *, is_call: bool = False
) -> RunContext[Any]:
    """What user code may know about its run; made inside its step, for which `source` was opened. `is_call`: the step
    is that of the call itself, which alone has an idempotency key."""
    if turn is None:
        return RunContext(tool_call_id=tool_call_id)
    return RunContext(
        context=turn.context,
        tool_call_id=tool_call_id,
        agent=agent_name.get() or turn.agent,
        session_id=turn.session_id,
        idempotency_key=turn.idempotency_key() if is_call else None,
        resources=None if source is None else source.value,
        conversation=Copies(turn.conversation),
    )


async def _run(call: ReadyCall) -> Any:
    turn, tool, arguments = call.turn, call.tool, call.arguments
    source = turn.resources if turn is not None and tool.takes_resources else None

    async def body() -> Any:
        if call.digest is not None:
            _check_digest(tool, arguments, call.digest)
        function = tool.bind(arguments, make_context(turn, call.tool_call_id, source, is_call=True))
        async with limit(tool.timeout, tool.name, goes_on=tool.goes_on):
            value = await invoke(turn, function)
            _check_done(tool, value)
            # What a generator does it does here, in a thread and within the tool's time, and not when it is stored.
            return await invoke(turn, list, value) if turn is not None and inspect.isgenerator(value) else value

    with permitted():
        return await as_step(
            turn,
            "tool",
            tool.name,
            body,
            arguments.json,
            once=call.once,
            tool_call_id=call.tool_call_id,
            shown=call.shown,
            source=source,
        )


def _check_done(tool: AnyTool, value: Any) -> None:
    """What is still to be done is no result, of which a model would read that there is an object at some address."""
    if inspect.iscoroutine(value):
        value.close()
    elif not inspect.isasyncgen(value):
        return
    kind = "a coroutine" if inspect.iscoroutine(value) else "an async generator"
    raise TypeError(f"{tool.name} returned {kind}, {value.__name__}(), that nobody has awaited: is an `await` missing?")


def _require_resources(turn: Turn | None, tool: AnyTool) -> None:
    """Before anybody is asked: `NoSuchResource` where the tool could not be called whatever they say."""
    if (needed := tool.needed_resource) is None or (turn is not None and turn.resources is not None):
        return
    where = "was called outside a hitl run" if turn is None else "its agent has no resources"
    raise NoSuchResource(
        f"the tool {tool.name!r} takes a resource as {needed!r}, and {where}\n\n"
        "hint: declare them, for example ReActAgent(resources=...) with what @hitl.resources made"
    )


def _require_shown(tool: AnyTool, arguments: Arguments) -> None:
    """People, rules and policies judge the JSON, so the JSON must say all of it."""
    unread = tool.parameters.find_unread(arguments.values, arguments.json)
    if unread is not None:
        raise InvalidArguments(f"{unread}; {tool.name} did not run")


def _digest(arguments: Arguments) -> str:
    digest: str = _core.digest(arguments.in_order)
    return digest


def _check_digest(tool: AnyTool, arguments: Arguments, digest: str) -> None:
    """The very objects the function gets are compared, not the JSON they were made from."""
    now = tool.parameters.to_json(arguments.values)
    if _core.digest(now) != digest or tool.parameters.find_unread(arguments.values, now) is not None:
        raise ApprovalMismatch(f"the arguments of {tool.name} changed after they were approved, so it did not run")
