"""The attachments inside of a value, and their places in its JSON.

Pydantic alone knows the JSON of a value: its aliases, its serializers, what it leaves out. So that is written as it
always is, and what an attachment became in it is known by what it says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hitl.attachments import Attachment


def attachments_in(value: Any) -> list[Attachment]:
    """Those in lists, sets, dicts, dataclasses and models of pydantic, at any depth."""
    found: list[Attachment] = []
    seen: set[int] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Attachment):
            found.append(each)
        elif (items := _items(each)) is not None and id(each) not in seen:
            seen.add(id(each))
            pending += items
    return found


def with_attachments(plain: Any, attachments: Iterable[Attachment], make: Callable[[Attachment], Any]) -> Any:
    """The JSON `plain` with what `make` says in the place of each attachment, in the order of their places."""
    known = {told: each for each in attachments for told in _told(each) if told}

    def replaced(value: Any) -> Any:
        if type(value) is list:
            return [replaced(item) for item in value]
        if type(value) is not dict:
            return value
        attachment = known.get(_said(value))
        if attachment is not None:
            return make(attachment)
        return {key: replaced(item) for key, item in value.items()}

    return replaced(plain)


def _items(value: Any) -> Iterable[Any] | None:
    """What a value holds; None of what holds nothing."""
    if isinstance(value, str | bytes | int | float) or value is None:
        return None
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    if hasattr(type(value), "__pydantic_core_schema__") and hasattr(type(value), "model_fields"):
        return [*value.__dict__.values(), *(value.__pydantic_extra__ or {}).values()]
    return None


def _told(attachment: Attachment) -> Iterable[tuple[Any, ...]]:
    """What the JSON of an attachment says: the fields of `Attachment`, which is all that a model with a field of that
    type writes, and those of its own class, where it has more."""
    yield _said(attachment.to_dict())
    if type(attachment) is not Attachment:
        from pydantic_core import to_jsonable_python  # late: hardly any class is made of it

        own = to_jsonable_python(attachment, by_alias=True, inf_nan_mode="strings", fallback=str)
        if isinstance(own, dict):
            yield _said(own)


def _said(told: Mapping[str, Any]) -> tuple[Any, ...]:
    """What an object says, whatever its members are called, since aliases rename them; of an object or a list in it
    only that it is there. An object that says nothing is no attachment."""
    values = (value for value in told.values() if value is not None)
    return tuple(type(value) if isinstance(value, dict | list) else value for value in values)
