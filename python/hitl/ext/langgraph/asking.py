"""What graphs ask: LangGraph's interrupts as ours, and the answers in the words that the graph expects.

``HumanInTheLoopMiddleware`` asks for approvals, in one interrupt for all calls of a reply (``batched``) or in one for
each (``per_call``). Here each call is an approval of its own, in both. Whatever else calls ``interrupt(value)`` asks a
question; its ``response_schema`` is what an answer has to fit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage
from langgraph.types import Interrupt
from pydantic_core import to_jsonable_python

from hitl import _core
from hitl.decisions import DecisionKind
from hitl.errors import ToolRejected
from hitl.ext.gating import REFUSALS, ForeignCall, GateOptions, Refusal, approve, check_options
from hitl.ext.langgraph.arguments import args_schema_of, is_run
from hitl.ext.langgraph.inside import Approvals, own_tool_of, tool_asked_about
from hitl.turn.interrupts import schema_reader
from hitl.turn.runtime import Turn

logger = logging.getLogger("hitl.ext.langgraph")

OPTIONS: Final = "hitl"
"""The member of a tool's ``metadata`` with our options."""

_HINTS: Final = frozenset({"readonlyhint", "destructivehint", "idempotenthint", "openworldhint"})
_OF_SERVER: Final = "_meta"
# What the metadata of an MCP server's tool has, as langchain-mcp-adapters makes it of the server's annotations: beside
# these stands whatever else the server writes there.

QUESTION: Final = "question"
"""The type of a question whose value names none."""


async def answer(turn: Turn, interrupt: Interrupt, number: int, state: Any, approvals: Approvals, refusal: str) -> Any:
    """What a person says to the ``number``-th interrupt of a node, as ``interrupt()`` is to return it.

    ``state``: what the node was given, for the calls of the model in it. Calls that were approved are added to
    ``approvals``. ``refusal``: why an answer was refused before, or empty.
    """
    value = interrupt.value
    if _is_call(value):
        schema = _edit_schema(interrupt.response_schema)
        call = {"name": value["name"], "args": value["args"], "id": value["tool_call_id"]}
        allowed = _allowed_by(interrupt.response_schema)
        described = " ".join(text for text in (refusal, value.get("description")) if text)
        return await _decide(turn, call, allowed, described, schema, approvals)
    if _is_batch(value):
        return {"decisions": await _decide_all(turn, value, state, approvals)}
    return await _ask(turn, interrupt, number, refusal)


def options_of(tool: Any) -> GateOptions:
    """What a tool says in its ``metadata`` about its approval: ``{"hitl": {...}}``. What else is there is kept with
    the question, as ``metadata`` of its own. Nothing is read of what an MCP server says of its tool."""
    said = dict(getattr(tool, "metadata", None) or {})
    said.pop(_OF_SERVER, None)
    if _is_of_server(said):
        return {}
    own = said.pop(OPTIONS, None)
    where = f"metadata[{OPTIONS!r}] of {getattr(tool, 'name', None)}"
    options: dict[str, Any] = {} if own is None else dict(check_options(where, own))
    if said:
        options["metadata"] = {**to_jsonable_python(said, fallback=repr), **options.get("metadata", {})}
    return cast(GateOptions, options)


def doubt_of(tool: Any) -> str | None:
    """Why a call of a tool cannot be asked about, in words for its model: whether the agent's code has said how, or an
    MCP server, whose tool might then choose its approvers and the rules that it is under."""
    said = getattr(tool, "metadata", None) or {}
    if OPTIONS not in said or not _is_of_server(said):
        return None
    logger.warning(
        "calls of %s are refused: its metadata has %r beside the hints of an MCP server, who may have said it. "
        "hint: tool.metadata = {%r: {...}}, in the place of all that the server says",
        tool.name,
        OPTIONS,
        OPTIONS,
    )
    return f"its metadata[{OPTIONS!r}] may be the word of an MCP server"


def _is_of_server(said: Mapping[str, Any]) -> bool:
    return {str(name).replace("_", "").lower() for name in said} >= _HINTS


# -- approvals ---------------------------------------------------------------------------------------------------------


def _is_call(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") == "tool_approval"
        and {"tool_call_id", "name", "args"} <= value.keys()
    )


def _is_batch(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("action_requests"), list) and "review_configs" in value


async def _decide_all(turn: Turn, request: dict[str, Any], state: Any, approvals: Approvals) -> list[dict[str, Any]]:
    allowed = {each["action_name"]: each["allowed_decisions"] for each in request["review_configs"]}
    waits = []
    for action, call_id in zip(request["action_requests"], _call_ids(request["action_requests"], state), strict=True):
        name = action["name"]
        tool = tool_asked_about(name)
        schema = args_schema_of(tool) if tool is not None else None
        call = {"name": name, "args": action["args"], "id": call_id}
        waits.append(_decide(turn, call, allowed[name], action.get("description"), schema or _ANY_OBJECT, approvals))
    return list(await asyncio.gather(*waits))


_ANY_OBJECT: Final[dict[str, Any]] = {"type": "object"}


