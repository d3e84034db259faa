"""What turns did that nobody took up again, as messages: the user's, the model's calls, and what came of each.

The turn that comes after them has it in its `start` entry (`abandoned` in docs/worker-protocol.md), so that a replay
reads the same. It is told in the order in which it happened and in the form of any conversation: providers accept that,
and clients read it afterwards in the session's messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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

_NOT_SHOWN = "[The tool ran. Its result is too long to be shown.]"

_ERRORS = {
    "undecided": "nobody decided over this call before its turn was given up: it did not run",
    "unknown": "the outcome of this call is unknown: it had begun when its turn was cut off, and may have taken effect",
    "unfinished": "nothing is recorded of the end of this call: its turn was given up, and it may have run in part",
}
"""What a model is told of a call that came to nothing."""


async def tell_abandoned(turn: Turn, agent: Participant, state: Sequence[ChatMessage]) -> list[ChatMessage]:
    """What `agent` has to be told before the turn's message; nothing where `state` holds it already, and for an agent
    that is called as a tool, which has a conversation of its own."""
    abandoned = turn.abandoned
    if abandoned is None or turn.current_step is not None:
        return []
    tools = {tool.name: tool for each in agent.reachable() for tool in each.tools}
    told: list[ChatMessage] = []
    for each in abandoned["turns"]:
        *before, message = agent.messages_of(ChatMessage.from_dict(each["message"]))
        told += [*before, await agent.guard_input(turn, message)]
        for reply in each["replies"]:
            told += await _reply(turn, reply, tools)
    if left_out := abandoned.get("left_out"):
        note = f"[{left_out} older tool calls are left out here]"
        told[0] = replace(told[0], content=f"{told[0].content or ''}\n\n{note}")
    is_told = any(list(state[start : start + len(told)]) == told for start in range(len(state) - len(told) + 1))
    return [] if is_told else told


async def _reply(turn: Turn, reply: Mapping[str, Any], tools: Mapping[str, Tool[..., Any]]) -> list[ChatMessage]:
    """A message of a model, and the tool messages that answer its calls."""
    calls = reply["calls"]
    shown: list[Any] = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls
    ]
    message, _ = own_ids(ChatMessage.assistant_message(content=reply.get("content"), tool_calls=shown))
    contents = [await _content(turn, call, tools) for call in calls]
    if within := reply.get("within"):
        # Which of several calls it was inside of nobody needs to know, but that it happened.
        place = next((at for at, call in enumerate(calls) if call["outcome"] in ("unfinished", "unknown")), 0)
        inside = [await _inside(turn, call) for call in within]
        contents[place] = json.dumps({"error": _ERRORS["unfinished"], "inside": inside}, ensure_ascii=False)
    answered = [
        ChatMessage.tool_message(content=content, tool_call_id=call["id"], name=call["function"]["name"])
        for content, call in zip(contents, message.tool_calls or [], strict=True)
    ]
    return [message, *answered]


async def _inside(turn: Turn, call: Mapping[str, Any]) -> dict[str, Any]:
    """What finished, or was rejected, inside of a call that came to no end."""
    told: dict[str, Any] = {"name": call["name"]}
    if (arguments := call.get("arguments")) is not None:
        told["arguments"] = _read(arguments)
    told["result"] = "finished" if call["outcome"] == "finished" else _read(await _content(turn, call, {}))
    return told


def _read(text: str) -> Any:
    """JSON where it is some, for a text that becomes part of other JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _content(turn: Turn, call: Mapping[str, Any], tools: Mapping[str, Tool[..., Any]]) -> str:
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
        return error_content(rejection(turn, call["name"], _arguments(call), said))
    try:
        content = await _result(turn, call, kind, said, tools.get(call["name"]))
    except (ReplayMismatch, WorkerProtocolError, asyncio.CancelledError):
        raise
    except Exception as error:  # noqa: BLE001 - what a guardrail raises over a result is told in its place
        content = error_content(error)
    if (edited := call.get("edited")) is not None:
        content = f"{content}\n\n[The arguments of this call were changed to {_core.to_json(edited)}]"
    return content


async def _result(turn: Turn, call: Mapping[str, Any], kind: str, said: Any, tool: Tool[..., Any] | None) -> str:
    """What a call returned, as its output guardrails leave it: those that had not seen it do now."""
    unseen = () if tool is None else tool.output_guardrails[call.get("guardrails", 0) :]
    if kind == "beginning":
        return _NOT_SHOWN if unseen else f"{said}...\n\n[The rest of this result is left out]"
    value = _decoded(said) if kind == "value" else said
    # Where something was attached stands its mark already (src/domain/journal/abandoned.rs).
    content, _ = content_of(await guard_output(turn, call["name"], unseen, value))
    return content


def _decoded(value: Any) -> Any:
    try:
        return decode(value)
    except Exception:  # noqa: BLE001 - a class that is gone: the JSON still says what there was
        return value


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = _read(call.get("arguments") or "")
    return arguments if isinstance(arguments, dict) else {}
