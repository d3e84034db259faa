"""From the tool calls of a model's message to the tool messages that answer them."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

from hitl.agents.handoffs import HandoffTool
from hitl.agents.participant import Participant
from hitl.agents.seams import AgentRun, Hook, HookCall, HookFailed, ToolCallRequest
from hitl.agents.tool_results import content_of, error_content
from hitl.attachments import Attachment
from hitl.errors import HitlError, ReplayMismatch, WorkerProtocolError
from hitl.messages import ChatMessage, ToolCall
from hitl.strict_json import sendable
from hitl.tools.approvals import ReadyCall, prepare_call
from hitl.tools.definition import Tool
from hitl.tools.guardrails import guardrail_name
from hitl.tools.invoking import invoke
from hitl.tools.schema import InvalidArguments, parse_arguments
from hitl.turn.permits import permit
from hitl.turn.places import place_var
from hitl.turn.reporting import frames_outside
from hitl.turn.resource_parts import NoSuchResource
from hitl.turn.runtime import Turn, agent_name

logger = logging.getLogger("hitl.agents")


@dataclass(frozen=True)
class Answered:
    """What came of one call."""

    message: ChatMessage
    """For the model."""

    handoff: Participant | None = None
    """Who has the conversation now, where the call handed it over."""


class ToolBox:
    """The tools of one agent in one turn."""

    def __init__(
        self, turn: Turn, tools: Sequence[Tool[..., Any]], hooks: tuple[Hook, ...] = (), most_at_once: int | None = None
    ):
        """`most_at_once`: how many calls may run at once; None for as many as there are."""
        check_names(tools)
        self._turn = turn
        # What comes before a call, persons above all, takes no place: many may be asked while few run.
        self._places = nullcontext() if most_at_once is None else asyncio.Semaphore(most_at_once)
        self._tools = {tool.name: tool for tool in tools}
        self._hooks = hooks

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    @property
    def names(self) -> list[str]:
        """What the tools are called."""
        return [*self._tools]

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """The tools as a model request lists them."""
        return [tool.definition for tool in self._tools.values()]

    def request_of(self, call: ToolCall, doomed: Mapping[str, str], run: AgentRun) -> ToolCallRequest | None:
        """The call as middleware sees it; None for one that cannot be read, which only `answer` can say."""
        name = call["function"]["name"]
        try:
            args = parse_arguments(call["function"]["arguments"])
        except InvalidArguments:
            return None
        if call["id"] in doomed:
            return None
        shown = {"name": name, "args": args, "id": call["id"], "type": "tool_call"}
        return ToolCallRequest(shown, self._tools.get(name), run.state, run.runtime)

    async def answer(
        self, call: ToolCall, calls: Sequence[ToolCall], doomed: Mapping[str, str], was_let: bool = False
    ) -> Answered:
        """Run one of a message's calls; whatever a model or a tool can do wrong is an error message to the model.

        `doomed`: see `own_ids`. `was_let`: see `prepare_call`.
        """
        name = call["function"]["name"]
        handoff = None
        ready: ReadyCall | None = None
        attached: list[Attachment] = []
        try:
            tool, given = self._read(call, calls, doomed)
            content, was_asked = await self._show_to_hooks(call, given)
            if content is None:
                ready = await prepare_call(
                    self._turn, tool, given, tool_call_id=call["id"], was_asked=was_asked, was_let=was_let
                )
                async with self._places:
                    content, attached = content_of(await ready.result())
                if isinstance(tool, HandoffTool) and not ready.responded:
                    handoff = tool.target
        except (ReplayMismatch, WorkerProtocolError, HookFailed, NoSuchResource):
            raise  # not the tool's failure: this turn cannot go on
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            content = error_content(RuntimeError("the tool cancelled itself"))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a tool raises is the model's to read)
            _log_failure(name, error)
            content = error_content(error)
        if ready is not None and ready.note is not None:
            content = f"{content}\n\n{ready.note}"
        said = ChatMessage.tool_message(
            content=sendable(content), tool_call_id=call["id"], name=name, attachments=attached or None
        )
        return Answered(said, handoff)

    def _read(
        self, call: ToolCall, calls: Sequence[ToolCall], doomed: Mapping[str, str]
    ) -> tuple[Tool[..., Any], dict[str, Any]]:
        """The tool and its arguments; `InvalidArguments` for a call that cannot be one."""
        name = call["function"]["name"]
        if call["id"] in doomed:
            shared = doomed[call["id"]]
            raise InvalidArguments(f"several calls of this message have the id {shared!r}: none of them ran")
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            self._check_never_known(name, known, call["id"])
            raise InvalidArguments(f"unknown tool {name!r}; known tools: {known}")
        if isinstance(tool, HandoffTool):
            handoffs = [each for each in calls if isinstance(self._tools.get(each["function"]["name"]), HandoffTool)]
            if handoffs[0]["id"] != call["id"]:
                first = handoffs[0]["function"]["name"]
                raise InvalidArguments(f"a message hands over once, and {first} came first: {name} did nothing")
        return tool, parse_arguments(call["function"]["arguments"])

    def _check_never_known(self, name: str, known: str, call_id: str) -> None:
        """`ReplayMismatch` where the agent had the tool when this call began: a call of none leaves no entries, but for
        those of middleware, which bear neither the call's id nor the tool's name."""
        place = place_var.get()
        recorded = None if place is None else self._turn.order.recorded_step(place.following_step())
        if recorded is None:
            return
        index, step = recorded
        if step.get("tool_call_id") != call_id and name not in (step["name"], step["name"].partition(".")[0]):
            return
        agent = agent_name.get() or self._turn.agent or "agent"
        gone = ReplayMismatch(
            f"the tool {name!r} is gone: its call is in the journal, and {agent!r} has no tool of that name any more\n"
            f'  recorded:  {step["kind"]} "{step["name"]}" ({step["path"]}), entry {index}, of a call of {name!r}\n'
            f"  attempted: nothing; the tools are: {known}\n\n"
            f"hint: give the agent a tool of that name until the turns that called it are over; one that was renamed "
            f"also as tool(..., name={name!r}). The answers are kept; the turn is retried when the code version "
            "changes, and on POST /sessions/{id}/retry."
        )
        self._turn.fail(gone)
        raise gone

    async def _show_to_hooks(self, call: ToolCall, given: Mapping[str, Any]) -> tuple[str | None, bool]:
        """Show the call to each hook: the text of the first that cancels it, and whether one asked a person."""
        name = call["function"]["name"]
        was_asked = False
        for hook in self._hooks:

            async def look(hook: Hook = hook) -> str | bool | None:
                agent = agent_name.get() or self._turn.agent
                seen = HookCall(name, copy.deepcopy(dict(given)), call["id"], agent)
                text = await invoke(self._turn, hook, seen)
                if text is not None and not isinstance(text, str):
                    got = type(text).__name__
                    raise TypeError(f"hook {guardrail_name(hook)!r} must return None or a str, got {got}")
                step = self._turn.current_step
                return True if text is None and step is not None and step.asked else text

            with permit():
                said = await self._turn.run_step(
                    "hook", f"{name}.{guardrail_name(hook)}", look, arguments=dict(given), tool_call_id=call["id"]
                )
            if isinstance(said, str):
                return said, was_asked
            was_asked = was_asked or said is True
        return None, was_asked


def changed_call(call: ToolCall, shown: ToolCallRequest, request: Any) -> ToolCall:
    """The call that middleware makes of one that it was shown: the same, with the arguments that it gave."""
    if not isinstance(request, ToolCallRequest):
        raise TypeError(f"the handler of wrap_tool_call takes a ToolCallRequest, got {type(request).__name__}")
    name, args = call["function"]["name"], request.tool_call["args"]
    if (request.tool_call["name"], request.tool_call["id"]) != (name, call["id"]):
        raise TypeError(f"wrap_tool_call cannot make a call of {name!r} another one: its name and id stay")
    if args == parse_arguments(call["function"]["arguments"]):
        return call
    written = json.dumps(args, ensure_ascii=False, allow_nan=False)
    return cast(ToolCall, {**call, "function": {**call["function"], "arguments": written}})


def check_names(tools: Iterable[Tool[..., Any]]) -> None:
    """`ValueError` where two tools of an agent share a name."""
    seen: dict[str, Tool[..., Any]] = {}
    for tool in tools:
        if tool.name in seen:
            sources = [each.source.rpartition(":")[0] for each in (seen[tool.name], tool) if each.source is not None]
            hint = "rename one with tool(..., name=...)"
            if sources:
                hint = f"MCPTools(..., prefix='docs_') renames those of a server, here {' and '.join(sources)}"
            raise ValueError(f"two tools are called {tool.name!r}\n\nhint: {hint}")
        seen[tool.name] = tool


def own_ids(message: ChatMessage) -> tuple[ChatMessage, dict[str, str]]:
    """The message with an id of its own for every call, and the new ids of those that shared one (new -> shared).

    Which of two calls an answer to their common id would mean nobody can tell, so neither may run; they get new
    ids because providers refuse a history with the old.
    """
    calls = message.tool_calls or []
    ids = [call["id"] for call in calls]
    if len(set(ids)) == len(ids):
        return message, {}
    doomed: dict[str, str] = {}
    renamed: list[ToolCall] = []
    for index, call in enumerate(calls):
        if ids.count(call["id"]) > 1:
            new = f"{call['id']}_{index}"
            while new in ids or new in doomed:
                new += "_"
            doomed[new] = call["id"]
            renamed.append(cast(ToolCall, {**call, "id": new}))
        else:
            renamed.append(call)
    return ChatMessage.from_dict({**message.to_dict(), "tool_calls": renamed}), doomed


def _log_failure(name: str, error: BaseException) -> None:
    """Say where a tool of the author's raised, once: not what, for an error's text may hold arguments, and not again in
    a replay, which has the error alone. What hitl raises is for the model, and says all."""
    frames = "" if isinstance(error, HitlError) else frames_outside(error)
    if frames:
        logger.warning("tool %s failed with %s, raised at\n%s", name, type(error).__name__, frames.rstrip())
    else:
        logger.debug("tool %s failed with %s", name, type(error).__name__)
