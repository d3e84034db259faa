"""What nodes write and graphs keep, as values of the journal: JSON that people can read, and never a pickle.

Messages are kept in LangChain's wire form, whatever class they are by then; what else a state holds is written by the
journal's own codec, which refuses what it cannot give back and names the path to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, Final

import langchain_core.documents.base  # noqa: F401  (retrievers give them: read back wherever a tool imports them)
from langchain_core.messages import BaseMessage, messages_from_dict
from langchain_core.messages.base import TextAccessor
from langgraph.types import Command, Send
from pydantic import BaseModel

from hitl.journal.codec import decode, encode

_TAG: Final = "$langchain"

_GIVEN: Final = "given"
"""The member beside a message's data with its artifact as the tool has given it, in a text of the journal's."""


def message_to_wire(message: BaseMessage) -> dict[str, Any]:
    """A message as JSON, without what is as it always is."""
    data = _plain(message)
    wire = {"type": message.type, "data": data}
    if "artifact" in data and (given := _given(message)) is not None:
        wire[_GIVEN] = given
    return wire


def message_from_wire(wire: dict[str, Any]) -> BaseMessage:
    """The message of ``message_to_wire``."""
    data = {name: from_wire(value) for name, value in wire["data"].items()}
    if (given := wire.get(_GIVEN)) is not None:
        # Where its class is gone, or not imported here, the JSON is left: a conversation outlives what it began with.
        with suppress(ValueError):
            data["artifact"] = from_wire(decode(json.loads(given)))
    return messages_from_dict([{"type": wire["type"], "data": data}])[0]


def to_wire(value: Any) -> Any:
    """A value whose messages and commands are JSON; the rest is for the journal's codec."""
    if isinstance(value, BaseMessage):
        return {_TAG: "message", "value": message_to_wire(value)}
    if type(value) is TextAccessor:  # what the text of a message is: nobody but LangChain calls it
        return str(value)
    if isinstance(value, Send):
        return {_TAG: "send", "value": [value.node, to_wire(value.arg)]}
    if isinstance(value, Command):
        members = {"graph": value.graph, "update": value.update, "resume": value.resume, "goto": value.goto}
        return {_TAG: "command", "value": {name: to_wire(member) for name, member in members.items()}}
    if type(value) is list:
        return [to_wire(item) for item in value]
    if type(value) is tuple:
        return tuple(to_wire(item) for item in value)
    if type(value) is dict:
        written = {key: to_wire(item) for key, item in value.items()}
        return {_TAG: "dict", "value": written} if _TAG in value else written
    return value


def from_wire(value: Any) -> Any:
    """The value that ``to_wire`` was given."""
    if type(value) is list:
        return [from_wire(item) for item in value]
    if type(value) is tuple:
        return tuple(from_wire(item) for item in value)
    if type(value) is not dict:
        return value
    kind = value.get(_TAG)
    if kind is None:
        return {key: from_wire(item) for key, item in value.items()}
    content = value["value"]
    if kind == "message":
        return message_from_wire(content)
    if kind == "send":
        return Send(content[0], from_wire(content[1]))
    if kind == "command":
        return Command(**{name: from_wire(member) for name, member in content.items()})
    return {key: from_wire(item) for key, item in content.items()}


def _plain(message: BaseMessage) -> dict[str, Any]:
    data = message.model_dump(exclude_defaults=True)
    data.pop("type", None)
    data["content"] = message.content
    return {name: to_wire(value) for name, value in data.items()}


def _given(message: BaseMessage) -> str | None:
    """A text for the artifact of a message: no model reads it, but nodes do, and they get what the tool has given. None
    where that is its JSON, where the journal does not give it back, and where a part of it is not for others."""
    artifact = getattr(message, "artifact", None)
    if _keeps_something_back(artifact):
        return None
    try:
        given = json.dumps(encode(to_wire(artifact)))
    except (TypeError, ValueError):
        return None
    return None if json.loads(given) == artifact else given


def _keeps_something_back(value: Any) -> bool:
    """Whether a model in it has what its own JSON leaves out."""
    parts: Iterable[Any] = ()
    if isinstance(value, BaseModel):
        if value.__pydantic_private__ or any(field.exclude for field in type(value).model_fields.values()):
            return True
        parts = [*vars(value).values(), *(value.__pydantic_extra__ or {}).values()]
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name, None) for field in fields(value)]
    elif isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    return any(map(_keeps_something_back, parts))
