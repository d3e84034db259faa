"""What code of an agent of Strands asks a person by ``interrupt``: an interrupt of the turn, whose answer it gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_jsonable_python
from strands.interrupt import Interrupt

from hitl import _core
from hitl.decisions import read_approvers
from hitl.turn.interrupts import schema_reader, seconds
from hitl.turn.runtime import Turn

OPTIONS: Final = "hitl"
"""The member of a reason, where that is a dict, with our options."""

_KNOWN: Final = ("type", "response_schema", "description", "approvers", "expires_in")

_TYPES: Final = {"v1:tool_call:": "tool_interrupt", "v1:before_node_call:": "node_interrupt"}
"""By how ids begin. All others are of hooks and middleware."""


async def put_question(turn: Turn, interrupt: Interrupt, tool_use: Mapping[str, Any] | None) -> Any:
    """The answer, a JSON value. ``tool_use``: the call that it is about.

    A reason that is a dict may say under ``"hitl"`` of which ``type`` the interrupt is, what an answer has to fit
    (``response_schema``, a JSON Schema), and ``description``, ``approvers`` and ``expires_in``. Raises
    ``InterruptExpired``, ``InvalidPayload``, and ValueError and TypeError for options that are none.
    """
    reason, options = interrupt.reason, {}
    if isinstance(reason, dict) and isinstance(reason.get(OPTIONS), dict):
        options = reason[OPTIONS]
        for name in options:
            if name not in _KNOWN:
                raise TypeError(
                    f"the interrupt {interrupt.name!r}: there is no option {name!r}, there are {', '.join(_KNOWN)}"
                )
        reason = {name: value for name, value in reason.items() if name != OPTIONS}
    default = next((type_ for begin, type_ in _TYPES.items() if interrupt.id.startswith(begin)), "hook_interrupt")
    type_ = options.get("type", default)
    payload = {"type": type_, "id": interrupt.id, "name": interrupt.name, "reason": reason}
    if tool_use is not None:
        payload |= {"tool_name": tool_use["name"], "tool_args": tool_use["input"]}
    schema = options.get("response_schema")
    if schema is not None:
        _core.check_response_schema(schema)
    checked = json.loads(_core.check_payload(to_jsonable_python(payload, fallback=repr), turn.max_payload))
    return await turn.ask(
        type_,
        checked,
        message=options.get("description") or (reason if isinstance(reason, str) else interrupt.name),
        response_schema=schema,
        tool_call_id=None if tool_use is None else tool_use["toolUseId"],
        key=f"ask:{interrupt.id}",
        expires_in=seconds(f"the interrupt {interrupt.name!r}:", options.get("expires_in")),
        approvers=read_approvers(options.get("approvers")),
        read=schema_reader(type_, checked, schema),
        takes_past=True,
    )