async def _decide(
    turn: Turn,
    call: dict[str, Any],
    allowed: Sequence[DecisionKind],
    description: str | None,
    schema: dict[str, Any] | None,
    approvals: Approvals,
) -> dict[str, Any]:
    """One decision, in LangChain's words."""
    tool = own_tool_of(call["name"])
    options: GateOptions = {**options_of(tool), "allowed_decisions": allowed}
    options.pop("description", None)  # the middleware has words for it
    if description:
        options["description"] = description
    foreign = ForeignCall(
        tool_name=call["name"],
        arguments=call["args"],
        call_id=call["id"],
        args_schema=schema,
        options=options,
        doubt=doubt_of(tool),
        is_run=tool is None or is_run(tool, call["args"]),
    )
    try:
        given = await approve(turn, foreign, required=True)
    except REFUSALS as no:
        if "reject" not in allowed:
            raise  # of a rule, or of what nobody can be shown: LangChain has no other way to leave a call out
        said = _reason_of(no, call["name"])
        return {"type": "reject", "message": said} if said else {"type": "reject"}
    if given is not None and given.responded:
        text = given.response if isinstance(given.response, str) else json.dumps(given.response)
        return {"type": "respond", "message": text}
    args = given.args if given is not None and given.edited else call["args"]
    approvals.add(call["id"], call["name"], args, judged=tool is not None)
    if given is not None and given.edited:
        return {"type": "edit", "edited_action": {"name": call["name"], "args": args}}
    return {"type": "approve"}


def _reason_of(no: Refusal, name: str) -> str | None:
    """What LangChain, which frames it, tells the model of a no; without it the model is told not to try again."""
    if isinstance(no, ToolRejected) and no.reason is not None:
        return no.reason
    return None if str(no) == _core.rejection_text(name, None) else str(no)


def _call_ids(actions: list[dict[str, Any]], state: Any) -> Iterator[str]:
    """The ids of the calls that a batch is about: it names them by name and arguments only, in the model's order."""
    calls = iter(_last_calls(state))
    for number, action in enumerate(actions, 1):
        found = next((call for call in calls if (call["name"], call["args"]) == (action["name"], action["args"])), None)
        yield f"{action['name']}:{number}" if found is None or not found["id"] else found["id"]


def waiting_calls(state: Any) -> list[Any]:
    """The calls of the last message, of which none has a result."""
    messages = _messages_of(state)
    said = messages[-1] if isinstance(messages, list) and messages else None
    return list(said.tool_calls) if isinstance(said, AIMessage) else []


def _messages_of(state: Any) -> Any:
    return state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)


def _last_calls(state: Any) -> list[Any]:
    messages = _messages_of(state)
    said = next((each for each in reversed(messages or []) if isinstance(each, AIMessage)), None)
    return [] if said is None else list(said.tool_calls)


def _allowed_by(schema: Any) -> list[DecisionKind]:
    """The decisions that the schema of a call's answer allows."""
    kinds: list[Any] = []
    for branch in _branches(schema):
        kind = branch.get("properties", {}).get("type", {})
        kinds += [kind["const"]] if "const" in kind else kind.get("enum", [])
    return kinds or ["approve", "reject"]


def _edit_schema(schema: Any) -> dict[str, Any] | None:
    """What edited arguments have to fit, by the schema of a call's answer."""
    for branch in _branches(schema):
        action = branch.get("properties", {}).get("edited_action")
        if action is not None:
            args = _resolved(_resolved(action, schema)["properties"]["args"], schema)
            return _with_definitions(args, schema.get("$defs", {}))
    return None


def _with_definitions(part: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a schema with those definitions that it refers to: whoever is asked sees them."""
    needed: dict[str, Any] = {}
    parts: list[Any] = [part]
    while parts:
        for name in _REFERENCE.findall(json.dumps(parts.pop())):
            if name not in definitions:
                return {**part, "$defs": dict(definitions)}  # written otherwise than pydantic does
            if name not in needed:
                needed[name] = definitions[name]
                parts.append(definitions[name])
    return {**part, "$defs": needed} if needed else part


_REFERENCE: Final = re.compile(r'"#/\$defs/([^"]+)"')


def _branches(schema: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        return
    for branch in schema.get("oneOf") or schema.get("anyOf") or [schema]:
        yield _resolved(branch, schema)


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return part
    found: dict[str, Any] = schema["$defs"][reference.removeprefix("#/$defs/")]
    return found


# -- questions ---------------------------------------------------------------------------------------------------------


async def _ask(turn: Turn, interrupt: Interrupt, number: int, refusal: str) -> Any:
    value = to_jsonable_python(interrupt.value, fallback=repr)
    payload = value if isinstance(value, dict) else {"value": value}
    kind = payload.get("type")
    type_ = kind if isinstance(kind, str) and kind else QUESTION
    checked = json.loads(_core.check_payload({**payload, "type": type_}, turn.max_payload))
    message = (
        value if isinstance(value, str) else next((payload[n] for n in _SAID if isinstance(payload.get(n), str)), None)
    )
    schema = _usable(interrupt.response_schema)
    return await turn.ask(
        type_,
        checked,
        message=" ".join(text for text in (refusal, message) if text) or None,
        response_schema=schema,
        key=f"ask:{number}",
        read=schema_reader(type_, checked, schema),
        takes_past=True,
    )


_SAID: Final = ("question", "message", "prompt", "instruction")
"""Members of a value that say in a line what is asked, as LangGraph's documentation names them."""


def _usable(schema: Any) -> dict[str, Any] | None:
    """A schema that answers can be checked against; a graph's own check comes after it in any case."""
    if not isinstance(schema, dict):
        return None
    try:
        _core.check_response_schema(schema)
    except (TypeError, ValueError):
        return None
    return schema
