"""What turns did that came to no answer, as messages: the user's, the model's calls, and what came of each.

The turn that comes after them has it in its `start` entry (`abandoned` in docs/worker-protocol.md), so that a replay
reads the same. It is told in the order in which it happened and in the form of any conversation: providers accept that,
and clients read it afterwards in the session's messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hitl import _core
from hitl.agents.participant import Participant
from hitl.agents.tool_calls import own_ids
from hitl.agents.tool_results import content_of, error_content
from hitl.errors import InterruptExpired, ReplayMismatch, WorkerProtocolError
from hitl.journal.codec import decode
from hitl.messages import ChatMessage
from hitl.tools.asking import rejection
from hitl.tools.definition import Tool
from hitl.tools.guarding import guard_output
from hitl.turn.runtime import Turn
from hitl.turn.steps import patched

UNFINISHED: Final = object()
"""What ``read`` of ``tell_elsewhere`` makes of a record that is no result: the call stopped there, to ask."""

_NOT_SHOWN = "[The tool ran. Its result is too long to be shown.]"

_ERRORS = {
    "undecided": "nobody decided over this call before its turn was over: it did not run",
    "unknown": "the outcome of this call is unknown: it had begun when its turn was cut off, and may have taken effect",
    "unfinished": "nothing is recorded of the end of this call: its turn was over before, and it may have run in part",
}
"""What a model is told of a call that came to nothing: true of a turn that was given up, failed or was cancelled."""


async def tell_abandoned(turn: Turn, agent: Participant, state: Sequence[ChatMessage]) -> list[ChatMessage]:
    """What `agent` has to be told before the turn's message; nothing where `state` holds it already, and for an agent
    that is called as a tool, which has a conversation of its own."""
    abandoned = turn.abandoned
    if abandoned is None or turn.current_step is not None:
        return []
    tools = {tool.name: tool for each in agent.reachable() for tool in each.tools}

    async def asked(message: ChatMessage) -> list[ChatMessage]:
        *before, message = agent.messages_of(message)
        return [*before, await agent.guard_input(turn, message)]

    return await _told(_Teller(turn, tools), abandoned, asked, state)


async def tell_elsewhere(turn: Turn, state: Sequence[ChatMessage], read: Callable[[Any], Any]) -> list[ChatMessage]:
    """The same for the agent of another framework, whose guardrails have been where it has put them. ``read``: the
    result that a framework's own record of one holds, as a tool of ours would return it, or ``UNFINISHED``.

    A turn that was begun by a version that told nothing goes on as it began: its journal says which it is.
    """
    abandoned = turn.abandoned
    if abandoned is None or turn.current_step is not None or not await patched("hitl.tell_elsewhere"):
        return []

    async def asked(message: ChatMessage) -> list[ChatMessage]:
        return [message]

    return await _told(_Teller(turn, read=read), abandoned, asked, state)


def as_text(told: Sequence[ChatMessage]) -> str:
    """What was told as one text, for agents that have no conversation that it could be a part of."""
    lines = ["What was done for earlier messages, which have no answer:"]
    for message in told:
        if message.role == "tool":
            lines.append(f"{message.name} ({message.tool_call_id}) came to: {message.content}")
            continue
        lines += [f"{message.role}: {message.content}"] if message.content else []
        for call in message.tool_calls or ():
            lines.append(f"called {call['function']['name']} ({call['id']}) with {call['function']['arguments']}")
    return "\n".join(lines)


@dataclass(frozen=True)
class _Teller:
    """Makes the messages of what one turn is told."""

    turn: Turn
    tools: Mapping[str, Tool[..., Any]] = field(default_factory=dict)
    """Those whose output guardrails see results that they had not seen."""
    read: Callable[[Any], Any] = lambda value: value


async def _told(
    teller: _Teller,
    abandoned: Mapping[str, Any],
    asked: Callable[[ChatMessage], Awaitable[list[ChatMessage]]],
    state: Sequence[ChatMessage],
) -> list[ChatMessage]:
    """All of it; ``asked``: what a message that a turn was to answer stands for."""
    told: list[ChatMessage] = []
    for each in abandoned["turns"]:
        told += await asked(ChatMessage.from_dict(each["message"]))
        for reply in each["replies"]:
            told += await _reply(teller, reply)
    if left_out := abandoned.get("left_out"):
        note = f"[{left_out} older tool calls are left out here]"
        told[0] = replace(told[0], content=f"{told[0].content or ''}\n\n{note}")
    is_told = any(list(state[start : start + len(told)]) == told for start in range(len(state) - len(told) + 1))
    return [] if is_told else told


async def _reply(teller: _Teller, reply: Mapping[str, Any]) -> list[ChatMessage]:
    """A message of a model, and the tool messages that answer its calls."""
    calls = reply["calls"]
    shown: list[Any] = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls
    ]
    message, _ = own_ids(ChatMessage.assistant_message(content=reply.get("content"), tool_calls=shown))
    contents = [await _content(teller, call) for call in calls]
    if within := reply.get("within"):
        # Which of several calls it was inside of nobody needs to know, but that it happened.
        place = next((at for at, call in enumerate(calls) if call["outcome"] in ("unfinished", "unknown")), 0)
        inside = [await _inside(teller, call) for call in within]
        contents[place] = json.dumps({"error": _ERRORS["unfinished"], "inside": inside}, ensure_ascii=False)
    answered = [
        ChatMessage.tool_message(content=content, tool_call_id=call["id"], name=call["function"]["name"])
        for content, call in zip(contents, message.tool_calls or [], strict=True)
    ]
    return [message, *answered]


async def _inside(teller: _Teller, call: Mapping[str, Any]) -> dict[str, Any]:
    """What finished, or was rejected, inside of a call that came to no end."""
    told: dict[str, Any] = {"name": call["name"]}
    if (arguments := call.get("arguments")) is not None:
        told["arguments"] = _read(arguments)
    content = "finished" if call["outcome"] == "finished" else await _content(replace(teller, tools={}), call)
    told["result"] = _read(content)
    return told


def _read(text: str) -> Any:
    """JSON where it is some, for a text that becomes part of other JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _content(teller: _Teller, call: Mapping[str, Any]) -> str:
    """What a tool message says of a call."""
    outcome = call["outcome"]
    if isinstance(outcome, str):
        if outcome == "expired":
            return error_content(InterruptExpired("nobody answered in time"))
        return json.dumps({"error": _ERRORS[outcome]})
    [(kind, said)] = outcome.items()
    if kind == "failed":
        return json.dumps({"error": said}, ensure_ascii=False)
    if kind == "rejected":
        return error_content(rejection(teller.turn, call["name"], _arguments(call), said))
    try:
        content = await _result(teller, call, kind, said)
    except (ReplayMismatch, WorkerProtocolError, asyncio.CancelledError):
        raise
    except Exception as error:  # noqa: BLE001 - what a guardrail raises over a result is told in its place
        content = error_content(error)
    if (edited := call.get("edited")) is not None:
        content = f"{content}\n\n[The arguments of this call were changed to {_core.to_json(edited)}]"
    return content


async def _result(teller: _Teller, call: Mapping[str, Any], kind: str, said: Any) -> str:
    """What a call returned, as its output guardrails leave it: those that had not seen it do now."""
    tool = teller.tools.get(call["name"])
    unseen = () if tool is None else tool.output_guardrails[call.get("guardrails", 0) :]
    if kind == "beginning":
        return _NOT_SHOWN if unseen else f"{said}...\n\n[The rest of this result is left out]"
    value = teller.read(_decoded(said)) if kind == "value" else said
    if value is UNFINISHED:
        return json.dumps({"error": _ERRORS["unfinished"]})
    # Where something was attached stands its mark already (src/domain/journal/abandoned.rs).
    content, _ = content_of(await guard_output(teller.turn, call["name"], unseen, value))
    return content


def _decoded(value: Any) -> Any:
    try:
        return decode(value)
    except Exception:  # noqa: BLE001 - a class that is gone: the JSON still says what there was
        return value


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = _read(call.get("arguments") or "")
    return arguments if isinstance(arguments, dict) else {}
