"""What nodes write and graphs keep, as values of the journal: JSON that people can read, and never a pickle.

Messages are kept in LangChain's wire form, whatever class they are by then; what else a state holds is written by the
journal's own codec, which refuses what it cannot give back and names the path to it.
"""

from __future__ import annotations

from typing import Any, Final

import langchain_core.documents.base  # noqa: F401  (retrievers give them: read back wherever a tool imports them)
from langchain_core.messages import BaseMessage, messages_from_dict
from langchain_core.messages.base import TextAccessor
from langgraph.types import Command, Send

from hitl.journal.codec import encode

_TAG: Final = "$langchain"


def message_to_wire(message: BaseMessage) -> dict[str, Any]:
    """A message as JSON, without what is as it always is."""
    return {"type": message.type, "data": _plain(message)}


def message_from_wire(wire: dict[str, Any]) -> BaseMessage:
    """The message of ``message_to_wire``."""
    data = {name: from_wire(value) for name, value in wire["data"].items()}
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
    if "artifact" in data and _is_kept(artifact := getattr(message, "artifact", None)):
        data["artifact"] = artifact  # no model reads it: nodes do, and they get what the tool has given
    return {name: to_wire(value) for name, value in data.items()}


def _is_kept(value: Any) -> bool:
    """Whether the journal gives a value back as it is."""
    try:
        encode(to_wire(value))
    except (TypeError, ValueError):
        return False
    return True
